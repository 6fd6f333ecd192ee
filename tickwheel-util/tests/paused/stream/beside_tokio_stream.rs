//! The adapters beside tokio-stream's, on the same random streams: each yields the same items at
//! the same times.

use std::pin::pin;

use futures::StreamExt as _;
use futures::stream::Stream;
use tickwheel::{Duration, Instant, MissedTickBehavior};
use tickwheel_util::stream::StreamExt as _;

use super::after_pauses;
use crate::common::{SECOND, assert_nothing_armed};

/// In milliseconds. The timeouts lie just before, at and just after some.
const PAUSES: [u64; 10] = [0, 0, 0, 1, 300, 999, 1000, 1001, 2500, 5000];
const TIMEOUTS: [u64; 7] = [1, 300, 999, 1000, 1001, 2000, 1_000_000];

/// A stream, its consumer, and the arguments of an adapter.
#[derive(Debug)]
struct Case {
    pauses: Vec<u64>,
    /// What the consumer does after each item, in milliseconds, over and over.
    work: [u64; 3],
    duration: Duration,
    max_size: usize,
    missed: MissedTickBehavior,
}

impl Case {
    fn random(seed: u64) -> Case {
        let mut random = fastrand::Rng::with_seed(seed);
        let is_busy = random.bool();
        let pauses = (0..random.usize(..8)).map(|_| random.choice(PAUSES).unwrap());
        let pauses = pauses.collect();
        let mut work = || if is_busy { random.choice(PAUSES) } else { None };
        let work = [(); 3].map(|()| work().unwrap_or(0));
        let duration = random.choice(TIMEOUTS).unwrap();
        let behaviours = [
            MissedTickBehavior::Burst,
            MissedTickBehavior::Delay,
            MissedTickBehavior::Skip,
        ];
        Case {
            pauses,
            work,
            duration: Duration::from_millis(duration),
            max_size: random.usize(1..4),
            missed: random.choice(behaviours).unwrap(),
        }
    }

    fn items(&self) -> impl Stream<Item = usize> + Unpin + use<> {
        after_pauses(&self.pauses)
    }

    /// What a stream yields, and when, in milliseconds from now on.
    async fn seen<S: Stream>(&self, stream: S) -> Vec<(u128, S::Item)> {
        let mut stream = pin!(stream);
        let mut work = self.work.iter().cycle();
        let start = Instant::now();
        let mut seen = Vec::new();
        while let Some(item) = stream.next().await {
            seen.push((start.elapsed().as_millis(), item));
            let work = work.next().copied().unwrap_or_default();
            tokio::time::sleep(Duration::from_millis(work)).await;
        }
        seen
    }
}

fn cases() -> impl Iterator<Item = Case> {
    (0..400).map(Case::random)
}

#[tokio::test(start_paused = true)]
async fn a_timeout_reports_the_same_gaps() {
    for case in cases() {
        let theirs = tokio_stream::StreamExt::timeout(case.items(), case.duration).map(Result::ok);
        let theirs = case.seen(theirs).await;
        let ours = case.items().timeout(case.duration).map(Result::ok);
        assert_eq!(case.seen(ours).await, theirs, "{case:?}");
        // Nothing is a stall on a paused clock.
        let ours = case.items().idle_timeout(case.duration).map(Result::ok);
        assert_eq!(case.seen(ours).await, theirs, "idle: {case:?}");
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_repeating_timeout_reports_the_same_ticks() {
    for case in cases() {
        // A tick of a millisecond would be reported five thousand times in a pause.
        let period = case.duration.max(Duration::from_millis(300));
        for first in [Duration::ZERO, period] {
            let first = || Instant::now() + first;
            let mut interval = tokio::time::interval_at(first(), period);
            interval.set_missed_tick_behavior(case.missed);
            let theirs =
                tokio_stream::StreamExt::timeout_repeating(case.items(), interval).map(Result::ok);
            let theirs = case.seen(theirs).await;
            let mut interval = tickwheel::interval_at(first(), period);
            interval.set_missed_tick_behavior(case.missed);
            let ours = case.items().timeout_repeating(interval).map(Result::ok);
            assert_eq!(case.seen(ours).await, theirs, "{case:?}");
        }
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn chunks_have_the_same_items_at_the_same_times() {
    for case in cases() {
        for duration in [Duration::ZERO, case.duration] {
            let theirs =
                tokio_stream::StreamExt::chunks_timeout(case.items(), case.max_size, duration);
            let theirs = case.seen(theirs).await;
            let ours = case.items().chunks_timeout(case.max_size, duration);
            assert_eq!(case.seen(ours).await, theirs, "{duration:?} {case:?}");
        }
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_throttle_pauses_as_long() {
    for case in cases() {
        for duration in [Duration::ZERO, case.duration.min(3 * SECOND)] {
            let theirs = case
                .seen(tokio_stream::StreamExt::throttle(case.items(), duration))
                .await;
            let ours = case.items().throttle(duration);
            assert_eq!(case.seen(ours).await, theirs, "{duration:?} {case:?}");
        }
    }
    assert_nothing_armed();
}
