//! Timeouts as methods of a future.

use tickwheel::Instant;
use tickwheel_util::future::FutureExt as _;

use crate::common::SECOND;

#[tokio::test(start_paused = true)]
async fn a_future_takes_its_timeout_as_a_method() {
    let start = Instant::now();
    assert_eq!(async { 7 }.timeout(SECOND).await, Ok(7));
    assert!(std::future::pending::<()>().timeout(SECOND).await.is_err());
    let pending = std::future::pending::<()>();
    assert!(pending.timeout_at(start + 3 * SECOND).await.is_err());
    assert_eq!(start.elapsed(), 3 * SECOND);
}

/// A stream has a method of that name too.
#[cfg(feature = "stream")]
#[tokio::test(start_paused = true)]
async fn both_traits_can_be_imported() {
    use futures::StreamExt as _;
    use futures::stream;
    use tickwheel_util::stream::StreamExt as _;

    let mut items = stream::iter([1]).timeout(SECOND);
    assert_eq!(items.next().timeout(SECOND).await, Ok(Some(Ok(1))));
}
