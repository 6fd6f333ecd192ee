//! A future that is polled by hand, with a waker of its own, is woken when tokio would wake it.

use tickwheel::time as tickwheels;
use tokio::time::{self as tokios, Duration, Instant, advance};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, move_the_clock_only, paused};
use crate::{US, assert_same, some_time, watched};

same_as_tokio! {
    async fn a_foreign_waker_is_woken_when_advance_returns() -> Vec<(u64, bool)> in paused {
        let mut nap = task::spawn(Box::pin(time::sleep(10 * MS)));
        assert_pending!(nap.poll());
        let mut trace = Vec::new();
        for by in [4, 5, 1, 3, 7, 1, 50, 9, 1] {
            advance(by * MS).await;
            trace.push((u64::from(by), nap.is_woken()));
            if nap.is_woken() {
                assert_ready!(nap.poll());
                let next = Instant::now() + 10 * MS;
                nap.as_mut().reset(next);
                assert_pending!(nap.poll());
            }
        }
        assert_eq!(trace.iter().filter(|(_, woken)| *woken).count(), 4);
        trace
    }
}

same_as_tokio! {
    async fn random_advances_wake_the_same_foreign_wakers(seed in 0..30)
        -> Vec<(Duration, usize, &'static str)> in paused
    {
        let mut random = fastrand::Rng::with_seed(seed);
        let start = Instant::now();
        let mut trace = Vec::new();
        // Every other seed stays on whole milliseconds.
        let whole = |time: Duration| match seed % 2 {
            0 => MS * u32::try_from(time.as_millis() + 1).unwrap(),
            _ => time,
        };
        let mut naps = Vec::new();
        for _ in 0..6 {
            let nap = whole(some_time(&mut random, 8 * MS));
            naps.push(task::spawn(Box::pin(time::sleep(nap))));
            assert_pending!(naps.last_mut().unwrap().poll());
        }
        for _ in 0..60 {
            advance(whole(some_time(&mut random, 3 * MS))).await;
            let now = Instant::now();
            for (at, nap) in naps.iter_mut().enumerate() {
                if nap.is_woken() {
                    trace.push((start.elapsed(), at, "woken"));
                    assert!(nap.is_elapsed());
                    assert_ready!(nap.poll());
                    nap.as_mut().reset(now + whole(some_time(&mut random, 8 * MS)));
                    assert_pending!(nap.poll());
                } else if random.u8(..8) == 0 {
                    trace.push((start.elapsed(), at, "moved"));
                    nap.as_mut().reset(now + whole(some_time(&mut random, 8 * MS)));
                } else if random.u8(..8) == 0 && now >= start + MS {
                    nap.as_mut().reset(now - MS);
                    let event = if nap.is_woken() { "woken by its reset" } else { "not woken" };
                    trace.push((start.elapsed(), at, event));
                }
            }
        }
        trace
    }
}

same_as_tokio! {
    async fn a_reset_to_the_past_wakes_before_it_returns() -> Vec<(Duration, bool, bool)> in paused {
        let start = Instant::now();
        let mut trace = Vec::new();
        // The clock has never moved, has moved, and has moved off the whole milliseconds.
        for by in [Duration::ZERO, 2 * HOUR, 300 * US] {
            if by > Duration::ZERO {
                advance(by).await;
            }
            for back in [MS, 5 * MS, HOUR] {
                let mut nap = task::spawn(Box::pin(time::sleep(HOUR)));
                assert_pending!(nap.poll());
                let now = Instant::now();
                nap.as_mut().reset(now - back);
                trace.push((start.elapsed(), nap.is_woken(), nap.is_elapsed()));
                assert_ready!(nap.poll());
            }
        }
        assert!(trace.iter().all(|(_, woken, elapsed)| *woken && *elapsed));
        trace
    }
}

same_as_tokio! {
    async fn a_reset_to_now_on_a_whole_millisecond_wakes_at_once() -> Vec<(Duration, bool)> in paused {
        let start = Instant::now();
        let mut trace = Vec::new();
        for _ in 0..5 {
            let mut nap = task::spawn(Box::pin(time::sleep(HOUR)));
            assert_pending!(nap.poll());
            let now = Instant::now();
            nap.as_mut().reset(now);
            trace.push((start.elapsed(), nap.is_woken()));
            assert_ready!(nap.poll());
            advance(MS).await;
        }
        trace
    }
}

same_as_tokio! {
    /// What had passed when the driver last came round has passed. What has passed since is for the
    /// driver to find.
    async fn a_reset_to_the_past_before_the_drivers_round_is_as_tokios() -> Vec<bool> in paused {
        let start = Instant::now();
        let mut trace = Vec::new();
        for (moved, back) in [(2 * HOUR, 3 * HOUR), (2 * HOUR, HOUR), (5 * MS, MS)] {
            let mut nap = task::spawn(Box::pin(time::sleep(10 * HOUR)));
            assert_pending!(nap.poll());
            move_the_clock_only(moved);
            let now = Instant::now();
            nap.as_mut().reset(now.checked_sub(back).unwrap_or(start));
            trace.push(nap.is_woken());
            trace.push(nap.poll().is_ready());
            tokio::task::yield_now().await;
            trace.push(nap.is_woken());
            trace.push(nap.poll().is_ready());
        }
        trace
    }
}
