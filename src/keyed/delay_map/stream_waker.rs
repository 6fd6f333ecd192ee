//! The protocol of a map's stream: how a change of the map makes the stream check in time.
//! `tests/loom` compiles this file.
//!
//! ```text
//!   a call that makes a change                  the stream
//!   --------------------------                  ----------
//!   C1  with the part locked: change the part   S1  stop waiting
//!       and write its earliest tick             S2  take the first of what is due
//!   C2  with the part unlocked: ask whether     S3  register its waker, begin a check, read the
//!       the stream has to be woken                  earliest ticks: nothing is due, no end
//!   C3  wake it, under no lock                  S4  set its timer to the earliest tick
//!                                               S5  say so, and wait
//! ```
//!
//! Invariants:
//!
//! - No wake-up is lost. Whenever the stream waits, and no call is between C1 and its last step,
//!   the timer is set for the earliest tick or before, or the stream was woken.
//! - Only the stream stops and begins to wait. Any thread takes the waker, and wakes it under no
//!   lock. If an earlier call took it, the stream was woken and has not checked since.
//!
//! Where time may jump, the timer must not pull it along to an item that is gone. So there each
//! change finds the earliest tick of its part anew, and writes it. If that is another tick than
//! before, C2 takes the timer away, and C3 lets the stream set it again, unless it waits for an
//! earlier tick.
//!
//! # Orders that could go wrong, and why they do not
//!
//! - *A change comes as the stream begins to wait.* C1 and C2 are the two steps of a change, and S3
//!   has the two steps of a check. `clock::next_check` proves that one sees the other.
//! - *Two changes of one part.* C1 is under the part's lock, so the earlier tick stays. The change
//!   that wrote it wakes the stream for both.
//! - *The timer is taken away as the stream sets it.* The call finds that the stream does not check
//!   by itself, and wakes it.
//! - *The map is closed, or loses its last handle, as the stream begins to wait.* The call sets the
//!   state and then takes the waker. The stream registers its waker and then reads the state (S3).
//!   The waker's lock orders the two, so the stream sees the state or is woken.

use std::task::{Poll, Waker};

use super::earliest::Earliest;
use crate::clock::next_check::NextCheck;
use crate::clock::tick::Tick;
use crate::sync::{Mutex, lock};

pub(crate) struct StreamWaker {
    pub(crate) earliest: Earliest,
    pub(super) stream: Waiting,
}

/// On a cache line of its own, because the stream writes it at each poll.
#[repr(align(64))]
pub(super) struct Waiting {
    /// When the stream checks at the latest, unless it is woken: `FIRST` while it does not wait.
    next_check: NextCheck,
    waker: Mutex<Option<Waker>>,
}

/// For a call that changes the map. Each returns the stream's waker if the caller has to wake it:
/// C3, under no lock.
impl StreamWaker {
    pub(crate) fn new(parts: usize) -> StreamWaker {
        StreamWaker {
            earliest: Earliest::new(parts),
            stream: Waiting {
                next_check: NextCheck::new(Tick::FIRST),
                waker: Mutex::new(None),
            },
        }
    }

    /// Something in a locked part was set to `tick`, where time cannot jump.
    ///
    /// An earlier tick may have been too early, and stays. That costs one check; finding the
    /// earliest again would cost more each time.
    pub(crate) fn lower<G>(&self, part: usize, tick: Tick, locked: G) -> Option<Waker> {
        // C1.
        let is_earlier = self.earliest.lower(part, tick);
        drop(locked);
        // If it is not earlier, the call that wrote the earlier one wakes the stream, for both.
        if !is_earlier {
            return None;
        }
        // C2.
        self.take_unless_it_checks_by(tick)
    }

    /// A locked part was changed, and `earliest` is now its earliest tick, where time may jump.
    pub(crate) fn replace<G>(
        &self,
        part: usize,
        earliest: Tick,
        locked: G,
        take_timer_away: impl FnOnce(),
    ) -> Option<Waker> {
        // C1.
        let before = self.earliest.write(part, earliest);
        drop(locked);
        // C2.
        if earliest == before || self.waits_for_less_than(earliest.min(before)) {
            return None;
        }
        take_timer_away();
        // A stream that checks by itself sets the timer again, or does not need it.
        self.take_unless_it_checks_by(Tick::FIRST)
    }

    /// Everything was taken out of the map, and the ticks of all parts were written.
    pub(crate) fn all_are_gone(&self, take_timer_away: impl FnOnce()) -> Option<Waker> {
        take_timer_away();
        self.take_unless_it_checks_by(Tick::FIRST)
    }

    /// The state of the map was changed so that the stream may end.
    pub(crate) fn may_have_ended(&self) -> Option<Waker> {
        self.take()
    }

    fn take_unless_it_checks_by(&self, tick: Tick) -> Option<Waker> {
        if self.stream.next_check.comes_by(tick) {
            return None;
        }
        self.take()
    }

    /// Whether the stream waits for an earlier tick.
    fn waits_for_less_than(&self, tick: Tick) -> bool {
        self.stream.next_check.lies_between(Tick::FIRST, tick)
    }

    fn take(&self) -> Option<Waker> {
        lock(&self.stream.waker).take()
    }
}

/// For the stream.
impl StreamWaker {
    /// S1.
    pub(crate) fn stop_waiting(&self) {
        self.stream.next_check.set(Tick::FIRST);
    }

    /// S3: registers the waker, unless it is here already. It is cloned and dropped under no lock.
    /// Call this before the check for the end.
    pub(crate) fn register(&self, waker: &Waker) {
        let is_here = |left: &Waker| left.will_wake(waker);
        if !lock(&self.stream.waker).as_ref().is_some_and(is_here) {
            let clone = waker.clone();
            let replaced = lock(&self.stream.waker).replace(clone);
            drop(replaced);
        }
    }

    /// S3 to S5. `set` sets the timer for the earliest tick, which may be `NEVER`, unless that has
    /// come. It is ready with what the stream then does.
    pub(crate) fn wait<R>(&self, set: impl FnOnce(Tick) -> Poll<R>) -> Poll<R> {
        let earliest = self.stream.next_check.begin(|| self.earliest.of_all());
        // S4.
        let set = set(earliest);
        // S5.
        if set.is_pending() {
            self.stream.next_check.set(earliest);
        }
        set
    }

    /// No stream waits any more. Returns its waker, for the caller to drop.
    pub(crate) fn stop(&self) -> Option<Waker> {
        self.stop_waiting();
        self.take()
    }
}
