//! What is armed is ready once the driver has fired it, whatever a clock says.

use std::future::pending;
use std::pin::pin;

use tickwheel::time as tickwheels;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{self as tokios, Instant};
use tokio_test::{assert_pending, task};

use crate::common::{HOUR, MS, current_thread, move_the_clock_only, paused};
use crate::{assert_same, block_until, watched};

same_as_tokio! {
    async fn an_armed_sleep_of_a_blocked_thread_waits_for_the_driver()
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
    async fn an_armed_timer_waits_for_the_driver_under_a_paused_clock_too()
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
    async fn a_message_in_time_beats_the_idle_sleep_of_a_blocked_thread()
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
    async fn a_message_in_time_beats_the_timeout_of_a_blocked_thread()
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
    async fn a_message_in_time_beats_the_tick_of_a_blocked_thread() -> Vec<&'static str> in current_thread {
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
    /// Both can run when the blocking task has ended. The connection is polled before the driver
    /// comes round.
    async fn a_message_beats_the_idle_sleep_when_another_task_blocked()
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
