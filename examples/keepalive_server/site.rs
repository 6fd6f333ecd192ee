//! What all connections of a server share.

use tickwheel::{Duration, Timer};

use crate::counters::Counters;

pub(crate) struct Site {
    pub(crate) timer: Timer,
    pub(crate) timeout: Duration,
    pub(crate) counters: Counters,
}

impl Site {
    pub(crate) fn new(timer: &Timer, timeout: Duration) -> Site {
        Site {
            timer: timer.clone(),
            timeout,
            counters: Counters::default(),
        }
    }
}
