//! Large futures: what bounds one takes no more of the stack than tokio-util's timeout does.
#![cfg(all(feature = "time", feature = "tower"))]

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../../tests/common/large_futures.rs"]
mod large_futures;

use tickwheel_util::future::FutureExt;
use tickwheel_util::tower::{BoxError, Timeout};
use tower::{Service, service_fn};

use crate::large_futures::{MINUTE, Way, at, large, poll};

const WAYS: &[Way] = &[
    ("tokio-util's FutureExt::timeout", || {
        poll!(tokio_util::future::FutureExt::timeout(large(), MINUTE));
    }),
    ("FutureExt::timeout", || poll!(large().timeout(MINUTE))),
    ("FutureExt::timeout_at", || poll!(large().timeout_at(at()))),
    ("tower::Timeout", || poll!(fixed())),
];

fn fixed() -> impl Future<Output = Result<u8, BoxError>> {
    Timeout::new(service_fn(|()| large()), MINUTE).call(())
}

#[test]
fn a_large_future_needs_no_more_stack_than_with_tokio() {
    large_futures::a_large_future_needs_no_more_stack_than_with_tokio(&[WAYS]);
}
