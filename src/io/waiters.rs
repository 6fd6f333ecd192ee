//! The tasks that wait for the two directions of an [`IdleTimeout`](super::IdleTimeout). A deadline
//! wakes one waker, which has to wake both tasks.
//!
//! Invariants:
//!
//! - After a wake-up each registered task is woken, or the poll that registered it since then is
//!   told: `woken` is set with the wakers taken, and taken with a waker stored. `tests/loom` has
//!   the model.
//! - No waker is cloned, woken or dropped under the lock, because it may come back here.

use std::sync::Arc;
use std::task::{Wake, Waker};

use crate::report::contain;
use crate::sync::{Mutex, lock};

/// Flushing and shutting down belong to writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(crate) fn other(self) -> Direction {
        match self {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    state: Mutex<WaitersState>,
}

#[derive(Debug, Default)]
struct WaitersState {
    /// By [`Direction`].
    wakers: [Option<Waker>; 2],
    /// Whether the deadline has woken since a direction was registered last.
    woken: bool,
}

impl Waiters {
    /// Stores the waker of the task that waits in a direction. Returns whether the deadline has
    /// woken since a direction was registered last.
    pub(crate) fn register(&self, direction: Direction, waker: &Waker) -> bool {
        let mut state = lock(&self.state);
        let kept = state.wakers[direction as usize].as_ref();
        if kept.is_some_and(|kept| kept.will_wake(waker)) {
            return std::mem::take(&mut state.woken);
        }
        drop(state);
        let waker = waker.clone();
        state = lock(&self.state);
        let before = state.wakers[direction as usize].replace(waker);
        let woken = std::mem::take(&mut state.woken);
        drop(state);
        drop(before);
        woken
    }

    pub(crate) fn wake(&self, direction: Direction) {
        let waker = lock(&self.state).wakers[direction as usize].take();
        if let Some(waker) = waker {
            contain(|| waker.wake());
        }
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        state.woken = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        for waker in wakers.into_iter().flatten() {
            contain(|| waker.wake());
        }
    }
}
