//! The state word of a deadline: what makes `reset` lock-free and its answer exact.
//!
//! One `AtomicU64` says whether the deadline is pending and from when its timeout counts, so one
//! compare-exchange decides between a reset and the expiry, and exactly one of them wins.
//!
//! | tag | the other 62 bits | the deadline is |
//! |---|---|---|
//! | `COUNTING` | the moment of the last reset | pending, due at that moment plus `timeout` |
//! | `STAMPED` | the stamp of the last reset | pending, due its timeout after the window of that stamp |
//! | `ONCE` | the moment of the last reset | pending, due at `once_due` (after `reset_after`, `reset_at`) |
//! | `SETTLED` | the outcome | expired, cancelled, replaced, drained, or its runtime has shut down |
//!
//! Who may touch what, and when:
//!
//! - `reset` needs no lock. It may only replace `COUNTING` or `STAMPED` by a later one of the two,
//!   and so only moves the due later. (From a stamp to a moment it may come out up to two ticks
//!   earlier, as a stamp counts from the end of its window; the timer then fires where it is
//!   placed, no later than a stamp would have had it.)
//! - Everything else is done with the lock of the deadline's shard held: `timeout` and `once_due`
//!   are written, `ONCE` and `SETTLED` are entered and left, the key is read and written.
//! - Hence, for who holds the lock: a settled word stays settled, `timeout` and `once_due` stand
//!   still, and the due can only grow. The timer in the wheel is linked at the due or earlier; when
//!   its slot comes, the driver asks the word for the true due and links the timer again if that is
//!   later.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *Reset against expiry.* Both compare-exchange from the same pending value. The driver's fails
//!   if a reset came first, and it looks again; the reset's fails if the driver came first, and it
//!   answers `false`.
//! - *Reset against `set_timeout` or `reset_after`.* The word holds when the reset was and not the
//!   due, so a reset carries no stale timeout with it. One that read a pending state before a
//!   `reset_after` fails its exchange.
//! - *Reset after the deadline, before the driver.* The reset sees that the deadline may have
//!   passed, and settles it under the lock; its answer does not depend on how busy the driver is.
//!   (By a stamp it sees only what the driver published.)
//! - *Two resets, the older one last.* A reset never replaces a later moment by an earlier one, nor
//!   a later stamp; the later one covers it, and its answer `true` holds. A moment and a stamp
//!   cannot be compared. If the word holds the one and the reset the other, because the driver went
//!   to rest or to tick meanwhile, the reset takes a fresh start after it has read the word, which
//!   is later than whatever the word holds.
//! - *A key read by a handle while the driver fires the timer.* Both hold the lock; a stale key
//!   finds no timer.

use std::time::Duration;

use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::due::{Due, StampedDue, Start};
use crate::tick::{Moment, Span, TickLength};

const TAG_BITS: u32 = 2;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const COUNTING: u64 = 0;
const ONCE: u64 = 1;
const SETTLED: u64 = 2;
const STAMPED: u64 = 3;

/// How a deadline came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Expired,
    Cancelled,
    Replaced,
    Drained,
    ShutDown,
}

/// What became of a reset that took no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// The deadline was pending and is now due no earlier than the moment of the reset plus the
    /// timeout.
    Moved,
    /// The deadline had come to its end.
    TooLate,
    /// The deadline was set once, so the reset may move it earlier, or it has passed and must be
    /// settled: that needs the lock.
    NeedsLock,
}

/// What the word says of itself at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Pending,
    Settled(Outcome),
}

/// What the driver finds when the slot of a deadline's timer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// It was due, and is now expired.
    Expired,
    /// It is due then, which is later.
    Later(Due),
    /// It had been settled before.
    Settled(Outcome),
}

/// What a word said of a pending deadline before it was settled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before(u64);

/// The timeout of a deadline in ticks, and whether it may count from a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout(u64);

const NOT_STAMPABLE: u64 = 1 << 63;

impl Timeout {
    pub(crate) fn new(timeout: Duration, tick: TickLength) -> Timeout {
        match tick.stampable_ticks(timeout) {
            Some(ticks) => Timeout(ticks),
            None => Timeout(tick.saturated_ticks(timeout) | NOT_STAMPABLE),
        }
    }

    #[inline]
    pub(crate) fn is_stampable(self) -> bool {
        self.0 & NOT_STAMPABLE == 0
    }

    #[inline]
    fn ticks(self) -> u64 {
        self.0 & !NOT_STAMPABLE
    }
}

/// The word and what is kept beside it under the shard's lock.
#[derive(Debug)]
pub(crate) struct Word {
    state: AtomicU64,
    /// The timeout in ticks, rounded up, with a mark if a stamp must not be used for it. Beside the
    /// state, as a reset by a stamp reads these two.
    timeout_ticks: AtomicU64,
    /// The timeout as it was set.
    timeout: AtomicU64,
    once_due: AtomicU64,
    key_sequence: AtomicU64,
    key_index: AtomicU32,
    /// Written once, and meaningful to who made the word alone.
    mark: Mark,
}

/// What a map knows one of its words by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Of the key.
    pub(crate) hash: u32,
    /// The number of the shard that the word is on.
    pub(crate) shard: u32,
}

impl Word {
    /// A word that is pending and counts from `start`.
    pub(crate) fn new(start: Start, timeout: Duration, tick: TickLength) -> Word {
        Word {
            state: AtomicU64::new(counting_from(start)),
            timeout: AtomicU64::new(Span::from(timeout).to_bits()),
            timeout_ticks: AtomicU64::new(Timeout::new(timeout, tick).0),
            once_due: AtomicU64::new(0),
            key_sequence: AtomicU64::new(0),
            key_index: AtomicU32::new(0),
            mark: Mark::default(),
        }
    }

    pub(crate) fn with_mark(mut self, mark: Mark) -> Word {
        self.mark = mark;
        self
    }

    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    pub(crate) fn status(&self) -> Status {
        status(self.state.load(Ordering::Acquire))
    }

    /// The timeout as it was set.
    pub(crate) fn timeout_set(&self) -> Duration {
        Span::from_bits(self.timeout.load(Ordering::Relaxed)).into()
    }

    #[inline]
    pub(crate) fn timeout(&self) -> Timeout {
        Timeout(self.timeout_ticks.load(Ordering::Relaxed))
    }

    /// Counts anew from `stamp` if the deadline is pending, counts from that or an earlier one, and
    /// by that stamp has not passed: nearly every reset while the driver ticks. If this is `false`,
    /// nothing was done, and `reset` is to be called.
    #[inline]
    pub(crate) fn reset_to_later_stamp(&self, stamp: u64) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let new = counting_from(Start::Stamp(stamp));
        if state == new {
            return true;
        }
        let timeout = self.timeout();
        let placed = StampedDue::new(bits(state), timeout.ticks()).placed;
        let may_move = state & TAG_MASK == STAMPED && state < new && stamp < placed;
        may_move && timeout.is_stampable() && self.exchange(state, new).is_ok()
    }

    /// Counts anew from `start` if the deadline is pending, or from a fresh one; see the file's
    /// head. Takes no lock.
    pub(crate) fn reset(
        &self,
        mut start: Start,
        fresh_start: impl Fn() -> Start,
        tick: TickLength,
    ) -> Reset {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            match state & TAG_MASK {
                SETTLED => return Reset::TooLate,
                ONCE => return Reset::NeedsLock,
                _ if !can_be_compared(state, start) => start = fresh_start(),
                _ => {}
            }
            if covers(state, start) {
                return Reset::Moved;
            }
            if self.may_have_passed(state, start, tick) {
                return Reset::NeedsLock;
            }
            match self.exchange(state, counting_from(start)) {
                Ok(()) => return Reset::Moved,
                Err(changed) => state = changed,
            }
        }
    }

    /// Whether a deadline in this state may have passed when `start` was taken.
    fn may_have_passed(&self, state: u64, start: Start, tick: TickLength) -> bool {
        match (self.due_of(state), start) {
            (Some(Due::At(due)), Start::At(now)) => due <= now,
            (Some(Due::At(due)), Start::Stamp(stamp)) => due <= tick.start_of(stamp),
            (Some(Due::Stamped(due)), Start::At(now)) => due.placed <= tick.current(now),
            (Some(Due::Stamped(due)), Start::Stamp(stamp)) => due.placed <= stamp,
            (None, _) => true,
        }
    }
}

/// With the lock of the shard held.
impl Word {
    /// When the deadline is due; `None` once it is settled.
    pub(crate) fn due(&self) -> Option<Due> {
        self.due_of(self.state.load(Ordering::Acquire))
    }

    /// Expires the deadline if `has_passed` says so of its due.
    pub(crate) fn expire_if(&self, has_passed: impl Fn(Due) -> bool) -> Expiry {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            match self.due_of(state) {
                None => return Expiry::Settled(outcome(state)),
                Some(due) if !has_passed(due) => return Expiry::Later(due),
                Some(_) => {}
            }
            match self.exchange(state, settled(Outcome::Expired)) {
                Ok(()) => return Expiry::Expired,
                Err(changed) => state = changed,
            }
        }
    }

    /// Brings the deadline to its end and gives what it was before; `None` if it had come to one
    /// before.
    pub(crate) fn settle(&self, outcome: Outcome) -> Option<Before> {
        self.update(|_| settled(outcome)).map(Before)
    }

    /// Counts anew, whatever it was set to, from a start that is taken after the word was read.
    /// Does nothing if it is settled, as the next two.
    pub(crate) fn reset_locked(&self, fresh_start: impl Fn() -> Start) {
        self.update(|state| {
            let start = fresh_start();
            if covers(state, start) {
                state
            } else {
                counting_from(start)
            }
        });
    }

    /// Sets the due for once, and notes `now` as the moment of this reset.
    pub(crate) fn reset_once(&self, now: Moment, due: Moment) {
        if self.status() == Status::Pending {
            // Nobody reads this before the state says `ONCE`, but for a holder of the lock.
            self.once_due.store(due.to_bits(), Ordering::Relaxed);
            self.update(|_| pack(ONCE, now.to_bits()));
        }
    }

    /// Has a deadline that counts from a stamp count from the moment that `start` gives for that;
    /// so what is told of it stays.
    ///
    /// `start` is called after the word was read, so it knows the time of whatever reset the word
    /// holds to have passed.
    pub(crate) fn count_from(&self, start: impl Fn(u64) -> Moment) {
        self.update(|state| match state & TAG_MASK {
            STAMPED => pack(COUNTING, start(bits(state)).to_bits()),
            _ => state,
        });
    }

    /// How much time is left at `now`; `None` once it is settled. Never more than what was set.
    pub(crate) fn left(&self, now: Moment) -> Option<Duration> {
        let state = self.state.load(Ordering::Acquire);
        (status(state) == Status::Pending).then(|| self.left_before(Before(state), now))
    }

    /// How much time was left at `now` before it was settled.
    pub(crate) fn left_before(&self, Before(state): Before, now: Moment) -> Duration {
        match self.due_of(state) {
            Some(Due::At(due)) if state & TAG_MASK == ONCE => due.since(now),
            // It may have been reset since the clock was read.
            Some(Due::At(due)) => due.since(now).min(self.timeout_set()),
            Some(Due::Stamped(_)) => self.timeout_set(),
            None => Duration::ZERO,
        }
    }

    /// Changes the timeout, and what is pending counts it from its last reset.
    pub(crate) fn set_timeout(&self, timeout: Duration, tick: TickLength) {
        self.timeout
            .store(Span::from(timeout).to_bits(), Ordering::Relaxed);
        self.timeout_ticks
            .store(Timeout::new(timeout, tick).0, Ordering::Relaxed);
        self.update(|state| match state & TAG_MASK {
            ONCE => pack(COUNTING, bits(state)),
            _ => state,
        });
    }

    /// Makes the deadline pending again after any outcome, counting from a fresh start.
    pub(crate) fn restart(&self, fresh_start: impl Fn() -> Start) {
        match self.status() {
            Status::Pending => self.reset_locked(fresh_start),
            Status::Settled(_) => {
                self.state
                    .store(counting_from(fresh_start()), Ordering::Release);
            }
        }
    }

    /// Settles the word for ever, whatever it was: the runtime has gone.
    pub(crate) fn shut_down(&self) {
        if self.settle(Outcome::ShutDown).is_none() {
            self.state
                .store(settled(Outcome::ShutDown), Ordering::Release);
        }
    }

    /// Where the timer lies in the wheel: index and sequence, meaningful to the shard alone. The
    /// sequence is zero before the first timer.
    pub(crate) fn key(&self) -> (u32, u64) {
        (
            self.key_index.load(Ordering::Relaxed),
            self.key_sequence.load(Ordering::Relaxed),
        )
    }

    pub(crate) fn set_key(&self, (index, sequence): (u32, u64)) {
        self.key_index.store(index, Ordering::Relaxed);
        self.key_sequence.store(sequence, Ordering::Relaxed);
    }

    fn due_of(&self, state: u64) -> Option<Due> {
        match state & TAG_MASK {
            COUNTING => Some(Due::At(
                Moment::from_bits(bits(state))
                    .after(Span::from_bits(self.timeout.load(Ordering::Relaxed))),
            )),
            STAMPED => Some(Due::Stamped(StampedDue::new(
                bits(state),
                self.timeout().ticks(),
            ))),
            ONCE => Some(Due::At(Moment::from_bits(
                self.once_due.load(Ordering::Relaxed),
            ))),
            _ => None,
        }
    }

    /// Replaces a pending state by what `next` makes of it, and gives it; `None` if the word is
    /// settled.
    fn update(&self, next: impl Fn(u64) -> u64) -> Option<u64> {
        let mut state = self.state.load(Ordering::Acquire);
        while status(state) == Status::Pending {
            match self.exchange(state, next(state)) {
                Ok(()) => return Some(state),
                Err(changed) => state = changed,
            }
        }
        None
    }

    #[inline]
    fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        self.state
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }
}

/// The state of a deadline that counts its timeout from `start`.
#[inline]
fn counting_from(start: Start) -> u64 {
    match start {
        Start::At(moment) => pack(COUNTING, moment.to_bits()),
        Start::Stamp(stamp) => pack(STAMPED, stamp),
    }
}

/// Whether a state and a start are both moments or both stamps.
fn can_be_compared(state: u64, start: Start) -> bool {
    state & TAG_MASK == counting_from(start) & TAG_MASK
}

/// Whether a state counts from `start` or later already, as far as the two can be compared.
fn covers(state: u64, start: Start) -> bool {
    can_be_compared(state, start) && state >= counting_from(start)
}

#[inline]
fn pack(tag: u64, bits: u64) -> u64 {
    bits << TAG_BITS | tag
}

#[inline]
fn bits(state: u64) -> u64 {
    state >> TAG_BITS
}

fn settled(outcome: Outcome) -> u64 {
    let number = match outcome {
        Outcome::Expired => 0,
        Outcome::Cancelled => 1,
        Outcome::Replaced => 2,
        Outcome::Drained => 3,
        Outcome::ShutDown => 4,
    };
    pack(SETTLED, number)
}

fn status(state: u64) -> Status {
    if state & TAG_MASK == SETTLED {
        Status::Settled(outcome(state))
    } else {
        Status::Pending
    }
}

fn outcome(state: u64) -> Outcome {
    match bits(state) {
        0 => Outcome::Expired,
        1 => Outcome::Cancelled,
        2 => Outcome::Replaced,
        3 => Outcome::Drained,
        _ => Outcome::ShutDown,
    }
}
