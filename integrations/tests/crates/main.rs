//! The adapters beside the real crates that they are for.
//!
//! One program, because each links all of these crates.

mod axum;
mod body;
mod quinn;
mod quinn_timer;
mod recipes;
mod slow_readers;
mod tonic;
mod turmoil;

use std::time::Duration;

use tickwheel::Timer;

/// How long a test waits for what must happen, and fails after that.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whatever held a timer may still be going away when its answer has come.
async fn assert_nothing_stays_armed(timer: &Timer) {
    let disarmed = async {
        while timer.metrics().pending() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let disarmed = tokio::time::timeout(PATIENCE, disarmed).await;
    disarmed.expect("nothing stays armed");
}
