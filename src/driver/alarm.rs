//! The alarm, and its lock.
//!
//! A thread that arms something earlier takes the lock, compares, and sets the alarm. A turn takes
//! it twice: when it begins, and when it reads the next expiries and sets the alarm again. Between
//! the two it holds no lock.
//!
//! ```text
//!   no turn --(the alarm fires)--> a turn is made --(it has set the alarm)--> no turn
//!                                    |    ^  |
//!                    (it fires again)|    |  |(it has set the alarm)
//!                                    v    |  v
//!                                  one more turn is to be made
//! ```
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *The alarm fires on two threads.* The second one leaves its turn to the first, which makes
//!   another one. So no worker waits behind a waker that takes its time on another one.
//! - *A thread arms something while a turn is made.* It leaves the alarm alone, because the turn
//!   reads the next expiries before it ends (see `clock::next_check`).
//! - *tokio wakes the alarm's waker on the thread that sets it.* A reset to the past does, and a
//!   poll may. The thread holds the lock then, so the waker must not take it. It recognises the
//!   thread. A flag for all threads would swallow the firing of another one.
//! - *Foreign code runs on the thread that sets it*: a panic hook as the runtime ends, or a
//!   subscriber of tokio's own tracing. It may arm something on this timer. That is noted, and the
//!   thread sets the alarm once more when it has let the lock go.
//!
//! Invariants:
//!
//! - One turn is made at a time.
//! - No user code runs under the lock but such foreign code. Wakers, the events of a stall, and
//!   what an ended driver drops come after it.
//! - A thread that holds the lock waits for no lock of the crate.

use std::task::Waker;

use crate::clock::tick::{Moment, Tick};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, lock, thread_token};

/// What fires when the next turn is due.
pub(crate) trait Alarm: Send {
    /// The tick that it is set for; `NEVER` if it is unset, or if its firing was noted.
    fn at(&self) -> Tick;

    /// Sets it for the beginning of a tick, or unsets it for `NEVER`.
    fn set(&mut self, tick: Tick, place: Place) -> SetOutcome;

    /// Sets it so that it fires next, where `now` is the present tick. Returns the first tick that
    /// it is in time for too.
    fn set_next_round(&mut self, now: Tick) -> (SetOutcome, Tick);

    /// Notes that it has fired.
    fn note_fired(&mut self);

    /// Whether it will never fire again, because its runtime has ended.
    fn has_ended(&mut self) -> bool {
        false
    }

    /// When the time driver of its runtime ended, if that was seen.
    fn time_driver_ended(&self) -> Option<Moment> {
        None
    }
}

/// Where the alarm is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Within the time driver, or in a task of the runtime.
    Runtime,
    /// On a thread that arms.
    Any,
}

/// The result of setting the alarm.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SetOutcome {
    Done,
    /// The time of this tick has passed already.
    Passed(Tick),
    /// Its runtime has ended.
    Ended,
}

pub(crate) struct AlarmLock {
    state: Mutex<AlarmState>,
    /// The token of the thread that holds the lock, or zero.
    holder: AtomicU64,
    /// The holder has asked for something.
    is_asked_within: AtomicBool,
}

/// What the lock guards.
pub(crate) struct AlarmState {
    /// `None` before the driver begins, and once it has ended.
    pub(crate) alarm: Option<Box<dyn Alarm>>,
    /// The tick for which the next turn was set. What is due before that was linked later.
    pub(crate) turn_set_for: Tick,
    turn: Turn,
    /// Where a turn collects what it wakes. Outside a turn it is empty.
    wakers: Vec<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    None,
    IsMade,
    IsMadeAndOneMore,
}

impl AlarmLock {
    pub(crate) fn new() -> AlarmLock {
        AlarmLock {
            state: Mutex::new(AlarmState {
                alarm: None,
                turn_set_for: Tick::NEVER,
                turn: Turn::None,
                wakers: Vec::new(),
            }),
            holder: AtomicU64::new(0),
            is_asked_within: AtomicBool::new(false),
        }
    }

    /// Locks the alarm. `None` if the calling thread holds the lock: what it asks for is noted.
    pub(crate) fn lock(&self) -> Option<LockedAlarm<'_>> {
        if self.is_held_here() {
            // Relaxed, here and for the holder: a thread reads what it has written itself.
            self.is_asked_within.store(true, Ordering::Relaxed);
            return None;
        }
        let state = lock(&self.state);
        self.holder.store(thread_token(), Ordering::Relaxed);
        Some(LockedAlarm { lock: self, state })
    }

    /// Whether the calling thread holds the lock.
    pub(crate) fn is_held_here(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == thread_token()
    }

    /// Whether the calling thread has asked for something while it held the lock, since this was
    /// last called.
    pub(crate) fn was_asked_within(&self) -> bool {
        // A load is cheaper where nothing was asked for.
        self.is_asked_within.load(Ordering::Relaxed)
            && self.is_asked_within.swap(false, Ordering::Relaxed)
    }
}

/// The alarm, while its lock is held.
pub(crate) struct LockedAlarm<'a> {
    lock: &'a AlarmLock,
    pub(crate) state: MutexGuard<'a, AlarmState>,
}

impl LockedAlarm<'_> {
    /// A turn begins, and collects its wakers there. `None` if another thread makes one. Then that
    /// one makes another turn.
    pub(crate) fn begin_turn(&mut self) -> Option<Vec<Waker>> {
        if self.leave_to_turn() {
            return None;
        }
        self.state.turn = Turn::IsMade;
        Some(std::mem::take(&mut self.state.wakers))
    }

    /// A turn has set the alarm. Returns the buffer if one more is to be made.
    pub(crate) fn end_turn(&mut self, wakers: Vec<Waker>) -> Option<Vec<Waker>> {
        if self.state.turn == Turn::IsMadeAndOneMore {
            self.state.turn = Turn::IsMade;
            return Some(wakers);
        }
        self.state.turn = Turn::None;
        self.state.wakers = wakers;
        None
    }

    /// The alarm, unless its runtime has ended.
    pub(crate) fn alive(&mut self) -> Option<&mut dyn Alarm> {
        let alarm = self.state.alarm.as_deref_mut()?;
        (!alarm.has_ended()).then_some(alarm)
    }

    /// Whether a turn is being made. It will set the alarm.
    pub(crate) fn is_turning(&self) -> bool {
        self.state.turn != Turn::None
    }

    /// Whether a turn is being made. Then another one follows it.
    pub(crate) fn leave_to_turn(&mut self) -> bool {
        let is_turning = self.is_turning();
        if is_turning {
            self.state.turn = Turn::IsMadeAndOneMore;
        }
        is_turning
    }
}

impl Drop for LockedAlarm<'_> {
    fn drop(&mut self) {
        self.lock.holder.store(0, Ordering::Relaxed);
    }
}
