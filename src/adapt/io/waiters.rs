//! The wakers of the two tasks that may wait for one stream, behind one waker for its deadline.
//!
//! A deadline wakes the task that polled last. The halves of a stream may be polled by two tasks,
//! and the end of the deadline concerns both. So the deadline is given a waker of its own, which
//! wakes whoever waits in either direction.
//!
//! Invariant: no waker is cloned, woken or dropped under the lock, because a waker is its user's
//! code and may come back here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use crate::sync::lock;

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

#[derive(Debug, Default)]
pub(super) struct Waiters {
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
    /// Keeps the waker of the task that waits in a direction. Returns whether the deadline has
    /// woken since a direction was registered last.
    pub(super) fn register(&self, direction: Direction, waker: &Waker) -> bool {
        let mut state = self.lock();
        let kept = state.wakers[direction as usize].as_ref();
        if kept.is_some_and(|kept| kept.will_wake(waker)) {
            return std::mem::take(&mut state.woken);
        }
        drop(state);
        let waker = waker.clone();
        state = self.lock();
        let before = state.wakers[direction as usize].replace(waker);
        let woken = std::mem::take(&mut state.woken);
        drop(state);
        drop(before);
        woken
    }

    /// Wakes whoever waits in a direction.
    pub(super) fn wake(&self, direction: Direction) {
        let waker = self.lock().wakers[direction as usize].take();
        if let Some(waker) = waker {
            wake(waker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitersState> {
        lock(&self.state)
    }
}

impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.lock();
        state.woken = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        for waker in wakers.into_iter().flatten() {
            wake(waker);
        }
    }
}

/// Wakes a task. A panic of its waker keeps nobody else from being woken.
fn wake(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Its destructor may panic too.
        std::mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Default)]
    struct Wakes {
        panics: bool,
        was_woken: AtomicBool,
    }

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.was_woken.store(true, Ordering::Relaxed);
            if self.panics {
                std::panic::resume_unwind(Box::new("a waker's own panic"));
            }
        }
    }

    #[test]
    fn a_panicking_waker_keeps_the_other_task_from_nothing() {
        for panicking in [Direction::Read, Direction::Write] {
            let waiters = Arc::new(Waiters::default());
            let tasks = [panicking, panicking.other()].map(|direction| {
                let task = Arc::new(Wakes {
                    panics: direction == panicking,
                    ..Wakes::default()
                });
                waiters.register(direction, &Waker::from(task.clone()));
                task
            });
            Waker::from(waiters).wake();
            let were_woken = tasks.map(|task| task.was_woken.load(Ordering::Relaxed));
            assert_eq!(were_woken, [true, true]);
        }
    }
}
