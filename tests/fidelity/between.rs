//! A clock that stands between two milliseconds: timers end where those of tokio end.

use tickwheel::time as tickwheels;
use tokio::task::JoinSet;
use tokio::time::{self as tokios, Duration, Instant, advance, pause};

use crate::common::{MS, current_thread, paused};
use crate::{NS, US, assert_same, some_time, watched};

same_as_tokio! {
    async fn sleeps_after_a_pause_midway_end_where_tokios_do() -> Vec<Duration> in current_thread {
        time::sleep(2_300 * US).await;
        pause();
        let start = Instant::now();
        let mut trace = Vec::new();
        for deadline in 1..=6 {
            time::sleep_until(start + deadline * MS).await;
            trace.push(start.elapsed());
        }
        assert_eq!(trace, [2, 3, 4, 5, 6, 7].map(|end| end * MS));
        trace
    }
}

same_as_tokio! {
    async fn sleeps_in_a_row_between_milliseconds_end_where_tokios_do() -> Vec<Duration> in paused {
        advance(300 * US).await;
        let start = Instant::now();
        let mut trace = Vec::new();
        for deadline in 1..=6 {
            time::sleep_until(start + deadline * MS).await;
            trace.push(start.elapsed());
        }
        assert_eq!(trace, [2, 3, 4, 5, 6, 7].map(|end| end * MS));
        trace
    }
}

same_as_tokio! {
    async fn concurrent_sleeps_between_milliseconds_end_where_tokios_do() -> Vec<(u32, Duration)> in paused {
        advance(300 * US).await;
        let start = Instant::now();
        let mut naps = JoinSet::new();
        for deadline in 1..=6 {
            naps.spawn(async move {
                time::sleep_until(start + deadline * MS).await;
                (deadline, start.elapsed())
            });
        }
        let mut trace = naps.join_all().await;
        trace.sort();
        assert!(trace.iter().all(|(deadline, end)| *end == (deadline + 1) * MS));
        trace
    }
}

same_as_tokio! {
    async fn now_and_the_past_wait_where_tokios_do(microseconds in [0, 300]) -> Vec<Duration> in paused {
        advance(Duration::from_micros(microseconds)).await;
        let mut trace = Vec::new();
        for past in [2 * MS, MS, Duration::ZERO, 100 * US, 200 * US] {
            let start = Instant::now();
            time::sleep_until(start - past).await;
            trace.push(start.elapsed());
            advance(Duration::from_micros(microseconds)).await;
        }
        assert_eq!(trace.iter().any(|waited| !waited.is_zero()), microseconds > 0);
        trace
    }
}

same_as_tokio! {
    async fn a_nanosecond_more_takes_a_millisecond_more(microseconds in [0, 1, 300, 999])
        -> Vec<(Duration, Duration)> in paused
    {
        advance(Duration::from_micros(microseconds)).await;
        let mut trace = Vec::new();
        for nap in [MS, MS + NS, 2 * MS - NS, 2 * MS, 2 * MS + NS, NS] {
            let start = Instant::now();
            time::sleep(nap).await;
            trace.push((nap, start.elapsed()));
        }
        assert!(microseconds > 0 || trace[1] == (MS + NS, 2 * MS));
        trace
    }
}

same_as_tokio! {
    async fn sleeps_at_random_moments_end_where_tokios_do(seed in 0..40)
        -> Vec<Duration> in paused
    {
        let mut random = fastrand::Rng::with_seed(seed);
        // A timer that was made on the whole millisecond, and one that was not.
        if seed % 2 == 0 {
            time::sleep(MS).await;
        }
        let start = Instant::now();
        let mut trace = Vec::new();
        for _ in 0..20 {
            advance(some_time(&mut random, 2 * MS)).await;
            time::sleep(some_time(&mut random, 3 * MS)).await;
            trace.push(start.elapsed());
            let mut naps = Vec::new();
            for _ in 0..5 {
                let nap = some_time(&mut random, 6 * MS);
                naps.push(tokio::spawn(async move {
                    time::sleep(nap).await;
                    start.elapsed()
                }));
            }
            for nap in naps {
                trace.push(nap.await.unwrap());
            }
        }
        trace
    }
}

same_as_tokio! {
    async fn timeouts_and_ticks_at_random_moments_end_where_tokios_do(seed in 0..20)
        -> Vec<Duration> in paused
    {
        let mut random = fastrand::Rng::with_seed(seed);
        let start = Instant::now();
        let mut trace = Vec::new();
        for _ in 0..20 {
            advance(some_time(&mut random, 2 * MS)).await;
            let inner = time::sleep(some_time(&mut random, 5 * MS));
            let in_time = time::timeout(some_time(&mut random, 5 * MS), inner).await.is_ok();
            trace.push(start.elapsed());
            trace.push(Duration::from_secs(u64::from(in_time)));
            let mut beat = time::interval(some_time(&mut random, 4 * MS));
            for _ in 0..4 {
                trace.push(beat.tick().await - start);
                trace.push(start.elapsed());
            }
        }
        trace
    }
}
