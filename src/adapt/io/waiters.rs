//! The wakers of the two tasks that may wait for one stream, behind one waker for its deadline.
//!
//! A deadline wakes the task that polled last. The halves of a stream may be polled by two tasks,
//! and the end of the deadline concerns both. So the deadline is given a waker of its own, which
//! wakes whoever waits in either direction.
//!
//! Invariant: no waker is cloned, woken or dropped under the lock, because a waker is its user's
//! code and may come back here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use crate::waking::wake;

/// Which way bytes go. Flushing and shutting down belong to writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(super) fn other(self) -> Direction {
        match self {
            Direction::Read => Direction::Write,
            Direction::Write => Direction::Read,
        }
    }
}

/// One value for each direction.
#[derive(Debug, Default)]
pub(super) struct PerDirection<V> {
    read: V,
    write: V,
}

impl<V> PerDirection<V> {
    pub(super) fn of(&mut self, direction: Direction) -> &mut V {
        match direction {
            Direction::Read => &mut self.read,
            Direction::Write => &mut self.write,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Waiters {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    wakers: PerDirection<Option<Waker>>,
    /// Whether the deadline has woken since a direction looked last.
    woken: bool,
}

impl Waiters {
    /// Keeps the waker of the task that waits in a direction. Gives whether the deadline has woken
    /// since a direction looked last.
    pub(super) fn register(&self, direction: Direction, waker: &Waker) -> bool {
        let mut slots = self.lock();
        if !slots.holds(direction, waker) {
            drop(slots);
            let waker = waker.clone();
            slots = self.lock();
            let before = slots.wakers.of(direction).replace(waker);
            let woken = std::mem::take(&mut slots.woken);
            drop(slots);
            drop(before);
            return woken;
        }
        std::mem::take(&mut slots.woken)
    }

    /// Wakes whoever waits in a direction.
    pub(super) fn wake(&self, direction: Direction) {
        let waker = self.lock().wakers.of(direction).take();
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn holds(&mut self, direction: Direction, waker: &Waker) -> bool {
        let held = self.wakers.of(direction).as_ref();
        held.is_some_and(|held| held.will_wake(waker))
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut slots = self.lock();
        slots.woken = true;
        let PerDirection { read, write } = std::mem::take(&mut slots.wakers);
        drop(slots);
        // A panic in one of the wakers does not keep the other from being woken.
        for waker in [read, write].into_iter().flatten() {
            wake(waker);
        }
    }
}
