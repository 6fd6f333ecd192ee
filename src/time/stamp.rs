//! When a timer is due. This is known exactly, or is counted from a stamp.
//!
//! A *stamp* is the tick that the driver has published. A call that takes a stamp has read no
//! clock. It knows only that it falls into the stamp's window (see `time`). So a timer that counts
//! from stamp `s` is scheduled at `s + 2` plus its ticks. Its true due is later than that by as
//! many ticks as the window of `s` ended late.
//!
//! Invariant: the tick at which a timer is scheduled is never later than its true due.

use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU64;

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, fence, lock};
use crate::time::tick::{Moment, TickLength};

/// How many ticks after its stamp a window ends, unless the driver was late.
pub(crate) const WINDOW: u64 = 2;

/// The published tick, which a caller took instead of a reading of the clock. Of two stamps the
/// greater one was published later.
///
/// It is one more than the tick. So no stamp is zero, which is published while the driver rests,
/// and by which the compiler keeps a [`Due`] in sixteen bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(NonZeroU64);

impl Stamp {
    #[inline]
    pub(crate) fn of(tick: u64) -> Stamp {
        Stamp(NonZeroU64::MIN.saturating_add(tick))
    }

    /// The tick that was published.
    #[inline]
    pub(crate) fn tick(self) -> u64 {
        self.0.get() - 1
    }

    /// The tick before which its window ends, unless the driver was late.
    #[inline]
    pub(crate) fn window_end(self) -> u64 {
        (self.0.get() - 1).saturating_add(WINDOW)
    }

    /// What is published while this is the stamp.
    pub(crate) fn to_published(self) -> u64 {
        self.0.get()
    }

    /// The stamp that is published; `None` while the driver rests.
    #[inline]
    pub(crate) fn from_published(published: u64) -> Option<Stamp> {
        NonZeroU64::new(published).map(Stamp)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stamp").field(&self.tick()).finish()
    }
}

/// From when a timer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The caller read the clock.
    At(Moment),
    /// The caller took the published tick.
    Stamp(Stamp),
}

/// When a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    At(Moment),
    Stamped(StampedDue),
}

/// The due of a timer that counts from a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StampedDue {
    pub(crate) stamp: Stamp,
    /// The tick at which the timer is scheduled. It is the true due if the window of the stamp did
    /// not end late.
    pub(crate) scheduled_tick: u64,
}

impl StampedDue {
    #[inline]
    pub(crate) fn new(stamp: Stamp, ticks: u64) -> StampedDue {
        StampedDue {
            stamp,
            scheduled_tick: stamp.window_end().saturating_add(ticks),
        }
    }

    /// How many ticks after the stamp's window it is due.
    pub(crate) fn ticks(self) -> u64 {
        self.scheduled_tick - self.stamp.window_end()
    }
}

impl Due {
    /// Whether this due may have passed for a call that began at `start`. By a stamp it counts as
    /// passed only if the driver has come to that time.
    pub(crate) fn may_have_passed(self, start: Start, tick: TickLength) -> bool {
        match (self, start) {
            (Due::At(due), Start::At(now)) => due <= now,
            (Due::At(due), Start::Stamp(stamp)) => due <= tick.start_of(stamp.tick()),
            (Due::Stamped(due), Start::At(now)) => due.scheduled_tick <= tick.current(now),
            (Due::Stamped(due), Start::Stamp(stamp)) => due.scheduled_tick <= stamp.tick(),
        }
    }

    /// The tick at which a timer with this due is scheduled.
    #[inline]
    pub(crate) fn scheduled_tick(self, tick: TickLength) -> u64 {
        match self {
            Due::At(moment) => tick.due(moment),
            Due::Stamped(due) => due.scheduled_tick,
        }
    }
}

// The published stamp, its window, and the log of windows that ended late.
//
// ```text
//   resting --(the driver publishes s)--> the window of s is open --(the driver replaces s, or a call closes the window)--> noted
// ```
//
// The driver replaces a stamp at each tick. If it is stalled, it does not, and what is stamped
// meanwhile would be late by the rest of the stall. So the window has an upper bound where there
// is load: of the calls that take a stamp on a thread, every 61st *looks* at the clock. If the
// window should have ended by then, that call closes it, and everybody reads the clock until the
// driver publishes again.
//
// To replace a stamp and to note the end of its window is one critical section of the log. So
// whoever holds the log sees a window either open and still published, or noted. The steps P2 and
// P3 are from the proof in `time`. It holds for a call that closes a window as it does for the
// driver.
//
// Invariant: for a stamp whose window has ended, `lateness` is never less than the number of ticks
// by which the window ended after `stamp + WINDOW`. For recent stamps it is exact.
//
// The log is bounded. When it is full, neighbours in its older half are merged into one range.
// That range has the worst lateness of the two, and covers the stamps between them. The log merges
// those pairs for which this adds the least lateness over all their stamps. So a great stall keeps
// a range of its own. Little is added to the rest, and always on the side of firing later.

/// What is published while the driver rests.
const RESTING: u64 = 0;

/// Of the calls that take a stamp on a thread, every one of this number looks at the clock. It is a
/// prime, so a program that uses several timers by turns looks at each of them.
pub(crate) const CALLS_FOR_A_LOOK: u32 = 61;

#[derive(Debug)]
pub(crate) struct Windows {
    published: Published,
    late: Mutex<LateWindows>,
    /// How many calls have looked. It tells the driver how many calls there are.
    looks: AtomicU64,
}

/// It lies on cache lines of its own, because every core reads it at each arm and reset. It is
/// written once a tick.
#[derive(Debug)]
#[repr(align(128))]
struct Published(AtomicU64);

impl Windows {
    pub(crate) fn new() -> Windows {
        Windows {
            published: Published(AtomicU64::new(RESTING)),
            late: Mutex::new(LateWindows::default()),
            looks: AtomicU64::new(0),
        }
    }

    /// The published tick; `None` while the driver rests.
    #[inline]
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        // SeqCst: pairs with P2 in `replace`, for step 1 of the proof. On x86 and ARM a load of
        // this strength costs as much as an Acquire load.
        Stamp::from_published(self.published.0.load(Ordering::SeqCst))
    }

    /// Whether the calling call is one that looks at the clock.
    #[inline]
    pub(crate) fn is_to_look() -> bool {
        std::thread_local! {
            // The first call of a thread looks, so that many short-lived threads look too.
            static CALLS_UNTIL_LOOK: Cell<u32> = const { Cell::new(0) };
        }
        CALLS_UNTIL_LOOK.with(|left| match left.get() {
            0 => {
                left.set(CALLS_FOR_A_LOOK - 1);
                true
            }
            more => {
                left.set(more - 1);
                false
            }
        })
    }

    /// Counts a call that looks.
    pub(crate) fn count_look(&self) {
        // Relaxed: a gauge.
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    /// How many calls have looked since this was last called.
    pub(crate) fn take_looks(&self) -> u64 {
        // Relaxed: a gauge.
        self.looks.swap(0, Ordering::Relaxed)
    }

    /// Publishes a tick, or that the driver rests. This closes the window of the stamp before.
    /// `end` reads the clock, rounded up.
    pub(crate) fn publish(&self, tick: Option<u64>, end: impl FnOnce() -> u64) {
        let new = tick.map_or(RESTING, |tick| Stamp::of(tick).to_published());
        let mut late = lock(&self.late);
        // P2. SeqCst: pairs with the load in `stamp`. Both are in the one order of sequentially
        // consistent operations, which step 1 of the proof needs.
        let old = self.published.0.swap(new, Ordering::SeqCst);
        // W5 in `shard::word`: pairs with the fence in `Word::move_later`, which moves a deadline
        // without a lock. Either that reset sees this stamp, or the turn that follows sees its
        // word.
        fence(Ordering::SeqCst);
        if let Some(old) = Stamp::from_published(old).filter(|old| old.to_published() != new) {
            // P3. The clock is read only now, because the window reaches to the swap.
            late.ended(old, end());
        }
    }

    /// Closes the window of a stamp that is still published, for a call that has found it over.
    pub(crate) fn close(&self, stamp: Stamp, end: impl FnOnce() -> u64) {
        let mut late = lock(&self.late);
        if self.stamp() != Some(stamp) {
            return; // The driver has come, or another call.
        }
        // P2. The lock keeps all others from replacing the stamp. SeqCst: as in `publish`.
        self.published.0.swap(RESTING, Ordering::SeqCst);
        // P3.
        late.ended(stamp, end());
    }

    /// The log, locked. While it is locked, no window is closed.
    pub(crate) fn log(&self) -> Log<'_> {
        Log {
            windows: self,
            late: lock(&self.late),
        }
    }
}

/// The log of late windows, locked.
pub(crate) struct Log<'a> {
    windows: &'a Windows,
    late: MutexGuard<'a, LateWindows>,
}

impl Log<'_> {
    /// The tick from which a stamped timer may fire. `None` if the window of its stamp has not
    /// ended.
    pub(crate) fn true_due(&self, due: StampedDue) -> Option<u64> {
        let lateness = self.lateness(due.stamp)?;
        Some(due.scheduled_tick.saturating_add(lateness))
    }

    /// The tick before which the window of a stamp has ended. `None` if it has not ended.
    pub(crate) fn window_end(&self, stamp: Stamp) -> Option<u64> {
        let lateness = self.lateness(stamp)?;
        Some(stamp.window_end() + lateness)
    }

    /// How many windows ended late so far.
    pub(crate) fn number_of_late_windows(&self) -> u64 {
        self.late.number
    }

    fn lateness(&self, stamp: Stamp) -> Option<u64> {
        let is_open = self.windows.stamp() == Some(stamp);
        (!is_open).then(|| self.late.lateness(stamp))
    }
}

/// The log has fewer ranges than this, of 32 bytes each. A stall is one range. So this is enough
/// for many seconds of a driver that is late at every other tick.
const CAPACITY: usize = 1024;

#[derive(Debug, Default)]
struct LateWindows {
    /// The ranges, in the order of their stamps. They do not overlap.
    ranges: Vec<Range>,
    merged_from_second: bool,
    /// How many windows ended late.
    number: u64,
}

/// Stamps in a row, and how late their windows ended.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: Stamp,
    last: Stamp,
    /// By how many ticks the worst of the windows ended late.
    lateness: u64,
    /// The tick before which all of the windows had ended.
    end: u64,
}

impl LateWindows {
    /// Notes that the window of `stamp` has ended before tick `end` began. Stamps come in order. A
    /// stamp that was published twice comes again, and then the later end counts.
    fn ended(&mut self, stamp: Stamp, end: u64) {
        let lateness = end.saturating_sub(stamp.window_end());
        if lateness == 0 {
            return;
        }
        self.number += 1;
        match self.ranges.last_mut() {
            Some(range) if range.last >= stamp => {
                range.lateness = range.lateness.max(lateness);
                range.end = range.end.max(end);
            }
            _ => self.ranges.push(Range {
                first: stamp,
                last: stamp,
                lateness,
                end,
            }),
        }
        if self.ranges.len() == CAPACITY {
            self.merge_in_the_older_half();
        }
    }

    /// By how many ticks the window of `stamp` ended late.
    fn lateness(&self, stamp: Stamp) -> u64 {
        let after = self.ranges.partition_point(|range| range.first <= stamp);
        match after.checked_sub(1).map(|index| self.ranges[index]) {
            Some(range) if stamp <= range.last => range.lateness_of(stamp),
            _ => 0,
        }
    }

    /// Merges half of the pairs of neighbours in the older half of the log, the cheapest pairs.
    fn merge_in_the_older_half(&mut self) {
        let newer = self.ranges.split_off(CAPACITY / 2);
        let older = std::mem::take(&mut self.ranges);
        // The pairs begin one range later every other time, so that each range meets both of its
        // neighbours.
        self.merged_from_second = !self.merged_from_second;
        let (alone, paired) = older.split_at(usize::from(self.merged_from_second));
        let mut costs: Vec<u64> = paired
            .chunks_exact(2)
            .map(|pair| pair[0].cost_of_merging(&pair[1]))
            .collect();
        costs.sort_unstable();
        let highest = costs[costs.len() / 2];
        self.ranges.extend(alone);
        for pair in paired.chunks(2) {
            match pair {
                [one, next] if one.cost_of_merging(next) <= highest => {
                    self.ranges.push(one.merge(next));
                }
                _ => self.ranges.extend(pair),
            }
        }
        self.ranges.extend(newer);
    }
}

impl Range {
    /// The worst lateness of the range bounds it. So does the end, which no window of it passed.
    fn lateness_of(&self, stamp: Stamp) -> u64 {
        self.lateness
            .min(self.end.saturating_sub(stamp.window_end()))
    }

    fn merge(&self, next: &Range) -> Range {
        Range {
            first: self.first,
            last: next.last,
            lateness: self.lateness.max(next.lateness),
            end: self.end.max(next.end),
        }
    }

    /// How much lateness a merge adds, over all stamps.
    fn cost_of_merging(&self, next: &Range) -> u64 {
        let merged = self.merge(next);
        let width = |range: &Range| range.last.tick() - range.first.tick() + 1;
        let added = |range: &Range| width(range).saturating_mul(merged.lateness - range.lateness);
        let between = next.first.tick() - self.last.tick() - 1;
        added(self)
            .saturating_add(added(next))
            .saturating_add(between.saturating_mul(merged.lateness))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::stamp::WINDOW;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_answer_is_never_too_low_and_exact_for_recent_stamps(
            steps in proptest::collection::vec((1..4_u64, 0..20_u64), 1..5_000),
        ) {
            let mut log = LateWindows::default();
            let mut ended = Vec::new();
            let mut stamp = 0;
            let mut last_end = 0;
            for (step, late) in steps {
                stamp += step;
                // Windows end in the order of their stamps.
                last_end = last_end.max(stamp + WINDOW + late.saturating_sub(10));
                log.ended(Stamp::of(stamp), last_end);
                ended.push((stamp, last_end - WINDOW - stamp));
            }
            for (age, &(stamp, lateness)) in ended.iter().rev().enumerate() {
                prop_assert!(log.lateness(Stamp::of(stamp)) >= lateness);
                if age < CAPACITY / 2 {
                    prop_assert_eq!(log.lateness(Stamp::of(stamp)), lateness);
                }
            }
            prop_assert!(log.ranges.len() < CAPACITY);
            prop_assert!(log.ranges.windows(2).all(|pair| pair[0].last < pair[1].first));
            prop_assert_eq!(log.lateness(Stamp::of(stamp + 1)), 0);
        }
    }

    #[test]
    fn one_great_stall_delays_only_the_stamps_about_it() {
        for every in [2, 3, 10, 100] {
            let mut log = LateWindows::default();
            log.ended(Stamp::of(1_000), 1_000 + WINDOW + 10_000);
            for stamp in (11_001..2_000_000).step_by(every) {
                log.ended(Stamp::of(stamp), stamp + WINDOW + 1);
            }
            assert_eq!(log.lateness(Stamp::of(1_000)), 10_000);
            for stamp in [11_100, 15_000, 50_000, 500_000, 1_900_000] {
                let lateness = log.lateness(Stamp::of(stamp));
                assert!(lateness <= 1, "stamp {stamp}: {lateness}");
            }
        }
    }

    #[test]
    fn of_two_windows_of_one_stamp_the_later_end_counts() {
        let mut log = LateWindows::default();
        log.ended(Stamp::of(10), 20);
        log.ended(Stamp::of(10), 17);
        log.ended(Stamp::of(10), 25);
        assert_eq!(log.lateness(Stamp::of(10)), 13);
        log.ended(Stamp::of(11), 13);
        assert_eq!([9, 11].map(|stamp| log.lateness(Stamp::of(stamp))), [0, 0]);
    }

    #[test]
    fn a_due_takes_sixteen_bytes() {
        // Very many of them are kept. The number that no stamp has tells the two kinds apart.
        assert_eq!(size_of::<Due>(), 16);
    }

    #[test]
    fn a_stamp_is_published_and_read_again() {
        for tick in [0, 1, 7, u64::MAX - 1] {
            let stamp = Stamp::of(tick);
            assert_eq!(stamp.tick(), tick);
            assert_eq!(Stamp::from_published(stamp.to_published()), Some(stamp));
        }
        assert_eq!(Stamp::from_published(0), None);
    }
}
