//! The timer of the stream: which timer wakes it, and at which tick.
//!
//! Invariant: it holds a key from when the stream has armed the timer until it is taken, gone off
//! or not. It is set to the earliest due by the stream, and put off by whoever removes what was the
//! earliest. It has no waker in hand: those are cloned, registered and dropped with the stream's
//! timer's lock let go.

use crate::shard::Shard;
use crate::wheel::Key;

#[derive(Default)]
pub(super) struct StreamTimer {
    armed: Option<Armed>,
}

#[derive(Clone, Copy)]
struct Armed {
    key: Key,
    at: u64,
}

impl StreamTimer {
    /// The stream has armed a timer.
    pub(super) fn armed(&mut self, key: Key, at: u64) {
        self.armed = Some(Armed { key, at });
    }

    /// Has the timer go off at tick `at`, and gives its key; `None` if there is none, or it has
    /// gone off.
    pub(super) fn move_to(&mut self, shard: &Shard, at: u64) -> Option<Key> {
        let Armed { key, at: before } = self.armed?;
        let is_armed = at == before || shard.move_to_tick(key, at);
        self.armed = is_armed.then_some(Armed { key, at });
        is_armed.then_some(key)
    }

    /// If there is a timer, has it go off at tick `at`.
    pub(super) fn set_if_armed(&mut self, shard: &Shard, at: u64) {
        self.move_to(shard, at);
    }

    /// Gives the key away: to be disarmed, or because the timer has gone off.
    pub(super) fn take(&mut self) -> Option<Key> {
        self.armed.take().map(|armed| armed.key)
    }
}
