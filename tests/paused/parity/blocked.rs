//! In real time, on a thread that was blocked past the time of what is armed: this is ready once
//! the driver has come round, and not by a look at the clock. So a message that came in time wins.

use std::future::pending;
use std::thread;

use tokio::task::yield_now;
use tokio::time::Instant;
use tokio_test::{assert_pending, task};

use super::same_as_tokio;
use crate::common::{HOUR, MS, current_thread};

/// Blocks the thread, and with it the runtime's time driver, until the deadline has passed.
fn block_until(deadline: Instant) {
    while Instant::now() <= deadline + MS {
        thread::sleep(deadline.saturating_duration_since(Instant::now()) + 2 * MS);
    }
}

same_as_tokio! {
    async fn what_is_armed_on_a_blocked_thread_waits_for_the_driver(_seed in 0..1)
        -> Vec<[bool; 4]> in current_thread
    {
        let deadline = Instant::now() + 100 * MS;
        let mut nap = task::spawn(Box::pin(time::sleep_until(deadline)));
        let mut bounded = task::spawn(time::timeout_at(deadline, pending::<()>()));
        let mut beat = time::interval_at(deadline, HOUR);
        let mut beat = task::spawn(beat.tick());
        assert_pending!(nap.poll());
        assert_pending!(bounded.poll());
        assert_pending!(beat.poll());
        block_until(deadline);
        let mut trace = Vec::new();
        for _ in 0..2 {
            trace.push([nap.is_woken(), nap.is_elapsed(), bounded.is_woken(), beat.is_woken()]);
            let ready = [nap.poll().is_ready(), bounded.poll().is_ready(), beat.poll().is_ready()];
            trace.push([ready[0], ready[1], ready[2], nap.is_elapsed()]);
            yield_now().await;
        }
        assert_eq!((trace[1], trace[3]), ([false; 4], [true; 4]));
        trace
    }
}
