//! `Deadline` and `ResetHandle`: what their owners report, and an extension without an end.

use tickwheel::{DeadlineMap, Duration, Instant, Timer};
use tokio_test::{assert_pending, task};

use crate::common::{HOUR, MS};

#[tokio::test(start_paused = true)]
async fn deadlines_and_keyed_ones_tell_what_their_handles_do() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let plain = timer.deadline(60 * MS);
    let keyed = map.insert("alice", 60 * MS).unwrap();
    for ends in [false, true] {
        tokio::time::advance(20 * MS).await;
        assert!(!ends || plain.handle().expire() && keyed.handle().expire());
        let expected = (!ends).then(|| (Instant::now() + 40 * MS, 40 * MS)).unzip();
        assert_eq!((plain.deadline(), plain.remaining()), expected);
        assert_eq!((keyed.deadline(), keyed.remaining()), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_beyond_all_time_saturates() {
    let mut waiting = task::spawn(Timer::current().deadline(MS));
    let handle = waiting.handle();
    assert!(handle.extend(Duration::MAX));
    assert!(handle.remaining() > Some(1_000_000 * HOUR));
    assert!(handle.extend(Duration::MAX) && handle.is_pending());
    assert_pending!(waiting.poll());
    assert!(handle.reset());
    assert_eq!(handle.remaining(), Some(MS));
}
