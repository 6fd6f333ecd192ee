//! What the first poll of a sleep does before it arms.
//!
//! Invariant: it reads no clock if the answer is known without a reading.

use std::time::Duration;

use crate::shard::Shard;
use crate::time::due::Due;

/// What a poll does before it arms.
#[derive(Clone, Copy)]
pub(crate) enum FirstPoll {
    /// The sleep was due when it was made, so it is ready.
    IsReady,
    /// The sleep may have been due when it was made, so the poll looks at the clock.
    Looks,
    /// The sleep was not due when it was made. The poll looks at the clock only if the driver may
    /// have passed the due since then.
    LooksIfUnplanned,
}

impl FirstPoll {
    #[inline]
    pub(crate) fn after(duration: Duration) -> FirstPoll {
        if duration.is_zero() {
            FirstPoll::IsReady
        } else {
            FirstPoll::LooksIfUnplanned
        }
    }

    /// Whether a sleep was due when it was made, or may have been due then and is due now. `placed`
    /// is the tick at which its due is placed.
    #[inline]
    pub(crate) fn finds_due(self, shard: &Shard, due: Due, placed: u64) -> bool {
        match self {
            FirstPoll::IsReady => true,
            FirstPoll::Looks => shard.clock().is_due_now(due),
            // A sleep that is due at the plan or later fires with the turn that is planned, as an
            // armed one does.
            FirstPoll::LooksIfUnplanned => {
                shard.is_unplanned(placed) && shard.clock().is_due_now(due)
            }
        }
    }
}
