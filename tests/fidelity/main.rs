//! Programs that leave a trace, each run with tokio's timers and with tickwheel's: both leave the
//! same.
//!
//! A program is written once, against `time`, and compiled against either `time` module. What it
//! asserts itself holds for both. Whatever hangs or spins is a failure, not a wait.

#[path = "../common/mod.rs"]
mod common;

use std::fmt::Debug;
use std::future::pending;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use tickwheel::time as tickwheels;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::{self as tokios, Duration, Instant, advance, pause};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, current_thread, move_the_clock_only, multi_thread, paused};

const NS: Duration = Duration::from_nanos(1);
const US: Duration = Duration::from_micros(1);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Real time that no program comes near.
const WATCHDOG: Duration = Duration::from_secs(20);

/// A program as a test: for each seed it is run with either `time`, each time in a fresh runtime.
macro_rules! same_as_tokio {
    ($(#[$attribute:meta])* async fn $name:ident() -> Vec<$event:ty> in $runtime:ident $program:block) => {
        same_as_tokio! {
            $(#[$attribute])*
            async fn $name(_seed in 0..1) -> Vec<$event> in $runtime $program
        }
    };
    (
        $(#[$attribute:meta])*
        async fn $name:ident($seed:ident in $seeds:expr) -> Vec<$event:ty> in $runtime:ident $program:block
    ) => {
        $(#[$attribute])*
        #[test]
        fn $name() {
            mod with_tokio {
                #[allow(unused_imports)]
                use super::{tokios as time, *};
                pub(super) async fn run($seed: u64) -> Vec<$event> $program
            }
            mod with_tickwheel {
                #[allow(unused_imports)]
                use super::{tickwheels as time, *};
                pub(super) async fn run($seed: u64) -> Vec<$event> $program
            }
            for seed in $seeds {
                let expected = watched(move || $runtime().block_on(with_tokio::run(seed)));
                let trace = watched(move || $runtime().block_on(with_tickwheel::run(seed)));
                assert_same(seed, &trace, &expected);
            }
        }
    };
}

fn two_workers() -> Runtime {
    multi_thread(2)
}

/// Runs it on a thread of its own, which is left behind if it does not come to an end.
fn watched<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, outcome) = mpsc::channel();
    let runner = thread::spawn(move || drop(done.send(run())));
    match outcome.recv_timeout(WATCHDOG) {
        Ok(trace) => trace,
        Err(RecvTimeoutError::Timeout) => panic!("it spins or hangs"),
        Err(RecvTimeoutError::Disconnected) => resume_unwind(runner.join().unwrap_err()),
    }
}

/// Shows the first difference only; traces are long.
fn assert_same<E: PartialEq + Debug>(seed: u64, trace: &[E], expected: &[E]) {
    for (at, (ours, tokios)) in trace.iter().zip(expected).enumerate() {
        assert_eq!(
            ours, tokios,
            "event {at} of seed {seed}, tokio's is the right one"
        );
    }
    assert_eq!(
        trace.len(),
        expected.len(),
        "length of the trace of seed {seed}"
    );
}

/// Blocks the thread, and with it the runtime's time driver, until that has passed.
fn block_until(deadline: Instant) {
    while Instant::now() <= deadline + MS {
        thread::sleep(deadline.saturating_duration_since(Instant::now()) + 2 * MS);
    }
}

/// Up to `most`, to the nanosecond, never zero.
fn some_time(random: &mut fastrand::Rng, most: Duration) -> Duration {
    Duration::from_nanos(random.u64(1..=u64::try_from(most.as_nanos()).unwrap()))
}

// Far deadlines.

same_as_tokio! {
    async fn the_longest_sleep_ends_under_a_paused_clock() -> Vec<&'static str> in paused {
        time::sleep(Duration::MAX).await;
        vec!["ended"]
    }
}

same_as_tokio! {
    async fn the_longest_sleep_ends_after_the_short_ones_beside_it() -> Vec<String> in paused {
        let start = Instant::now();
        let mut naps = JoinSet::new();
        for nap in [Duration::MAX, 3 * MS, HOUR, MS] {
            naps.spawn(async move {
                time::sleep(nap).await;
                nap
            });
        }
        let mut trace = Vec::new();
        while let Some(nap) = naps.join_next().await {
            let nap = nap.unwrap();
            match nap {
                Duration::MAX => trace.push("the longest".to_owned()),
                _ => trace.push(format!("{nap:?} after {:?}", start.elapsed())),
            }
        }
        trace
    }
}

same_as_tokio! {
    async fn a_timeout_of_200_years_elapses_under_a_paused_clock() -> Vec<String> in paused {
        let outcome = time::timeout(200 * YEAR, pending::<()>()).await;
        vec![outcome.unwrap_err().to_string()]
    }
}

same_as_tokio! {
    async fn far_deadlines_are_met_to_the_millisecond() -> Vec<Duration> in paused {
        let start = Instant::now();
        let mut trace = Vec::new();
        for years in [1, 60, 100] {
            time::sleep_until(start + years * YEAR + 7 * MS).await;
            trace.push(start.elapsed());
        }
        assert!(time::timeout(40 * YEAR, pending::<()>()).await.is_err());
        trace.push(start.elapsed());
        time::sleep(MS).await;
        trace.push(start.elapsed());
        trace
    }
}

// Who waits with a waker of its own.

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
    async fn a_reset_to_now_wakes_before_it_returns_on_a_whole_millisecond() -> Vec<(Duration, bool)> in paused {
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
    /// What had passed when the driver last came round is passed; what has since is the driver's to
    /// find.
    async fn a_reset_to_the_past_before_the_driver_has_come_round_is_as_tokios() -> Vec<bool> in paused {
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

// What is armed is ready once the driver has fired it, whatever a clock says.

same_as_tokio! {
    async fn an_armed_sleep_whose_thread_was_blocked_past_it_is_pending_until_the_driver_came()
        -> Vec<(bool, bool)> in current_thread
    {
        let mut nap = task::spawn(Box::pin(time::sleep(100 * MS)));
        assert_pending!(nap.poll());
        let mut trace = vec![(nap.is_elapsed(), nap.is_woken())];
        block_until(nap.deadline());
        trace.push((nap.is_elapsed(), nap.is_woken()));
        trace.push((nap.poll().is_ready(), nap.is_woken()));
        tokio::task::yield_now().await;
        trace.push((nap.is_elapsed(), nap.is_woken()));
        trace.push((nap.poll().is_ready(), nap.is_elapsed()));
        trace
    }
}

same_as_tokio! {
    async fn an_armed_timer_is_pending_until_the_driver_came_under_a_paused_clock_too()
        -> Vec<(u32, bool)> in paused
    {
        let mut trace = Vec::new();
        for round in 0..5 {
            let mut nap = task::spawn(Box::pin(time::sleep(10 * MS)));
            let mut bounded = task::spawn(time::timeout(10 * MS, pending::<()>()));
            let mut beat = time::interval_at(Instant::now() + 10 * MS, MS);
            let mut beat = task::spawn(beat.tick());
            assert_pending!(nap.poll());
            assert_pending!(bounded.poll());
            assert_pending!(beat.poll());
            move_the_clock_only((10 + round) * MS);
            trace.push((round, nap.is_elapsed()));
            trace.push((round, nap.poll().is_ready()));
            trace.push((round, bounded.poll().is_ready()));
            trace.push((round, beat.poll().is_ready()));
            tokio::task::yield_now().await;
            trace.push((round, nap.is_woken() && nap.is_elapsed() && nap.poll().is_ready()));
            trace.push((round, bounded.is_woken() && bounded.poll().is_ready()));
            trace.push((round, beat.is_woken() && beat.poll().is_ready()));
        }
        trace
    }
}

same_as_tokio! {
    async fn a_message_sent_in_time_comes_before_the_idle_sleep_of_a_blocked_thread()
        -> Vec<&'static str> in current_thread
    {
        let (sender, mut messages) = unbounded_channel();
        let mut idle = pin!(time::sleep(100 * MS));
        assert!(futures::poll!(&mut idle).is_pending());
        sender.send("message").unwrap();
        block_until(idle.deadline());
        let mut trace = Vec::new();
        while trace.len() < 2 {
            tokio::select! {
                biased;
                () = &mut idle => trace.push("idle"),
                Some(message) = messages.recv() => trace.push(message),
            }
        }
        assert_eq!(trace, ["message", "idle"]);
        trace
    }
}

same_as_tokio! {
    async fn a_message_sent_in_time_comes_before_the_timeout_of_a_blocked_thread()
        -> Vec<&'static str> in current_thread
    {
        let (sender, mut messages) = unbounded_channel();
        let deadline = Instant::now() + 100 * MS;
        let mut idle = pin!(time::timeout_at(deadline, pending::<()>()));
        assert!(futures::poll!(&mut idle).is_pending());
        sender.send("message").unwrap();
        block_until(deadline);
        let mut trace = Vec::new();
        while trace.len() < 2 {
            tokio::select! {
                biased;
                _ = &mut idle => trace.push("idle"),
                Some(message) = messages.recv() => trace.push(message),
            }
        }
        assert_eq!(trace, ["message", "idle"]);
        trace
    }
}

same_as_tokio! {
    async fn a_message_sent_in_time_comes_before_the_tick_of_a_blocked_thread() -> Vec<&'static str> in current_thread {
        let (sender, mut messages) = unbounded_channel();
        let deadline = Instant::now() + 100 * MS;
        let mut beat = time::interval_at(deadline, HOUR);
        assert!(futures::poll!(pin!(beat.tick())).is_pending());
        sender.send("message").unwrap();
        block_until(deadline);
        let mut trace = Vec::new();
        while trace.len() < 2 {
            tokio::select! {
                biased;
                _ = beat.tick() => trace.push("tick"),
                Some(message) = messages.recv() => trace.push(message),
            }
        }
        assert_eq!(trace, ["message", "tick"]);
        trace
    }
}

same_as_tokio! {
    /// Both are runnable when the blocking task has ended: the connection is polled before the
    /// driver comes round.
    async fn a_message_comes_before_the_idle_sleep_when_another_task_blocked_the_thread()
        -> Vec<&'static str> in current_thread
    {
        let (sender, mut messages) = unbounded_channel();
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let connection = tokio::spawn(async move {
            let mut idle = pin!(time::sleep(100 * MS));
            assert!(futures::poll!(&mut idle).is_pending());
            ready.send(idle.deadline()).unwrap();
            let mut trace = Vec::new();
            while trace.len() < 2 {
                tokio::select! {
                    biased;
                    () = &mut idle => trace.push("idle"),
                    Some(message) = messages.recv() => trace.push(message),
                }
            }
            trace
        });
        let blocking = tokio::spawn(async move {
            let idle = is_ready.await.unwrap();
            sender.send("message").unwrap();
            block_until(idle);
        });
        blocking.await.unwrap();
        connection.await.unwrap()
    }
}

// A clock that stands between two milliseconds.

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
    async fn random_moments_between_milliseconds_end_sleeps_where_tokios_end(seed in 0..40)
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
    async fn random_moments_between_milliseconds_end_timeouts_and_ticks_where_tokios_end(seed in 0..20)
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

// Nothing of ours is left behind.

same_as_tokio! {
    async fn no_task_is_alive_that_the_program_did_not_spawn() -> Vec<usize> in paused {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let mut trace = vec![tasks()];
        time::sleep(MS).await;
        trace.push(tasks());
        let _ = time::timeout(MS, pending::<()>()).await;
        trace.push(tasks());
        let mut beat = time::interval(MS);
        beat.tick().await;
        beat.tick().await;
        trace.push(tasks());
        drop(beat);
        let _ = task::spawn(time::sleep(HOUR)).poll();
        trace.push(tasks());
        trace
    }
}

same_as_tokio! {
    async fn no_task_is_alive_that_the_program_did_not_spawn_on_any_worker() -> Vec<usize> in two_workers {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let mut trace = vec![tasks()];
        let mut naps = JoinSet::new();
        for nap in 1..20 {
            naps.spawn(async move { time::sleep(nap * 100 * US).await });
        }
        naps.join_all().await;
        // A task that was joined is gone a moment later.
        for _ in 0..500 {
            if tasks() > 0 {
                thread::sleep(10 * MS);
            }
        }
        trace.push(tasks());
        trace
    }
}
