//! How a sleep ended.
//!
//! Invariant: whoever polls a sleep within the crate decides what a runtime that has shut down
//! means. A future of the user's own panics then, as tokio's do. An adapter reports it.

#[cfg(any(feature = "io", feature = "http-body"))]
use crate::error::Cancelled;
use crate::error::Elapsed;

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its deadline has passed.
    Elapsed,
    /// The runtime that drives its timer has shut down before that.
    ShutDown,
}

impl Ended {
    /// What a [`Timeout`](crate::Timeout) gives then.
    ///
    /// # Panics
    ///
    /// When the runtime has shut down.
    #[inline]
    pub(crate) fn elapsed(self) -> Elapsed {
        match self {
            Ended::Elapsed => Elapsed::new(),
            Ended::ShutDown => panic_shut_down(),
        }
    }

    /// What an adapter gives that tells a runtime's end as an error.
    #[cfg(any(feature = "io", feature = "http-body"))]
    pub(crate) fn or_cancelled(self) -> Result<(), Cancelled> {
        match self {
            Ended::Elapsed => Ok(()),
            Ended::ShutDown => Err(Cancelled::SHUTDOWN),
        }
    }
}

#[cold]
pub(super) fn panic_shut_down() -> ! {
    panic!(
        "the tokio runtime that drives this timer has shut down while the timer was pending; \
         keep that runtime running for as long as its timers are awaited. \
         (A Tokio 1.x context was found, but it is being shutdown.)"
    )
}
