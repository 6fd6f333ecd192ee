//! Both timeouts in a process that cannot run for a while. A stall is of real time, so the only
//! worker of a runtime is blocked. If the machine is so slow that a grace may have ended, a try has
//! shown nothing.

use std::thread;

use tickwheel::{Instant, sleep};
use tickwheel_util::stream::StreamExt as _;
use tokio_test::{assert_pending, assert_ready, task};

use super::channel;
use crate::common::{MS, multi_thread};

#[test]
fn a_stall_counts_for_a_timeout_and_not_for_an_idle_timeout() {
    let is_conclusive = |_| {
        let runtime = multi_thread(1);
        let stalled = runtime.spawn(after_a_stall());
        runtime.block_on(stalled).unwrap().is_some()
    };
    let is_shown = (0..20).any(is_conclusive);
    assert!(is_shown, "inconclusive: the machine is too slow");
}

/// `None` if it has shown nothing.
async fn after_a_stall() -> Option<()> {
    let (sender, items) = channel();
    let mut idle = task::spawn(items.idle_timeout(200 * MS));
    assert_pending!(idle.poll_next());
    let (_sender, items) = channel::<u8>();
    let mut plain = task::spawn(items.timeout(200 * MS));
    assert_pending!(plain.poll_next());

    thread::sleep(400 * MS); // nothing else runs on the only worker
    let resumed = Instant::now();
    sleep(2 * MS).await; // the driver turns
    assert!(assert_ready!(plain.poll_next()).unwrap().is_err());
    let polled = idle.poll_next();
    if resumed.elapsed() > 90 * MS {
        return None;
    }
    assert_pending!(polled, "it has a grace of 100 ms at least");
    sender.send(7).unwrap(); // read from the socket only now
    assert_eq!(assert_ready!(idle.poll_next()), Some(Ok(7)));
    let start = Instant::now();
    assert_pending!(idle.poll_next());
    sleep(200 * MS).await;
    assert!(start.elapsed() >= 200 * MS);
    Some(())
}
