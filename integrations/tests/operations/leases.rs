//! The recipe for leases, as it stands on the page, with a server that answers late. And a watchdog
//! that fires while the program is blocked.

use std::thread;

use tickwheel::{Duration, Instant, Timer};
use tokio::runtime::Builder;
use tokio::time::{sleep, sleep_until};

mod lease {
    include!(concat!(env!("OUT_DIR"), "/lease.rs"));
}

const SECOND: Duration = Duration::from_secs(1);

async fn granted_after(delay: Duration) -> bool {
    sleep(delay).await;
    true
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_a_term_after_its_request_was_sent() {
    let timer = lease::timer().unwrap();
    let start = Instant::now();
    let held = lease::acquire(&timer, async || granted_after(2 * SECOND).await).await;
    held.unwrap().await.unwrap();
    assert_eq!(start.elapsed(), 10 * SECOND, "and not 12");

    // Each renewal has its answer after two seconds. The last one is refused.
    let start = Instant::now();
    let held = lease::acquire(&timer, async || granted_after(SECOND).await).await;
    let held = held.unwrap();
    let handle = held.handle();
    for (sent, is_granted) in [(5, true), (12, true), (20, false)] {
        sleep_until(start + sent * SECOND).await;
        let request = async || granted_after(2 * SECOND).await && is_granted;
        assert_eq!(lease::renew(&timer, &handle, request).await, is_granted);
    }
    held.await.unwrap();
    assert_eq!(start.elapsed(), 22 * SECOND);
    let late = lease::renew(&timer, &handle, async || true).await;
    assert!(!late, "another process may hold it by now");

    let too_slow = lease::acquire(&timer, async || granted_after(10 * SECOND).await).await;
    let refused = lease::acquire(&timer, async || false).await;
    assert!(too_slow.is_none() && refused.is_none());
    assert_eq!(timer.metrics().pending(), 0);
}

#[tokio::test]
async fn a_watchdog_of_its_own_fires_while_the_program_is_blocked() {
    let mut builder = Builder::new_multi_thread();
    let watchdog = builder.worker_threads(1).enable_time().build().unwrap();
    let timer = Timer::builder().stall_grace(false);
    let timer = timer.build_on(watchdog.handle()).unwrap();
    let lease = timer.deadline(Duration::from_millis(50));
    let watching = watchdog.spawn(lease);
    while !watching.is_finished() {
        thread::sleep(Duration::from_millis(1)); // the only thread of this runtime
    }
    assert_eq!(watching.await.unwrap(), Ok(()));
    watchdog.shutdown_background();
}
