//! Tick arithmetic and rounding. Only here do moments become ticks.
//!
//! Invariant: a deadline is rounded up to its tick, and a reading of the clock is rounded down. So
//! once the current tick has reached the due tick, the deadline is due: no timer is early.
//!
//! Everything saturates. The range ends at [`Moment::MAX`], 146 years after the epoch, and anything
//! further away counts as that moment. So no uptime and no duration can overflow.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};

/// A tick: a whole number of tick lengths since the timer's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    /// The tick that begins at the epoch.
    pub(crate) const FIRST: Tick = Tick(0);

    /// The tick that never comes: nothing is armed, requested or waited for.
    pub(crate) const NEVER: Tick = Tick(u64::MAX);

    #[inline]
    pub(crate) const fn new(number: u64) -> Tick {
        Tick(number)
    }

    #[inline]
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// The tick before this one; `None` for the first.
    pub(crate) fn before(self) -> Option<Tick> {
        self.0.checked_sub(1).map(Tick)
    }
}

/// A tick with many readers. One thread at a time sets it, or any number raise it.
#[derive(Debug)]
pub(crate) struct AtomicTick(AtomicU64);

impl AtomicTick {
    pub(crate) fn new(tick: Tick) -> AtomicTick {
        AtomicTick(AtomicU64::new(tick.0))
    }

    /// Acquire: the reader sees what the writer did before.
    #[inline]
    pub(crate) fn get(&self) -> Tick {
        Tick(self.0.load(Ordering::Acquire))
    }

    /// Relaxed: for the writer, and for readers of the number alone.
    #[inline]
    pub(crate) fn get_relaxed(&self) -> Tick {
        Tick(self.0.load(Ordering::Relaxed))
    }

    /// Release: pairs with the Acquire in `get`.
    #[inline]
    pub(crate) fn set(&self, tick: Tick) {
        self.0.store(tick.0, Ordering::Release);
    }

    /// Sets it unless it is later. Any number of threads may call this, if none calls `set`.
    pub(crate) fn raise_to(&self, tick: Tick) {
        self.0.fetch_max(tick.0, Ordering::Release);
    }
}

/// A point in time: nanoseconds from the timer's epoch, negative before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i64);

impl Moment {
    /// The moment from which a timer counts.
    pub(crate) const EPOCH: Moment = Moment(0);

    /// The end of time, in 62 bits.
    pub(crate) const MAX: Moment = Moment((1 << 62) - 1);

    pub(crate) fn after_epoch(distance: Duration) -> Moment {
        Moment(to_nanos(distance).min(Moment::MAX.0 as u64) as i64)
    }

    pub(crate) fn before_epoch(distance: Duration) -> Moment {
        Moment(-Moment::after_epoch(distance).0)
    }

    #[inline]
    pub(crate) fn after(self, duration: Duration) -> Moment {
        self.after_nanos(to_nanos(duration))
    }

    /// Like `after`, for the result of `to_nanos`.
    #[inline]
    pub(crate) fn after_nanos(self, nanos: u64) -> Moment {
        Moment(self.0.saturating_add_unsigned(nanos)).min(Moment::MAX)
    }

    /// The time from `earlier` to this moment, or zero if this moment is not later.
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The nanoseconds since the epoch, zero before it.
    pub(crate) fn to_bits(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }

    /// The inverse of `to_bits`.
    pub(crate) fn from_bits(bits: u64) -> Moment {
        Moment(i64::try_from(bits).unwrap_or(i64::MAX)).min(Moment::MAX)
    }
}

/// The length of one tick: at least a millisecond, the resolution of tokio's timers. So the number
/// of a tick that a clock reaches has at most [`TICK_BITS`] bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickLength {
    /// The length itself, in nanoseconds.
    nanos: u64,
    /// `2^64 / nanos` or a little less, for divisions by a multiplication.
    reciprocal: u64,
}

/// How many bits a tick that some clock reaches takes.
pub(crate) const TICK_BITS: u32 = 43;

impl TickLength {
    pub(crate) const MIN: Duration = Duration::from_millis(1);

    pub(crate) fn new(length: Duration) -> Option<TickLength> {
        let nanos = to_nanos(length);
        (length >= TickLength::MIN).then(|| TickLength {
            nanos,
            reciprocal: u64::MAX / nanos,
        })
    }

    pub(crate) fn as_duration(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// The first tick that begins no earlier than `deadline`, at most the clock's last one.
    pub(crate) fn due(self, deadline: Moment) -> Tick {
        let end = deadline.to_bits() + (self.nanos - 1);
        Tick(self.divided(end.min(Moment::MAX.to_bits())))
    }

    /// The last tick that has begun at `now`.
    pub(crate) fn current(self, now: Moment) -> Tick {
        Tick(self.divided(now.to_bits()))
    }

    pub(crate) fn start_of(self, tick: Tick) -> Moment {
        Moment::from_bits(tick.0.saturating_mul(self.nanos))
    }

    /// Divides by the length, without a division (Granlund and Montgomery 1994).
    #[inline]
    fn divided(self, nanos: u64) -> u64 {
        let product = u128::from(nanos) * u128::from(self.reciprocal);
        // The reciprocal is too small by one at most, and so is the quotient.
        let quotient = (product >> 64) as u64;
        let rest = nanos - quotient * self.nanos;
        quotient + u64::from(rest >= self.nanos)
    }
}

/// A duration in nanoseconds. `u64::MAX` stands for `Duration::MAX`.
#[inline]
pub(crate) fn to_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The inverse of `to_nanos`.
pub(crate) fn from_nanos(nanos: u64) -> Duration {
    match nanos {
        u64::MAX => Duration::MAX,
        _ => Duration::from_nanos(nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

    proptest! {
        /// So a timer is not early, and less than a tick late: also where the range ends.
        #[test]
        fn a_deadline_is_rounded_up_and_a_reading_is_rounded_down(
            (deadline, now) in prop_oneof![
                (0..Moment::MAX.0, 0..Moment::MAX.0),
                (any::<i64>(), any::<i64>()),
            ],
            length in 1_000_000..=3_600_000_000_000_u64,
        ) {
            let tick = TickLength::new(Duration::from_nanos(length)).unwrap();
            let [deadline, now] = [deadline, now.max(0)].map(|at| Moment(at).min(Moment::MAX));
            let (due, current) = (tick.due(deadline), tick.current(now));
            prop_assert!(tick.start_of(current) <= now);
            prop_assert!(tick.start_of(Tick(current.0 + 1)) > now || now == Moment::MAX);
            prop_assert!(current < due || now >= deadline);
            if deadline.0 <= Moment::MAX.0 - length as i64 {
                prop_assert!(tick.start_of(due) >= deadline);
                let late = tick.start_of(due).since(deadline.max(Moment::EPOCH));
                prop_assert!(late < Duration::from_nanos(length));
            }
        }
    }

    #[test]
    fn durations_and_uptimes_beyond_the_range_saturate() {
        let far = Moment::after_epoch(100 * YEAR);
        assert!(far < Moment::MAX);
        assert_eq!(far.after(Duration::MAX), Moment::MAX);
        assert_eq!(Moment::MAX.after(Duration::MAX), Moment::MAX);
        assert_eq!(Moment::after_epoch(Duration::MAX), Moment::MAX);
        assert_eq!(Moment::before_epoch(Duration::MAX).to_bits(), 0);
        assert_eq!(Moment::from_bits(Moment::MAX.to_bits()), Moment::MAX);
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        assert_eq!(tick.start_of(Tick::NEVER), Moment::MAX);
        assert!(tick.due(Moment::MAX).get() < 1 << TICK_BITS);
        assert!(tick.due(Moment::MAX).get() >= 1 << (TICK_BITS - 1));
        assert!(tick.due(Moment::MAX) > tick.current(far));
    }

    #[test]
    fn nanoseconds_give_back_their_duration() {
        for duration in [
            Duration::ZERO,
            Duration::from_nanos(1),
            YEAR,
            500 * YEAR,
            Duration::MAX,
        ] {
            assert_eq!(from_nanos(to_nanos(duration)), duration);
        }
        // More nanoseconds than 64 bits hold.
        for nanos in [709_551_616, 999_999_999] {
            let long = Duration::new(18_446_744_073, nanos);
            assert_eq!(from_nanos(to_nanos(long)), Duration::MAX);
        }
    }
}
