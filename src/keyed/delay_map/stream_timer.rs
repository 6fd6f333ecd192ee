//! The timer of the stream: which timer wakes it, and at which tick.
//!
//! Invariant: it holds the key of the timer that the stream has armed. It does so until the key is
//! taken, or the timer was found to have fired. The stream sets it to the earliest due, and a call
//! that removes the earliest puts it off. It never holds a waker: the map clones, registers and
//! drops wakers with this unlocked.

use std::sync::Arc;

use crate::shard::{AfterAllLocks, Shard};
use crate::wheel::Key;

#[derive(Default)]
pub(super) struct StreamTimer {
    armed: Option<Armed>,
}

#[derive(Clone, Copy)]
struct Armed {
    key: Key,
    /// The tick that it is set to.
    at: u64,
}

/// What came of setting the timer.
pub(super) enum Moved {
    /// It is armed. What is left to do is for when this is unlocked: it may wake tasks.
    Armed(Key, AfterAllLocks),
    /// It was taken away. The caller disarms it when this is unlocked.
    Unset(Key),
    /// There is no timer, or it has fired.
    NotArmed,
}

impl StreamTimer {
    /// The stream has armed a timer.
    pub(super) fn armed(&mut self, key: Key, at: u64) {
        self.armed = Some(Armed { key, at });
    }

    /// Takes the timer away, because nothing will be due.
    pub(super) fn unset(&mut self) -> Moved {
        self.take().map_or(Moved::NotArmed, Moved::Unset)
    }

    /// Sets the timer to tick `at`.
    pub(super) fn move_to(&mut self, shard: &Arc<Shard>, at: u64) -> Moved {
        let Some(Armed { key, at: before }) = self.armed else {
            return Moved::NotArmed;
        };
        let (is_armed, afterwards) = if at == before {
            (true, AfterAllLocks::default())
        } else {
            shard.move_to_tick(key, at)
        };
        if is_armed {
            self.armed = Some(Armed { key, at });
            Moved::Armed(key, afterwards)
        } else {
            self.armed = None;
            Moved::NotArmed
        }
    }

    /// Gives the key away: to be disarmed, or because the timer has fired.
    pub(super) fn take(&mut self) -> Option<Key> {
        self.armed.take().map(|armed| armed.key)
    }
}
