//! Each line of the table «Where it plugs in» of `docs/MIGRATION.md`, as a test of its name: the
//! real crate takes what the line gives it, and its time passes on tickwheel's timer.
//!
//! Most run under the paused clock. The longer tests of the adapters are in files of their own.
//!
//! Invariant: after each test nothing stays armed.

mod runtimes;
mod services;
mod sleepers;
mod sockets;
mod streams;
mod timers;

use std::time::Duration;

use tickwheel::Timer;

/// How long a test waits for what must happen, and fails after that.
const PATIENCE: Duration = Duration::from_secs(30);

/// A task that held a timer may still be going away.
async fn assert_nothing_stays_armed(timer: &Timer) {
    let disarmed = async {
        while timer.metrics().pending() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let disarmed = tokio::time::timeout(PATIENCE, disarmed).await;
    disarmed.expect("nothing stays armed");
    assert!(timer.metrics().armed() > 0, "the timer was in use");
}
