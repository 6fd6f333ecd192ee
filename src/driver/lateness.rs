//! How late timers fire: the public [`Lateness`], and where the driver writes it down.
//!
//! A histogram of buckets that are 3 to 6 % wide, in the manner of HdrHistogram: 16 of each power
//! of two microseconds. It takes 4 KB, from the first timer that fires on, however many fire.
//!
//! Invariant: only the running thread adds. It adds once for all timers of one tick in a batch, so
//! a timer that fires costs an addition to a local count. A reader sees numbers of slightly
//! different moments, which is as good as any. So all operations are Relaxed.

use std::fmt;
use std::iter::{Enumerate, FusedIterator};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::tick::{Moment, TickLength};

/// How late the timers that fired came: [`Timer::lateness`](crate::Timer::lateness).
///
/// It counts the timers that the driver has fired, each by the time from the beginning of its tick
/// to the wake-up of its task. A deadline is rounded up to the beginning of a tick, which is not
/// counted. A deadline that a stall has spared counts its grace too.
///
/// Lateness is counted in buckets of which each is at most 6.25 % wide, up to 19 hours. A quantile
/// is the upper end of its bucket, so it is never reported too low.
///
/// ```
/// # #[tokio::main]
/// # async fn main() {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::new();
/// timer.sleep(Duration::from_millis(5)).await;
/// let lateness = timer.take_lateness();
/// assert_eq!(lateness.count(), 1);
/// println!("half within {:?}, 99 % within {:?}", lateness.p50(), lateness.p99());
/// assert!(lateness.p99() <= lateness.max());
/// assert_eq!(timer.lateness().count(), 0, "it was taken");
/// # }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Lateness {
    buckets: Vec<u64>,
    total: Duration,
    max: Duration,
}

impl Lateness {
    /// How many timers were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all. Divided by the count it is the mean.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The latest of all, exactly. Zero if none was counted.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The lateness that half of the timers had at most.
    pub fn p50(&self) -> Duration {
        self.quantile(0.5)
    }

    /// The lateness that 99 % of the timers had at most.
    pub fn p99(&self) -> Duration {
        self.quantile(0.99)
    }

    /// The lateness that this share of the timers had at most. A share below 0 counts as 0, one
    /// above 1 as 1. Zero if none was counted.
    pub fn quantile(&self, share: f64) -> Duration {
        let count = self.count();
        let rank = (share.clamp(0.0, 1.0) * count as f64).ceil();
        let rank = (rank as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|&timers| {
            seen += timers;
            seen >= rank
        });
        bucket.map_or(Duration::ZERO, |bucket| upper_end(bucket).min(self.max))
    }

    /// The buckets in which timers were counted, in their order: the upper end of each, and how
    /// many timers it has. It is for a histogram of a metrics system.
    pub fn buckets(&self) -> LatenessBuckets<'_> {
        LatenessBuckets(self.buckets.iter().enumerate())
    }
}

/// The buckets of a [`Lateness`] in which timers were counted: [`Lateness::buckets`].
///
/// ```
/// # #[tokio::main]
/// # async fn main() {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::new();
/// timer.sleep(Duration::from_millis(5)).await;
/// for (up_to, timers) in timer.lateness().buckets() {
///     println!("{timers} timers were less than {up_to:?} late");
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LatenessBuckets<'a>(Enumerate<slice::Iter<'a, u64>>);

impl Iterator for LatenessBuckets<'_> {
    type Item = (Duration, u64);

    fn next(&mut self) -> Option<(Duration, u64)> {
        let (bucket, &timers) = self.0.find(|&(_, &timers)| timers > 0)?;
        Some((upper_end(bucket), timers))
    }
}

impl FusedIterator for LatenessBuckets<'_> {}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count())
            .field("p50", &self.p50())
            .field("p99", &self.p99())
            .field("max", &self.max())
            .finish_non_exhaustive()
    }
}

/// Where the lateness of one timer's timers is written down.
#[derive(Default)]
pub(crate) struct LatenessRecord(Mutex<Lateness>);

/// Each power of two has this many buckets.
const BUCKETS_BITS: u32 = 4;
/// Up to 2 to the power of this many microseconds.
const LARGEST_BITS: u32 = 36;
const BUCKETS: usize = ((LARGEST_BITS - BUCKETS_BITS + 1) as usize) << BUCKETS_BITS;

impl LatenessRecord {
    fn add(&self, late: Duration, timers: u64) {
        let mut lateness = lock(&self.0);
        // No room is taken before a timer fires.
        lateness.buckets.resize(BUCKETS, 0);
        lateness.buckets[bucket_of(late)] += timers;
        let each = u32::try_from(timers).unwrap_or(u32::MAX);
        lateness.total = lateness.total.saturating_add(late.saturating_mul(each));
        lateness.max = lateness.max.max(late);
    }

    /// What was written down since the last call of `take`.
    pub(crate) fn read(&self) -> Lateness {
        lock(&self.0).clone()
    }

    /// What was written down since the last call of this, which begins anew.
    pub(crate) fn take(&self) -> Lateness {
        std::mem::take(&mut *lock(&self.0))
    }
}

/// The lateness of what one batch fires. What it has counted is written down when it is dropped.
pub(crate) struct Fired<'a> {
    record: &'a LatenessRecord,
    tick_length: TickLength,
    /// When the batch began.
    at: Moment,
    tick: u64,
    timers: u64,
}

impl<'a> Fired<'a> {
    pub(crate) fn new(record: &'a LatenessRecord, tick_length: TickLength, at: Moment) -> Self {
        Fired {
            record,
            tick_length,
            at,
            tick: 0,
            timers: 0,
        }
    }

    /// A timer that was due at this tick has fired.
    pub(crate) fn count(&mut self, tick: u64) {
        if tick != self.tick {
            self.write_down();
            self.tick = tick;
        }
        self.timers += 1;
    }

    fn write_down(&mut self) {
        if self.timers > 0 {
            let late = self.at.since(self.tick_length.start_of(self.tick));
            self.record.add(late, self.timers);
            self.timers = 0;
        }
    }
}

impl Drop for Fired<'_> {
    fn drop(&mut self) {
        self.write_down();
    }
}

/// Nothing panics under this lock.
fn lock(record: &Mutex<Lateness>) -> MutexGuard<'_, Lateness> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bucket_of(late: Duration) -> usize {
    let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
    let micros = micros.min((1 << LARGEST_BITS) - 1);
    // Below 32 each microsecond has a bucket.
    let shift = (u64::BITS - micros.leading_zeros()).saturating_sub(BUCKETS_BITS + 1);
    ((shift as usize) << BUCKETS_BITS) + (micros >> shift) as usize
}

/// The first lateness that is beyond a bucket.
fn upper_end(bucket: usize) -> Duration {
    let shift = (bucket >> BUCKETS_BITS).saturating_sub(1);
    let micros = ((bucket - (shift << BUCKETS_BITS)) as u64 + 1) << shift;
    Duration::from_micros(micros)
}

// How late the driver comes to its turns: the worst of the last seconds.
//
// A turn is late by the time from the tick that its alarm was set for to the last timer that it
// fires. Seconds are counted on the timer's clock.
//
// Invariant: only the running thread writes. A reader may see a second that is just being replaced,
// and takes the number for what it is, a gauge. So all operations are Relaxed.

/// For how many seconds a lateness is kept.
pub(super) const SECONDS: usize = 10;

/// In each word the number of a second, and by how many ticks a turn of it was late at the most.
#[derive(Debug, Default)]
pub(super) struct WorstLateness([AtomicU64; SECONDS]);

const TICKS_BITS: u32 = 32;
const TICKS_MASK: u64 = (1 << TICKS_BITS) - 1;

impl WorstLateness {
    /// A turn was late by that many ticks.
    pub(super) fn note(&self, now: Moment, ticks: u64) {
        let second = now.since_epoch().as_secs();
        let word = &self.0[second as usize % SECONDS];
        let before = word.load(Ordering::Relaxed);
        let worst = if before >> TICKS_BITS == second {
            before & TICKS_MASK
        } else {
            0
        };
        let ticks = ticks.min(TICKS_MASK).max(worst);
        word.store(second << TICKS_BITS | ticks, Ordering::Relaxed);
    }

    /// By how many ticks a turn of the last seconds was late at the most.
    pub(super) fn worst(&self, now: Moment) -> u64 {
        let now = now.since_epoch().as_secs();
        let words = self.0.iter().map(|word| word.load(Ordering::Relaxed));
        let recent = words.filter(|word| now.saturating_sub(word >> TICKS_BITS) < SECONDS as u64);
        recent.map(|word| word & TICKS_MASK).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timer;
    use tokio::time::{advance, sleep};

    #[test]
    fn each_bucket_ends_where_the_next_one_begins() {
        assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
        for bucket in 0..BUCKETS - 1 {
            let end = upper_end(bucket);
            assert_eq!(bucket_of(end), bucket + 1, "{end:?}");
            assert_eq!(bucket_of(end - Duration::from_nanos(1)), bucket);
            let width = end - bucket.checked_sub(1).map_or(Duration::ZERO, upper_end);
            assert!(width * 16 <= end.max(Duration::from_micros(16)), "{end:?}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_numbers_themselves_within_a_bucket() {
        let mut random = fastrand::Rng::with_seed(1);
        for count in [1_usize, 2, 99, 100, 10_000] {
            let record = LatenessRecord::default();
            let nanos = (0..count).map(|_| {
                let bits = random.u32(10..40);
                random.u64(..1 << bits)
            });
            let mut late: Vec<_> = nanos.map(Duration::from_nanos).collect();
            late.iter().for_each(|&late| record.add(late, 1));
            late.sort();
            let lateness = record.read();
            assert_eq!(lateness.count(), count as u64);
            assert_eq!(lateness.max(), late[count - 1]);
            assert_eq!(lateness.total(), late.iter().sum::<Duration>());
            for share in [-1.0, 0.0, 0.25, 0.5, 0.99, 1.0, 7.0, f64::NAN] {
                let rank = (share.clamp(0.0, 1.0) * count as f64).ceil() as usize;
                let exact = late[rank.max(1) - 1];
                let told = lateness.quantile(share);
                let about = exact.mul_f64(1.063) + Duration::from_micros(1);
                assert!(
                    (exact..=about).contains(&told),
                    "{share}: {told:?} of {exact:?}"
                );
            }
            assert_eq!(
                lateness.buckets().map(|(_, timers)| timers).sum::<u64>(),
                count as u64
            );
            assert_eq!(record.take(), lateness);
            assert_eq!(
                (record.take().count(), record.read().max()),
                (0, Duration::ZERO)
            );
        }
    }

    #[test]
    fn what_is_taken_while_it_is_written_is_whole() {
        let record = LatenessRecord::default();
        let late = Duration::from_micros(1_000);
        let taken = std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..50_000).for_each(|_| record.add(late, 3)));
            let mut taken = 0;
            while !writer.is_finished() {
                let lateness = record.take();
                let timers = lateness.count();
                assert_eq!(lateness.total(), late * timers as u32);
                assert!(timers == 0 || lateness.max() == late && lateness.p50() == late);
                taken += timers;
            }
            taken
        });
        assert_eq!(taken + record.read().count(), 150_000);
    }

    #[test]
    fn the_worst_lateness_of_the_last_seconds_is_kept() {
        let lateness = WorstLateness::default();
        let at = |seconds| Moment::after_epoch(Duration::from_secs(seconds));
        assert_eq!(lateness.worst(at(0)), 0);
        lateness.note(at(0), 7);
        lateness.note(at(0), 3);
        lateness.note(at(5), 5);
        assert_eq!(lateness.worst(at(5)), 7);
        assert_eq!(lateness.worst(at(9)), 7);
        assert_eq!(lateness.worst(at(10)), 5);
        lateness.note(at(10), 1);
        assert_eq!(lateness.worst(at(14)), 5);
        assert_eq!(lateness.worst(at(15)), 1);
        assert_eq!(lateness.worst(at(20)), 0);
        lateness.note(at(20), u64::MAX);
        assert_eq!(lateness.worst(at(20)), TICKS_MASK);
    }

    #[tokio::test(start_paused = true)]
    async fn the_driver_reports_its_worst_lateness_for_ten_seconds() {
        const MS: Duration = Duration::from_millis(1);
        let timer = Timer::new();
        let deadline = timer.deadline(10 * MS);
        advance(15 * MS).await;
        assert_eq!(timer.metrics().lateness, 5 * MS);
        let again = timer.deadline(5 * MS);
        sleep(20 * MS).await;
        assert_eq!(timer.metrics().wake_ups, 2);
        assert_eq!(timer.metrics().lateness, 5 * MS);
        sleep(10_000 * MS).await;
        assert_eq!(timer.metrics().lateness, Duration::ZERO);
        drop((deadline, again));
    }
}
