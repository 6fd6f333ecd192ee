//! Under the paused clock: nanoseconds, centuries, and what is so before the driver comes round.

use std::future::pending;
use std::thread;

use tokio::task::{JoinSet, consume_budget, yield_now};
use tokio::time::{Duration, Instant, advance, pause};
use tokio_test::{assert_pending, task};

use super::same_as_tokio;
use crate::common::{HOUR, MS, current_thread};
use crate::paused_clock::{move_the_clock_only, paused};

const US: Duration = Duration::from_micros(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

same_as_tokio! {
    async fn timers_from_a_random_nanosecond_end_where_tokios_do(seed in 0..40)
        -> Vec<Duration> in paused
    {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut nanos = |most: u64| Duration::from_nanos(random.u64(1..=most * 1_000_000));
        let start = Instant::now();
        let mut trace = Vec::new();
        for _ in 0..20 {
            advance(nanos(2)).await;
            time::sleep(nanos(3)).await;
            trace.push(start.elapsed());
            let inner = time::sleep(nanos(5));
            let is_in_time = time::timeout(nanos(5), inner).await.is_ok();
            trace.extend([start.elapsed(), Duration::from_secs(is_in_time.into())]);
            let mut beat = time::interval(nanos(4));
            for _ in 0..4 {
                trace.push(beat.tick().await - start);
                trace.push(start.elapsed());
            }
        }
        trace
    }
}

same_as_tokio! {
    /// Where time runs to is tokio's own affair.
    async fn the_longest_waits_end_under_a_paused_clock(longest in 0..2) -> Vec<bool> in paused {
        let sleeps = JoinSet::from_iter([3 * MS, HOUR].map(time::sleep));
        match longest {
            0 => time::sleep(Duration::MAX).await,
            _ => assert!(time::timeout(200 * YEAR, pending::<()>()).await.is_err()),
        }
        vec![sleeps.join_all().await.len() == 2]
    }
}

same_as_tokio! {
    /// Not for a look at the clock, so that a message that came in time wins. In real time the
    /// thread is blocked until the deadlines have passed.
    async fn armed_timers_wait_for_the_drivers_round(is_blocked in 0..2)
        -> Vec<[bool; 4]> in current_thread
    {
        let (naps, wait) = if is_blocked == 1 { (1, 100 * MS) } else { (5, 10 * MS) };
        if is_blocked == 0 {
            pause();
        }
        let mut trace = Vec::new();
        for round in 0..naps {
            let mut nap = task::spawn(Box::pin(time::sleep(wait)));
            let mut bounded = task::spawn(time::timeout(wait, pending::<()>()));
            let mut unpolled = task::spawn(Box::pin(time::sleep(wait)));
            let mut beat = time::interval_at(Instant::now() + wait, MS);
            let mut beat = task::spawn(beat.tick());
            assert_pending!(nap.poll());
            assert_pending!(bounded.poll());
            assert_pending!(beat.poll());
            match is_blocked {
                0 => move_the_clock_only(wait + round * MS),
                _ => thread::sleep(wait + 5 * MS),
            }
            for _ in 0..2 {
                trace.push([nap.is_woken(), nap.is_elapsed(), bounded.is_woken(), beat.is_woken()]);
                let ready = [
                    nap.poll().is_ready(),
                    bounded.poll().is_ready(),
                    beat.poll().is_ready(),
                    unpolled.poll().is_ready(),
                ];
                trace.push(ready);
                trace.push([nap.is_elapsed(), unpolled.is_elapsed(), false, false]);
                yield_now().await;
                if ready == [true; 4] {
                    break;
                }
            }
        }
        trace
    }
}

same_as_tokio! {
    /// What had passed when the driver last came round wakes before the reset returns. What has
    /// passed since then is for the driver to find.
    async fn a_reset_to_the_past_or_to_now_wakes_when_tokios_does(_seed in 0..1)
        -> Vec<[bool; 4]> in paused
    {
        let mut trace = Vec::new();
        let mut reset = async |by: Duration, is_seen: bool, back: Duration| {
            let mut nap = task::spawn(Box::pin(time::sleep(10 * HOUR)));
            assert_pending!(nap.poll());
            if is_seen {
                advance(by).await;
            } else {
                move_the_clock_only(by);
            }
            let now = Instant::now();
            nap.as_mut().reset(now - back);
            trace.push([nap.is_woken(), nap.is_elapsed(), nap.poll().is_ready(), false]);
            yield_now().await;
            trace.push([nap.is_woken(), nap.is_elapsed(), nap.poll().is_ready(), true]);
            // No task has polled it since.
            nap.as_mut().reset(now - back);
            trace.push([nap.is_elapsed(); 4]);
            trace[trace.len() - 3]
        };
        assert!(reset(Duration::ZERO, true, HOUR).await[0], "before the clock has moved");
        for by in [2 * HOUR, 5 * MS, 300 * US] {
            for back in [Duration::ZERO, MS, HOUR, 3 * HOUR] {
                let [is_woken, ..] = reset(by, true, back).await;
                assert!(is_woken || back == Duration::ZERO);
                reset(by, false, back).await;
            }
        }
        trace
    }
}

same_as_tokio! {
    /// In a task of its own, because the budget is a task's.
    async fn a_future_that_always_uses_up_the_budget_is_bounded(_seed in 0..1)
        -> Vec<bool> in current_thread
    {
        let endless = async {
            loop {
                consume_budget().await;
            }
        };
        let bounded = tokio::spawn(time::timeout::<_>(10 * MS, endless));
        let bounded: Result<(), _> = bounded.await.unwrap();
        vec![bounded.is_err()]
    }
}

same_as_tokio! {
    async fn a_tick_is_missed_when_it_is_over_five_milliseconds_late(behavior in 0..3)
        -> Vec<Duration> in paused
    {
        use time::MissedTickBehavior::{Burst, Delay, Skip};
        let mut trace = Vec::new();
        for late in 4..=6 {
            let mut beat = time::interval(4 * MS);
            beat.set_missed_tick_behavior([Burst, Delay, Skip][behavior as usize]);
            let start = beat.tick().await;
            advance((4 + late) * MS).await;
            for _ in 0..3 {
                beat.tick().await;
                trace.push(start.elapsed());
            }
        }
        trace
    }
}

same_as_tokio! {
    /// The clock stands at a whole millisecond, so the end of the timeout is due already.
    async fn a_timeout_of_zero_elapses_before_a_task_that_yields(_seed in 0..1)
        -> Vec<bool> in paused
    {
        let is_late = time::timeout(Duration::ZERO, yield_now()).await.is_err();
        assert!(is_late, "as TESTING says");
        vec![is_late]
    }
}
