//! The process's timer: under any executor, whatever becomes of a runtime, and on a thread of its
//! own, which rests while nothing is due.

mod common;
#[path = "common/paused_clock.rs"]
mod paused_clock;

use std::fs;
use std::future::pending;
use std::sync::{Barrier, MutexGuard, Once, mpsc};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::Instant;

use futures::executor::block_on;
use tickwheel::{DeadlineMap, DelayMap, Sleep, Timer};
use tokio::runtime::Handle;
use tokio::task::{block_in_place, spawn_blocking, unconstrained};

use crate::common::{
    HOUR, MS, PATIENCE, alone, current_thread, multi_thread, poll_once, poll_with, waker_fn,
};
use crate::paused_clock::paused;

const THREAD: &str = "tickwheel-timer";

/// Gives one test at a time the timer for itself, because one of them counts what its thread does.
/// The test that runs first sees the timer being started.
fn turn() -> MutexGuard<'static, ()> {
    static FIRST: Once = Once::new();
    let turn = alone();
    FIRST.call_once(one_thread_is_started_at_the_first_use);
    turn
}

fn one_thread_is_started_at_the_first_use() {
    // A runtime's own timer has no part in it.
    current_thread().block_on(async { tickwheel::sleep(2 * MS).await });
    assert_eq!(threads_of_the_timer(), 0, "not lazily");
    let begin = Barrier::new(8);
    let use_it = || {
        begin.wait();
        woken_on()
    };
    let threads: Vec<_> = thread::scope(|scope| {
        let uses: Vec<_> = (0..8).map(|_| scope.spawn(use_it)).collect();
        uses.into_iter().map(|used| used.join().unwrap()).collect()
    });
    for thread in &threads {
        assert_eq!(thread.name(), Some(THREAD));
        assert_eq!(thread.id(), threads[0].id(), "a second thread");
    }
    assert!(threads_of_the_timer() <= 1, "a second thread does nothing");
}

/// Fewer where the system does not say, and where the list misses one because another ends.
fn threads_of_the_timer() -> usize {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == THREAD).count()
}

/// Waits for a sleep, and returns the thread that has woken the waker.
fn woken_on() -> Thread {
    let (sender, receiver) = mpsc::channel();
    let wake = move || sender.send(thread::current()).unwrap();
    let _sleep = armed_sleep(&waker_fn(wake));
    receiver
        .recv_timeout(PATIENCE)
        .expect("no thread was woken")
}

/// A short sleep that waits with this waker. A thread that gets no processor for a while may find
/// one over at its first poll, and then makes another.
fn armed_sleep(waker: &Waker) -> Sleep {
    loop {
        let mut sleep = Timer::global().sleep(5 * MS);
        if poll_with(&mut sleep, waker).is_pending() {
            return sleep;
        }
    }
}

/// A container with one processor has more threads than that, and they would contend for its lock.
#[test]
fn it_has_shards_for_more_threads_than_a_small_machine_has_processors() {
    let _turn = turn();
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let shards = Timer::global().metrics().shards();
    assert_eq!(shards, cores.max(8).next_power_of_two());
}

#[test]
fn it_rests_while_nothing_is_due() {
    let _turn = turn();
    let timer = Timer::global();
    assert_eq!(timer.metrics().pending(), 0);
    let kept: Vec<_> = (0..1_000).map(|_| timer.deadline(HOUR)).collect();
    comes_to_rest(timer);
    let before = timer.metrics().wake_ups();
    drop(kept);
    assert_eq!(timer.metrics().pending(), 0);
    comes_to_rest(timer);
    assert!(timer.metrics().wake_ups() <= before + 1);
}

#[test]
fn it_is_woken_once_for_each_sleep() {
    const SLEEPS: u64 = 20;
    let _turn = turn();
    let timer = Timer::global();
    comes_to_rest(timer);
    let before = timer.metrics().wake_ups();
    for _ in 0..SLEEPS {
        block_on(timer.sleep(5 * MS));
    }
    // None for a sleep that was due before its first poll.
    assert!(timer.metrics().wake_ups() <= before + SLEEPS);
}

/// Waits until nothing wakes it any more: what was planned for sleeps that have gone may still
/// come. One that is woken for nothing again and again fails the test.
fn comes_to_rest(timer: &Timer) {
    let begin = Instant::now();
    loop {
        let before = timer.metrics().wake_ups();
        thread::sleep(200 * MS);
        if timer.metrics().wake_ups() == before {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "it is woken for nothing");
    }
}

#[test]
fn everything_works_under_an_executor_that_is_not_tokios() {
    let _turn = turn();
    let timer = Timer::global();
    block_on(async {
        let at = Instant::now() + 20 * MS;
        timer.sleep(20 * MS).await;
        assert!(Instant::now() >= at, "early");
        timer.sleep_until((Instant::now() + 5 * MS).into()).await;
        assert!(timer.timeout(5 * MS, pending::<()>()).await.is_err());
        assert_eq!(timer.timeout(HOUR, async { 7 }).await, Ok(7));
        let at = Instant::now() + 5 * MS;
        let late = timer.timeout_at(at.into(), pending::<()>()).await;
        assert!(late.is_err() && Instant::now() >= at);

        let mut beat = timer.interval(3 * MS);
        let first = beat.tick().await;
        assert_eq!(beat.tick().await, first + 3 * MS);
        let start = tickwheel::Instant::now() + 5 * MS;
        assert_eq!(timer.interval_at(start, MS).tick().await, start);

        let idle = timer.deadline(20 * MS);
        let handle = idle.handle();
        let keeper = thread::spawn(move || {
            for _ in 0..5 {
                thread::sleep(2 * MS);
                handle.reset();
            }
        });
        assert_eq!(idle.await, Ok(()));
        keeper.join().unwrap();
        let deadlines = DeadlineMap::new(timer);
        assert_eq!(deadlines.insert(1, 5 * MS).unwrap().await, Ok(()));
        let (values, mut expired) = DelayMap::new(timer);
        values.insert("key", "value", 5 * MS).unwrap();
        assert_eq!(expired.recv().await.unwrap().value, "value");
    });
}

/// The budget of a task is for 128 waits, and only its runtime renews it.
#[test]
fn an_executor_within_a_task_needs_one_of_three_ways_out() {
    const WAITS: usize = 200;
    async fn wait_often() {
        for _ in 0..WAITS {
            Timer::global().sleep(MS).await;
        }
    }
    let _turn = turn();
    let runtime = multi_thread(2);
    let without_budget = runtime.spawn(async { block_on(unconstrained(wait_often())) });
    let on_its_own_thread = runtime.spawn(async {
        spawn_blocking(|| block_on(wait_often())).await.unwrap();
    });
    let by_tokio = runtime.spawn(async {
        block_in_place(|| Handle::current().block_on(wait_often()));
    });
    let all = async { tokio::try_join!(without_budget, on_its_own_thread, by_tokio) };
    let all = runtime.block_on(async { tokio::time::timeout(PATIENCE, all).await });
    runtime.shutdown_background(); // it would wait for one that stands still
    all.expect("none of them stands still").unwrap();
}

#[test]
fn a_paused_clock_neither_hastens_nor_stops_it() {
    let _turn = turn();
    paused().block_on(async {
        let (begin, paused) = (Instant::now(), tickwheel::Instant::now());
        let sleep = armed_sleep(Waker::noop());
        let due = sleep.deadline().into_std();
        // The paused clock runs to this at once.
        tickwheel::sleep(HOUR).await;
        sleep.await;
        assert!(begin <= due && due <= Instant::now(), "early");
        Timer::global().sleep(5 * MS).await;
        assert_eq!(paused.elapsed(), HOUR);
    });
}

#[test]
fn an_interval_goes_by_its_own_clock_beside_a_paused_one() {
    let _turn = turn();
    paused().block_on(async {
        tokio::time::advance(HOUR).await;
        let mut interval = Timer::global().interval(2 * MS);
        interval.set_missed_tick_behavior(tickwheel::MissedTickBehavior::Delay);
        let first = interval.tick().await;
        // The second tick is late, and the third one counts from then.
        thread::sleep(20 * MS);
        interval.tick().await;
        let third = interval.tick().await;
        assert!(third - first < HOUR / 2, "{:?}", third - first);
    });
}

#[test]
fn an_earlier_timer_wakes_a_driver_that_sleeps_longer() {
    let _turn = turn();
    let mut later = Timer::global().sleep(HOUR);
    assert!(poll_once(&mut later).is_pending());
    // The thread sleeps for that by now.
    thread::sleep(20 * MS);
    assert_eq!(woken_on().name(), Some(THREAD));
}

#[test]
fn a_timer_armed_in_a_runtime_fires_after_its_end() {
    let _turn = turn();
    let ended = current_thread();
    let entered = ended.enter();
    let sleep = armed_sleep(Waker::noop());
    drop(entered);
    drop(ended);
    let idle = Timer::global().deadline(30 * MS);
    let runtime = current_thread();
    runtime.spawn(async {
        let mut lost = Timer::global().sleep(HOUR);
        assert!(poll_once(&mut lost).is_pending());
        lost.await;
    });
    runtime.block_on(tokio::task::yield_now());
    assert!(Timer::global().metrics().pending() >= 1, "it has not run");
    drop(runtime);
    block_on(async {
        sleep.await;
        assert_eq!(idle.await, Ok(()));
    });
    assert_eq!(Timer::global().metrics().pending(), 0);
}

/// The wheel was turned past that instant already.
#[test]
fn a_sleep_reset_to_the_past_is_ready_when_the_call_returns() {
    let _turn = turn();
    for _ in 0..20 {
        let passed = tickwheel::Instant::now();
        let mut nap = Timer::global().sleep(HOUR);
        assert!(poll_once(&mut nap).is_pending());
        block_on(Timer::global().sleep(5 * MS));
        nap.reset_at(passed);
        assert!(nap.is_elapsed());
    }
}

#[test]
fn a_waker_that_panics_stops_nothing() {
    let _turn = turn();
    let (sender, receiver) = mpsc::channel();
    let _sleep = armed_sleep(&waker_fn(move || {
        sender.send(()).unwrap();
        panic!("as this test wants it");
    }));
    receiver.recv_timeout(PATIENCE).expect("it was not woken");
    assert_eq!(woken_on().name(), Some(THREAD));
}
