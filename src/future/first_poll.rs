//! What the first poll of a sleep does before it arms.
//!
//! Invariant: it reads no clock where the answer is known without it.

use std::time::Duration;

use crate::shard::Shard;
use crate::time::due::Due;

/// What a poll does before it arms.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstPoll {
    /// It was due when it was made: it is ready.
    IsReady,
    /// It may have been due when it was made: look at the clock.
    Looks,
    /// It was not due when it was made: look at the clock only if the driver may have passed it
    /// over since.
    LooksIfUnplanned,
    /// It is not ready before the driver has come by: leave it to that.
    Arms,
}

impl FirstPoll {
    #[inline]
    pub(super) fn after(duration: Duration) -> FirstPoll {
        if duration.is_zero() {
            FirstPoll::IsReady
        } else {
            FirstPoll::LooksIfUnplanned
        }
    }

    /// Whether a sleep was due when it was made, or may have been and is now.
    #[inline]
    pub(super) fn finds_due(self, shard: &Shard, due: Due) -> bool {
        match self {
            FirstPoll::IsReady => true,
            FirstPoll::Looks => shard.clock().is_due_now(due),
            // What is due at the plan or after it fires with the turn that is planned, as what is
            // armed does.
            FirstPoll::LooksIfUnplanned => shard.is_unplanned(due) && shard.clock().is_due_now(due),
            FirstPoll::Arms => false,
        }
    }
}
