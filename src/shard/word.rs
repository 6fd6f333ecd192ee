//! The state word of a deadline. It makes `reset` lock-free and its answer exact.
//!
//! One `AtomicU64` says whether the deadline is pending, and from when its timeout counts. So one
//! compare-exchange decides between a reset and the expiry, and exactly one of them wins.
//! The states, and how each is packed, stand further below.
//!
//! Invariant: while a thread holds the lock of the deadline's shard, no other thread can do more
//! than make the due later. A settled word stays settled, and the timeout stays the same.
//!
//! Which thread may touch what, and when:
//!
//! - What moves the due later needs no lock: `reset`, and a call that sets the due for once.
//! - All else is done with the lock of the deadline's shard held. Such a call moves the due
//!   earlier, writes the timeout, settles a state or makes it pending again, or reads and writes
//!   the key.
//! - The timer in the wheel is linked at the due or earlier. When its slot comes, the driver asks
//!   the word for the true due. If that is later, the driver links the timer again.
//! - A due that goes from a stamp to a moment may come out up to two ticks earlier. The reason is
//!   that a stamp counts from the end of its window. The timer then fires where it is scheduled.
//!   That is no later than where it would fire by the stamp.
//!
//! Orders that could go wrong, and why they do not. The code refers to the labels.
//!
//! - **W1. A reset against the expiry.** Both compare-exchange from the same pending value. If the
//!   reset came first, the driver's exchange fails, and the driver looks again. If the driver came
//!   first, the reset's exchange fails, and the reset answers `false`.
//! - **W2. A reset against `set_timeout` or `reset_after`.** The word holds the time of the reset,
//!   and not the due. So a reset carries no stale timeout with it. A reset that read a pending
//!   state before a `reset_after` fails its exchange.
//! - **W3. `set_timeout` against `reset_after`.** After a `reset_after` the word holds the due, and
//!   `set_timeout` leaves that as it is. So whichever of the two comes first, the due of the
//!   `reset_after` stands, and the new timeout counts from the next reset on.
//! - **W4. `set_timeout` while `reset_after` judges that it moves later.** `set_timeout` may leave
//!   the word as it was, and then the exchange of `reset_after` does not notice. So `reset_after`
//!   reads the timeout again after its exchange. If the exchange came after the update of the word
//!   in `set_timeout`, it reads the new timeout. If it came before, that update sees it.
//! - **W5. The driver links a stamped timer at its true due while `reset_after` judges by where the
//!   timer is scheduled.** A turn does so after it has replaced the stamp, or has found it
//!   replaced. So `reset_after` reads the stamp again after its exchange. Each of the two has a
//!   sequentially consistent fence between its two steps. So one of them sees the other.
//! - **W6. A reset after the deadline, but before the driver.** The reset sees that the deadline
//!   may have passed, and settles it under the lock. So its answer does not depend on how busy the
//!   driver is. By a stamp the reset sees only what the driver has published.
//! - **W7. Two resets, the older one last.** A reset never replaces a later moment by an earlier
//!   one, nor a later stamp by an earlier one. The later one covers the older one, whose answer
//!   `true` holds. A moment and a stamp cannot be compared. The word may hold the one and the reset
//!   the other, because the driver went to rest or to tick meanwhile. Then the reset takes a fresh
//!   start after it has read the word. That is later than whatever the word holds.
//! - **W8. A handle reads the key while the driver fires the timer.** Both hold the lock, and a
//!   stale key finds no timer.

use std::time::Duration;

use super::locked_word::{LockHeld, LockedWord};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use crate::time::stamp::{Due, Stamp, StampedDue, Start, WINDOW};
use crate::time::tick::{Moment, Span, TickLength};

/// What became of a reset that took no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// The deadline was pending. It is now due no earlier than the moment of the reset plus the
    /// timeout.
    Moved,
    /// The deadline had come to its end.
    TooLate,
    /// It was moved later, and its timer may be linked later still. To link the timer anew needs
    /// the lock.
    MovedUnlinked,
    /// The reset moves it earlier, or it has passed and must be settled. Both need the lock.
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
    /// It was due, and has now expired.
    Expired,
    /// It is due later, and this is when.
    Later(Due),
    /// It had been settled before.
    Settled(Outcome),
}

/// The word, and what is kept beside it under the shard's lock.
#[derive(Debug)]
pub(crate) struct Word {
    state: AtomicU64,
    /// The timeout in ticks, rounded up, with a mark if it must not count from a stamp. It lies
    /// beside the state, because a reset by a stamp reads these two.
    pub(super) timeout_ticks: AtomicU64,
    /// The timeout as it was set.
    pub(super) timeout: AtomicU64,
    pub(super) key_sequence: AtomicU64,
    pub(super) key_index: AtomicU32,
    /// It is written once, and has a meaning only for the code that made the word.
    mark: Mark,
    /// Whether stalls count against the deadline, whatever its timer says.
    counts_stalls: bool,
    /// Whether it has left its map. It is never cleared.
    has_left_map: AtomicBool,
    /// Whether the task that awaits it is woken by each move but a plain reset.
    is_watched: AtomicBool,
    /// Whether it was moved since that task has looked.
    has_moved: AtomicBool,
}

/// What a map knows one of its words by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The hash of the key.
    pub(crate) hash: u32,
    /// The number of the shard that the word is on.
    pub(crate) shard: u32,
}

impl Word {
    /// A word that is pending and counts from `start`.
    pub(crate) fn new(start: Start, timeout: Duration, tick: TickLength) -> Word {
        Word {
            state: AtomicU64::new(Packed::counting_from(start).0),
            timeout: AtomicU64::new(Span::from(timeout).to_bits()),
            timeout_ticks: AtomicU64::new(TimeoutTicks::new(timeout, tick).to_bits()),
            key_sequence: AtomicU64::new(0),
            key_index: AtomicU32::new(0),
            mark: Mark::default(),
            counts_stalls: false,
            has_left_map: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            has_moved: AtomicBool::new(false),
        }
    }

    /// The word of a deadline that no stall spares.
    #[cfg(feature = "quinn")]
    pub(crate) fn counting_stalls(mut self) -> Word {
        self.counts_stalls = true;
        self
    }

    pub(crate) fn counts_stalls(&self) -> bool {
        self.counts_stalls
    }

    /// No key leads to it from now on. Call this before the word is settled for that.
    pub(crate) fn leave_map(&self) {
        // Relaxed: who restarts the word after it was settled takes the shard's lock, and whoever
        // acts on that life by key asks under the same lock.
        self.has_left_map.store(true, Ordering::Relaxed);
    }

    /// Whether no key leads to it any more. Call this under the shard's lock.
    pub(super) fn has_left_map(&self) -> bool {
        self.has_left_map.load(Ordering::Relaxed)
    }

    /// From now on the task that awaits it is woken by each move but a plain reset, or is so no
    /// more.
    pub(crate) fn watch(&self, is_watched: bool) {
        // Relaxed, here and below: that task takes the shard's lock before it takes the mark, and
        // whoever moves the word has that lock.
        self.is_watched.store(is_watched, Ordering::Relaxed);
    }

    /// Whether each move but a plain reset is to be made with the lock held.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Whether it was moved with the lock held, since the last call of this.
    pub(crate) fn take_moved(&self) -> bool {
        self.has_moved.load(Ordering::Relaxed) && self.has_moved.swap(false, Ordering::Relaxed)
    }

    /// Marks it as moved, if somebody wants to know. Call this under the shard's lock.
    pub(super) fn mark_moved(&self) -> bool {
        let is_watched = self.is_watched();
        if is_watched {
            self.has_moved.store(true, Ordering::Relaxed);
        }
        is_watched
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
        match self.load().into() {
            State::Settled(outcome) => Status::Settled(outcome),
            _ => Status::Pending,
        }
    }

    /// The timeout as it was set.
    pub(crate) fn timeout_set(&self) -> Duration {
        // Relaxed: a number that nothing else hangs on.
        Span::from_bits(self.timeout.load(Ordering::Relaxed)).into()
    }

    #[inline]
    pub(crate) fn timeout(&self) -> TimeoutTicks {
        // Relaxed: a call that misses a `set_timeout` of the same time counts as one that came
        // before it. Where that is not enough, `move_later` reads the timeout again (W4).
        TimeoutTicks::from_bits(self.timeout_ticks.load(Ordering::Relaxed))
    }

    /// Whether the deadline is pending and counts from that stamp. Then a reset by the same stamp
    /// has nothing to do.
    #[inline]
    pub(crate) fn counts_from(&self, stamp: Stamp) -> bool {
        self.load() == Packed::counting_from(Start::Stamp(stamp))
    }

    /// Counts anew from `start` if the deadline is pending, or from a fresh start where W7 asks for
    /// one. Takes no lock.
    #[inline]
    pub(crate) fn reset(
        &self,
        start: Start,
        fresh_start: impl Fn() -> Start,
        tick: TickLength,
    ) -> Reset {
        let mut new = Packed::counting_from(start);
        let mut state = self.load();
        loop {
            if !state.can_be_compared(new) {
                match self.counting_afresh(state, &fresh_start, tick) {
                    Ok(fresh) => new = fresh,
                    Err(reset) => return reset,
                }
            } else if self.has_passed_at(state, new) {
                return Reset::NeedsLock; // W6.
            } else if state >= new {
                return Reset::Moved; // W7.
            }
            // W1 and W2: if the state has changed, it is looked at again.
            match self.exchange(state, new) {
                Ok(()) => return Reset::Moved,
                Err(changed) => state = changed,
            }
        }
    }

    /// Whether a deadline that counts from `state` has passed for a reset to `new`, which can be
    /// compared with that. A timeout of zero has passed in the moment from which it counts.
    #[inline]
    fn has_passed_at(&self, state: Packed, new: Packed) -> bool {
        let length = if new.is_stamped() {
            WINDOW + self.timeout().ticks()
        } else {
            // Relaxed: as in `timeout`.
            self.timeout.load(Ordering::Relaxed)
        };
        let due = state.bits().saturating_add(length);
        due.min(Moment::MAX.to_bits()) <= new.bits()
    }

    /// What a reset makes of a state that cannot be compared with its start.
    #[cold]
    fn counting_afresh(
        &self,
        state: Packed,
        fresh_start: impl Fn() -> Start,
        tick: TickLength,
    ) -> Result<Packed, Reset> {
        match state.into() {
            State::Settled(_) => Err(Reset::TooLate),
            // It may move it earlier.
            State::Once(_) => Err(Reset::NeedsLock),
            State::Counting(_) => {
                // W7: the start is taken after the word was read.
                let start = fresh_start();
                if self.may_have_passed(state, start, tick) {
                    return Err(Reset::NeedsLock); // W6.
                }
                Ok(Packed::counting_from(start))
            }
        }
    }

    /// Sets the due for once, in a call that began at `start`, if that moves it later. Takes no
    /// lock. `published` returns the present stamp.
    pub(crate) fn reset_once(
        &self,
        start: Start,
        due: Due,
        published: impl Fn() -> Option<Stamp>,
        tick: TickLength,
    ) -> Reset {
        self.move_later(start, State::Once(due), published, tick)
    }

    /// Moves to a state that is due no earlier.
    ///
    /// Two things by which it judges this may change beside the word. One is the timeout (W4). The
    /// other is where a timer is linked that counts from a stamp whose window ended late (W5). So
    /// this looks at both again after the exchange. If one has changed, the timer must be linked
    /// anew.
    fn move_later(
        &self,
        start: Start,
        target: State,
        published: impl Fn() -> Option<Stamp>,
        tick: TickLength,
    ) -> Reset {
        let new = Packed::from(target);
        let mut state = self.load();
        loop {
            let timeout = self.both_timeouts();
            let old = State::from(state);
            if let State::Settled(_) = old {
                return Reset::TooLate;
            }
            // W6.
            if self.may_have_passed(state, start, tick) || !self.is_later(target, state, tick) {
                return Reset::NeedsLock;
            }
            if state == new {
                return Reset::Moved;
            }
            let was_stamped = matches!(self.due_of(old), Some(Due::Stamped(_)));
            // W1 and W2: if the state has changed, it is looked at again.
            match self.exchange(state, new) {
                Ok(()) => {
                    let is_still_published = || {
                        // W5: pairs with the fence after the swap in `Windows::publish`.
                        fence(Ordering::SeqCst);
                        published().map(Start::Stamp) == Some(start)
                    };
                    // W4, and W5.
                    let is_linked_in_time =
                        self.both_timeouts() == timeout && (!was_stamped || is_still_published());
                    return if is_linked_in_time {
                        Reset::Moved
                    } else {
                        Reset::MovedUnlinked
                    };
                }
                Err(changed) => state = changed,
            }
        }
    }

    /// Both numbers that say how long the timeout is.
    fn both_timeouts(&self) -> (u64, u64) {
        // Relaxed: after the exchange in `move_later` they come with the word, which that exchange
        // acquired from the update in `set_timeout` (W4).
        (
            self.timeout.load(Ordering::Relaxed),
            self.timeout_ticks.load(Ordering::Relaxed),
        )
    }

    /// Whether one state is due no earlier than another, as far as the wheel can tell.
    fn is_later(&self, one: State, than: Packed, tick: TickLength) -> bool {
        match (self.due_of(one), self.due_of(than.into())) {
            (Some(Due::At(one)), Some(Due::At(than))) => one >= than,
            (Some(one), Some(than)) => one.scheduled_tick(tick) >= than.scheduled_tick(tick),
            _ => false,
        }
    }

    /// Whether a deadline in this state may have passed when the caller took `start`.
    fn may_have_passed(&self, state: Packed, start: Start, tick: TickLength) -> bool {
        let due = self.due_of(state.into());
        due.is_none_or(|due| due.may_have_passed(start, tick))
    }

    /// Whether its due was set for once, and it does not count its timeout.
    pub(crate) fn is_set_once(&self) -> bool {
        State::from(self.load()).is_once()
    }

    /// The word as a thread may read and write it only with the lock of its shard held.
    #[inline]
    pub(crate) fn locked<'a>(&'a self, _: &'a LockHeld) -> LockedWord<'a> {
        LockedWord(self)
    }

    pub(super) fn due_of(&self, state: State) -> Option<Due> {
        match state {
            State::Counting(Start::At(moment)) => {
                // Relaxed: as in `timeout`.
                let timeout = Span::from_bits(self.timeout.load(Ordering::Relaxed));
                Some(Due::At(moment.after(timeout)))
            }
            State::Counting(Start::Stamp(stamp)) => {
                let ticks = self.timeout().ticks();
                Some(Due::Stamped(StampedDue::new(stamp, ticks)))
            }
            State::Once(due) => Some(due),
            State::Settled(_) => None,
        }
    }

    /// Replaces a pending state by what `next` makes of it, and returns the replaced state. `None`
    /// if the word is settled.
    pub(super) fn update(&self, next: impl Fn(Packed) -> Packed) -> Option<State> {
        let mut packed = self.load();
        loop {
            let state = State::from(packed);
            if let State::Settled(_) = state {
                return None;
            }
            match self.exchange(packed, next(packed)) {
                Ok(()) => return Some(state),
                Err(changed) => packed = changed,
            }
        }
    }

    #[inline]
    pub(super) fn load(&self) -> Packed {
        // Acquire: pairs with the Release in `store` and `exchange`. The timeout that was written
        // before the word comes with it (W4).
        Packed(self.state.load(Ordering::Acquire))
    }

    pub(super) fn store(&self, state: State) {
        // Release: pairs with the Acquire in `load` and `exchange`.
        self.state.store(Packed::from(state).0, Ordering::Release);
    }

    #[inline]
    pub(super) fn exchange(&self, current: Packed, new: Packed) -> Result<(), Packed> {
        // AcqRel: what was written before the exchange goes with the word, and what came with the
        // replaced state can be read after it (W4). Acquire on failure: as in `load`.
        self.state
            .compare_exchange(current.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(Packed)
    }
}

/// Whether a state already counts from `start` or later, as far as the two can be compared (W7).
pub(super) fn covers(state: Packed, start: Start) -> bool {
    let new = Packed::counting_from(start);
    state.can_be_compared(new) && state >= new
}

// The states of a deadline, and how each is packed into one word.
//
// | tag | the other 62 bits | the deadline is |
// |---|---|---|
// | `COUNTING` | the moment of the last reset | pending, due its timeout after that moment |
// | `STAMPED` | the stamp of the last reset | pending, due its timeout after the stamp's window |
// | `ONCE` | a moment | pending, due then (after `reset_after`, `reset_at`) |
// | `OTHER` | a stamp and some ticks | pending, due these ticks after the stamp's window |
// | `OTHER` | an outcome | settled, with that outcome |
//
// A `reset_after` sets the stamp and ticks. The outcomes are: the deadline has expired, or was
// cancelled, replaced or drained, or its runtime has shut down.
//
// Invariant: of two words with the tag `COUNTING`, or two with `STAMPED`, the later one is the
// greater. An outcome is less than any stamp with its ticks, because no stamp is zero there.

const TAG_BITS: u32 = 2;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const COUNTING: u64 = 0;
const ONCE: u64 = 1;
const OTHER: u64 = 2;
const STAMPED: u64 = 3;

/// The number of bits for the ticks beside a stamp. The stamp has the rest.
const TICKS_BITS: u32 = 20;
const STAMP_BITS: u32 = u64::BITS - TAG_BITS - TICKS_BITS;

/// How a deadline came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Expired,
    Cancelled,
    Replaced,
    Drained,
    ShutDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its timeout counts from here.
    Counting(Start),
    /// It is due then, once. A stamped one must be one that [`fits`](State::fits).
    Once(Due),
    Settled(Outcome),
}

impl State {
    /// Whether a due that is this many ticks after a stamp's window can be packed.
    pub(crate) fn fits(stamp: Stamp, ticks: u64) -> bool {
        (1..1 << STAMP_BITS).contains(&stamp.tick()) && ticks < 1 << TICKS_BITS
    }

    /// Whether the due was set for once.
    pub(crate) fn is_once(self) -> bool {
        matches!(self, State::Once(_))
    }
}

/// A state in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Packed(pub(crate) u64);

impl Packed {
    #[inline]
    pub(crate) fn counting_from(start: Start) -> Packed {
        match start {
            Start::At(moment) => pack(COUNTING, moment.to_bits()),
            Start::Stamp(stamp) => pack(STAMPED, stamp.tick()),
        }
    }

    /// Whether both count from a moment, or both from a stamp. Then the greater one is the later
    /// one.
    #[inline]
    pub(crate) fn can_be_compared(self, other: Packed) -> bool {
        self.tag() == other.tag() && matches!(self.tag(), COUNTING | STAMPED)
    }

    /// Whether it counts from a stamp.
    #[inline]
    pub(crate) fn is_stamped(self) -> bool {
        self.tag() == STAMPED
    }

    #[inline]
    fn tag(self) -> u64 {
        self.0 & TAG_MASK
    }

    /// All but the tag.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0 >> TAG_BITS
    }
}

#[inline]
fn pack(tag: u64, bits: u64) -> Packed {
    Packed(bits << TAG_BITS | tag)
}

impl From<State> for Packed {
    fn from(state: State) -> Packed {
        match state {
            State::Counting(start) => Packed::counting_from(start),
            State::Once(Due::At(due)) => pack(ONCE, due.to_bits()),
            State::Once(Due::Stamped(due)) => {
                pack(OTHER, due.stamp.tick() << TICKS_BITS | due.ticks())
            }
            State::Settled(outcome) => pack(OTHER, outcome as u64),
        }
    }
}

impl From<Packed> for State {
    #[inline]
    fn from(packed: Packed) -> State {
        let bits = packed.bits();
        match packed.tag() {
            COUNTING => State::Counting(Start::At(Moment::from_bits(bits))),
            STAMPED => State::Counting(Start::Stamp(Stamp::of(bits))),
            ONCE => State::Once(Due::At(Moment::from_bits(bits))),
            _ => match bits {
                0 => State::Settled(Outcome::Expired),
                1 => State::Settled(Outcome::Cancelled),
                2 => State::Settled(Outcome::Replaced),
                3 => State::Settled(Outcome::Drained),
                4 => State::Settled(Outcome::ShutDown),
                _ => State::Once(Due::Stamped(StampedDue::new(
                    Stamp::of(bits >> TICKS_BITS),
                    bits & ((1 << TICKS_BITS) - 1),
                ))),
            },
        }
    }
}

// The timeout of a deadline in ticks, which a reset by a stamp needs.
//
// Invariant: no number of ticks reaches the mark, because the ticks saturate at half of the range
// of moments.

/// The timeout of a deadline in ticks, and whether it may count from a stamp, in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeoutTicks(u64);

/// Marks a timeout that must not count from a stamp.
const NOT_STAMPABLE: u64 = 1 << 63;

impl TimeoutTicks {
    pub(crate) fn new(timeout: Duration, tick: TickLength) -> TimeoutTicks {
        match tick.stampable_ticks(timeout) {
            Some(ticks) => TimeoutTicks(ticks),
            None => TimeoutTicks(tick.saturated_ticks(timeout) | NOT_STAMPABLE),
        }
    }

    #[inline]
    pub(crate) fn is_stampable(self) -> bool {
        self.0 & NOT_STAMPABLE == 0
    }

    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(super) fn from_bits(bits: u64) -> TimeoutTicks {
        TimeoutTicks(bits)
    }

    /// The timeout in ticks, rounded up.
    #[inline]
    pub(super) fn ticks(self) -> u64 {
        self.0 & !NOT_STAMPABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state() -> impl Strategy<Value = State> {
        let moment = || (0..=Moment::MAX.to_bits()).prop_map(Moment::from_bits);
        prop_oneof![
            moment().prop_map(|moment| State::Counting(Start::At(moment))),
            (0..1_u64 << 60).prop_map(|stamp| State::Counting(Start::Stamp(Stamp::of(stamp)))),
            moment().prop_map(|due| State::Once(Due::At(due))),
            (1..1_u64 << STAMP_BITS, 0..1_u64 << TICKS_BITS).prop_map(|(stamp, ticks)| {
                State::Once(Due::Stamped(StampedDue::new(Stamp::of(stamp), ticks)))
            }),
            prop_oneof![
                Just(Outcome::Expired),
                Just(Outcome::Cancelled),
                Just(Outcome::Replaced),
                Just(Outcome::Drained),
                Just(Outcome::ShutDown),
            ]
            .prop_map(State::Settled),
        ]
    }

    proptest! {
        #[test]
        fn every_state_comes_out_of_its_word_again(state in state()) {
            prop_assert_eq!(State::from(Packed::from(state)), state);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_packed() {
        let fits = |stamp, ticks| State::fits(Stamp::of(stamp), ticks);
        assert!(!fits(0, 5));
        assert!(!fits(1 << STAMP_BITS, 5));
        assert!(!fits(7, 1 << TICKS_BITS));
        assert!(fits((1 << STAMP_BITS) - 1, (1 << TICKS_BITS) - 1));
    }

    #[test]
    fn a_timeout_keeps_its_ticks_beside_the_mark() {
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        for (duration, is_stampable, ticks) in [
            (Duration::ZERO, false, 0),
            (Duration::from_nanos(1), true, 1),
            (Duration::from_secs(30), true, 30_000),
            (Duration::MAX, false, tick.saturated_ticks(Duration::MAX)),
        ] {
            let timeout = TimeoutTicks::new(duration, tick);
            assert_eq!(timeout.is_stampable(), is_stampable, "{duration:?}");
            assert_eq!(timeout.ticks(), ticks, "{duration:?}");
            assert_eq!(TimeoutTicks::from_bits(timeout.to_bits()), timeout);
        }
    }
}
