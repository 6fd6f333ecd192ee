//! A sleep that goes on when the runtime of its timer has shut down: for a caller whose trait has
//! no error to report that by.
//!
//! Invariant: it is never ready before its deadline, as the clock of its runtime told that until
//! the end. From then on the time that was left passes by the system's clock.

use crate::future::sleep::Sleep;
use crate::timer::global;

impl Sleep {
    /// From now on it goes on when its runtime shuts down.
    pub(crate) fn outlasting_its_runtime(mut self) -> Sleep {
        self.outlasts_its_runtime = true;
        self
    }

    /// Goes on, on the process's timer, for the time that is left.
    pub(super) fn move_to_global(&mut self) {
        let now = self.shard().clock().now_instant();
        let left = self.deadline().saturating_duration_since(now);
        *self = Sleep::after(global::timer().shard().clone(), left).outlasting_its_runtime();
    }
}
