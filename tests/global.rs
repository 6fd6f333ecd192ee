//! The process's timer: under any executor, and whatever becomes of a runtime.

mod common;

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Instant;

use futures::executor::block_on;
use tickwheel::{DeadlineMap, DelayMap, Duration, Timer, global};

use crate::common::{HOUR, MS, current_thread, multi_thread, paused};

#[test]
fn everything_works_under_an_executor_that_is_not_tokios() {
    block_on(async {
        let begin = Instant::now();
        global::sleep(20 * MS).await;
        assert!(begin.elapsed() >= 20 * MS, "early");
        global::sleep_until((Instant::now() + 5 * MS).into()).await;
        assert!(global::timeout(5 * MS, pending::<()>()).await.is_err());
        assert_eq!(global::timeout(HOUR, async { 7 }).await, Ok(7));
        let at = Instant::now() + 5 * MS;
        assert!(
            global::timeout_at(at.into(), pending::<()>())
                .await
                .is_err()
        );
        assert!(Instant::now() >= at, "early");

        let mut beat = global::interval(3 * MS);
        let first = beat.tick().await;
        assert_eq!(beat.tick().await, first + 3 * MS);
        let start = tickwheel::Instant::now() + 5 * MS;
        assert_eq!(global::interval_at(start, MS).tick().await, start);

        let idle = global::timer().deadline(20 * MS);
        let handle = idle.handle();
        let keeper = thread::spawn(move || {
            for _ in 0..5 {
                thread::sleep(2 * MS);
                handle.reset();
            }
        });
        assert_eq!(idle.await, Ok(()));
        keeper.join().unwrap();
        let deadlines = DeadlineMap::new(&Timer::global());
        assert_eq!(deadlines.insert(1, 5 * MS).unwrap().await, Ok(()));
        let (values, mut expired) = DelayMap::new(&Timer::global());
        values.insert("key", "value", 5 * MS).unwrap();
        assert_eq!(expired.recv().await.unwrap().value, "value");
    });
}

#[test]
fn nothing_fires_early_whoever_waits_and_however_many() {
    let executors = [block_on_futures, block_on_tokio, block_on_paused];
    thread::scope(|scope| {
        for (number, execute) in executors.into_iter().cycle().take(6).enumerate() {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number as u64);
                let sleeps: Vec<_> = (0..300)
                    .map(|_| {
                        let delay = Duration::from_micros(random.u64(..60_000));
                        (Instant::now() + delay, Box::pin(global::sleep(delay)))
                    })
                    .collect();
                execute(Box::pin(async move {
                    for (due, sleep) in sleeps {
                        sleep.await;
                        assert!(Instant::now() >= due, "early");
                    }
                }));
            });
        }
    });
}

fn block_on_futures(future: Pin<Box<dyn Future<Output = ()>>>) {
    block_on(future);
}

fn block_on_tokio(future: Pin<Box<dyn Future<Output = ()>>>) {
    current_thread().block_on(future);
}

fn block_on_paused(future: Pin<Box<dyn Future<Output = ()>>>) {
    paused().block_on(future);
}

#[test]
fn a_paused_clock_neither_hastens_nor_stops_it() {
    paused().block_on(async {
        let (begin, paused) = (Instant::now(), tickwheel::Instant::now());
        // The paused clock runs to this at once.
        let hour = tokio::spawn(tickwheel::sleep(HOUR));
        global::sleep(30 * MS).await;
        assert!(begin.elapsed() >= 30 * MS, "early");
        assert_eq!(paused.elapsed(), HOUR);
        assert!(hour.is_finished());
    });
}

#[test]
fn what_is_armed_for_earlier_wakes_a_timer_that_sleeps_longer() {
    let mut later = global::sleep(HOUR);
    assert!(poll_once(&mut later).is_pending());
    // The thread sleeps for that by now.
    thread::sleep(20 * MS);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        block_on(global::sleep(10 * MS));
        sender.send(()).unwrap();
    });
    let woken = receiver.recv_timeout(Duration::from_secs(20));
    woken.expect("the thread of the timer sleeps on");
}

#[test]
fn a_runtime_whose_only_worker_is_blocked_does_not_stall_it() {
    let runtime = multi_thread(1);
    let (blocked, go_on) = (Arc::new(Barrier::new(2)), mpsc::channel::<()>());
    let (sender, receiver) = go_on;
    let at = blocked.clone();
    let task = runtime.spawn(async move {
        let sleep = global::sleep(10 * MS);
        at.wait();
        receiver.recv().unwrap();
        sleep.await;
    });
    blocked.wait();
    block_on(global::sleep(20 * MS));
    assert!(!task.is_finished());
    sender.send(()).unwrap();
    runtime.block_on(task).unwrap();
}

#[test]
fn what_was_armed_in_a_runtime_fires_after_its_end() {
    let mut sleep = global::sleep(30 * MS);
    let idle = global::timer().deadline(30 * MS);
    current_thread().block_on(async {
        assert!(poll_once(&mut sleep).is_pending());
    });
    let runtime = current_thread();
    let (armed, is_armed) = mpsc::channel();
    runtime.spawn(async move {
        let mut lost = global::sleep(HOUR);
        assert!(poll_once(&mut lost).is_pending());
        armed.send(()).unwrap();
        lost.await;
    });
    runtime.block_on(tokio::task::yield_now());
    is_armed.recv().unwrap();
    drop(runtime);
    block_on(async {
        sleep.await;
        assert_eq!(idle.await, Ok(()));
    });
}

fn poll_once(future: impl Future) -> Poll<()> {
    pin!(future)
        .poll(&mut Context::from_waker(Waker::noop()))
        .map(drop)
}

struct Panics(AtomicBool);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        panic!("as this test wants it");
    }
}

#[test]
fn a_waker_that_panics_stops_nothing() {
    let panics = Arc::new(Panics(AtomicBool::new(false)));
    let waker = Waker::from(panics.clone());
    let mut first = global::sleep(5 * MS);
    assert!(
        Pin::new(&mut first)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    block_on(global::sleep(15 * MS));
    assert!(panics.0.load(Ordering::SeqCst), "it was not woken");
    block_on(global::sleep(5 * MS));
}

#[test]
fn a_wakers_thread_is_the_timers_own_and_named() {
    struct Tells(mpsc::Sender<Option<String>>);
    impl Wake for Tells {
        fn wake(self: Arc<Self>) {
            let name = thread::current().name().map(str::to_owned);
            self.0.send(name).unwrap();
        }
    }
    let (sender, receiver) = mpsc::channel();
    let waker = Waker::from(Arc::new(Tells(sender)));
    let mut sleep = global::sleep(5 * MS);
    assert!(
        Pin::new(&mut sleep)
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert_eq!(receiver.recv().unwrap().as_deref(), Some("tickwheel-timer"));
}

#[test]
#[should_panic(expected = "zero")]
fn a_period_of_zero_panics() {
    let _ = global::interval(Duration::ZERO);
}
