//! One timer's misbehaving user does not harm another: wakers that panic, that use the timer while
//! they are woken or dropped, and workers that are blocked.

mod common;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use tickwheel::{Deadline, Duration, Instant, ResetHandle, Sleep, Timer};
use tokio_test::{assert_pending, task};

use crate::common::{HOUR, MS, PATIENCE, arm, current_thread, multi_thread, settle};

struct Panicking(AtomicUsize);

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::panic::panic_any(PanickingPayload);
    }
}

/// Even the panic's payload panics.
struct PanickingPayload;

impl Drop for PanickingPayload {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a payload that panics when it is dropped");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_waker_stops_neither_the_driver_nor_another_timer() {
    let timer = Timer::new();
    let panicking = Arc::new(Panicking(AtomicUsize::new(0)));
    let waker = Waker::from(panicking.clone());
    for _ in 0..3 {
        let mut naps: Vec<_> = (0..9).map(|_| timer.sleep(5 * MS)).collect();
        let mut others: Vec<_> = (0..9).map(|_| task::spawn(timer.sleep(5 * MS))).collect();
        for (nap, other) in naps.iter_mut().zip(&mut others) {
            arm(nap, &waker);
            assert_pending!(other.poll());
        }
        timer.sleep(6 * MS).await;
        assert!(others.iter().all(|other| other.is_woken()));
    }
    assert_eq!(panicking.0.load(Ordering::Relaxed), 27);
    let mut deadline = timer.deadline(HOUR);
    arm(&mut deadline, &waker);
    assert!(
        deadline.handle().expire(),
        "whoever expires a deadline does not get its waiter's panic"
    );
}

/// Whatever a waker does with the timer while it is woken, cloned or dropped.
struct Meddling {
    timer: Timer,
    woken: AtomicUsize,
    sleeps: Mutex<Vec<Sleep>>,
    deadlines: Mutex<Vec<Deadline>>,
    handles: Vec<ResetHandle>,
}

impl Meddling {
    fn meddle(&self) {
        for handle in &self.handles {
            handle.reset();
            handle.reset_after(3 * MS);
            handle.set_timeout(4 * MS);
            let _ = (handle.remaining(), handle.deadline());
        }
        if let Some(handle) = self.handles.first() {
            handle.cancel();
        }
        let mut nap = self.timer.sleep(MS);
        arm(&mut nap, Waker::noop());
        nap.reset_after(Duration::ZERO);
        let mut kept = self.timer.sleep(2 * MS);
        arm(&mut kept, Waker::noop());
        let others = {
            let mut sleeps = self.sleeps.lock().unwrap();
            sleeps.push(kept);
            let half = sleeps.len() / 2;
            sleeps.split_off(half)
        };
        drop(others);
        drop(self.deadlines.lock().unwrap().pop());
        let _ = (self.timer.metrics(), self.timer.snapshot());
    }
}

impl Wake for Meddling {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        self.meddle();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_arm_reset_and_drop_timers_while_it_is_woken() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let pool: Vec<_> = (0..50).map(|n| timer.deadline(n % 10 * MS)).collect();
    let meddling = Arc::new(Meddling {
        handles: pool.iter().map(Deadline::handle).collect(),
        deadlines: Mutex::new(pool),
        sleeps: Mutex::new(Vec::new()),
        woken: AtomicUsize::new(0),
        timer: timer.clone(),
    });
    let waker = Waker::from(meddling.clone());
    let mut naps: Vec<_> = (0..500).map(|n| timer.sleep((1 + n % 7) * MS)).collect();
    for nap in &mut naps {
        arm(nap, &waker);
    }
    timer.sleep(20 * MS).await;
    assert_eq!(meddling.woken.load(Ordering::Relaxed), 500);
}

/// A waker whose last clone uses the timer when it is dropped. If the timer dropped it while it
/// holds a lock, the test would hang.
struct MeddlingDrop(Meddling);

impl Wake for MeddlingDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for MeddlingDrop {
    fn drop(&mut self) {
        self.0.meddle();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_is_dropped_under_no_lock() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let waker = || {
        Waker::from(Arc::new(MeddlingDrop(Meddling {
            timer: timer.clone(),
            woken: AtomicUsize::new(0),
            sleeps: Mutex::default(),
            deadlines: Mutex::default(),
            handles: Vec::new(),
        })))
    };
    // The sleep is fired, dropped, or polled by another task. The deadline is cancelled, expired or
    // dropped, or it passes.
    let mut fired = timer.sleep(MS);
    arm(&mut fired, &waker());
    settle().await;
    timer.sleep(2 * MS).await;
    let mut dropped = timer.sleep(HOUR);
    arm(&mut dropped, &waker());
    arm(&mut dropped, &waker());
    drop(dropped);
    let mut deadlines: Vec<_> = (0..4).map(|_| timer.deadline(HOUR)).collect();
    for deadline in &mut deadlines {
        arm(deadline, &waker());
        arm(deadline, &waker());
    }
    assert!(deadlines[0].handle().cancel() && deadlines[1].handle().expire());
    drop(deadlines.swap_remove(0));
    tokio::time::advance(HOUR).await;
    for deadline in &mut deadlines {
        let _ = Pin::new(deadline).poll(&mut Context::from_waker(&waker()));
    }
    let mut passed = timer.sleep(5 * MS);
    arm(&mut passed, &waker());
    tokio::time::advance(6 * MS).await;
    assert!(
        Pin::new(&mut passed)
            .poll(&mut Context::from_waker(&waker()))
            .is_ready()
    );
}

#[test]
fn a_meddling_waker_does_not_hang_a_shutdown() {
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let pool: Vec<_> = (0..10).map(|_| timer.deadline(HOUR)).collect();
    let meddling = Arc::new(MeddlingDrop(Meddling {
        handles: pool.iter().map(Deadline::handle).collect(),
        deadlines: Mutex::new(pool),
        sleeps: Mutex::default(),
        woken: AtomicUsize::new(0),
        timer: timer.clone(),
    }));
    let mut nap = timer.sleep(HOUR);
    arm(&mut nap, &Waker::from(meddling));
    drop(runtime);
    assert_eq!(timer.metrics().pending, 0);
}

/// Blocks the thread that wakes it, and counts how often that was.
struct Blocking(AtomicUsize);

impl Wake for Blocking {
    fn wake(self: Arc<Self>) {
        std::thread::sleep(5 * MS);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// It blocks tokio's time driver for that long. With tokio's own timers it would do the same.
#[test]
fn a_waker_that_blocks_for_a_while_loses_no_other_timer() {
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let blocking = Arc::new(Blocking(AtomicUsize::new(0)));
    let mut naps: Vec<_> = (0..4).map(|n| timer.sleep(20 * MS + n * 5 * MS)).collect();
    for nap in &mut naps {
        arm(nap, &Waker::from(blocking.clone()));
    }
    for _ in 0..8 {
        let nap = timer.sleep(5 * MS);
        runtime.block_on(runtime.spawn(nap)).unwrap();
    }
    let start = Instant::now();
    while blocking.0.load(Ordering::Relaxed) < naps.len() {
        assert!(start.elapsed() < PATIENCE, "a timer is lost");
        std::thread::sleep(MS);
    }
    assert!(naps.iter().all(Sleep::is_elapsed));
    assert_eq!(timer.metrics().pending, 0);
}

/// The task arms a timer, which wakes the driver, and blocks its worker at once. The driver must
/// not wait with it.
#[test]
fn a_task_that_arms_and_blocks_does_not_hold_up_the_driver() {
    let runtime = multi_thread(2);
    runtime.block_on(async {
        let timer = Timer::new();
        let fired_while_blocked = tokio::spawn({
            let timer = timer.clone();
            async move {
                let mut nap = task::spawn(timer.sleep(20 * MS));
                assert_pending!(nap.poll());
                // There is no await from here on. So this blocks the worker until the timer has
                // fired, or for ever.
                let start = Instant::now();
                while !nap.is_woken() && start.elapsed() < 10 * Duration::from_secs(1) {
                    std::thread::sleep(MS);
                }
                nap.is_woken()
            }
        });
        assert!(fired_while_blocked.await.unwrap());
    });
}

/// A pass fires all that is due, as tokio's does, whether one shard has it or many.
#[tokio::test(start_paused = true)]
async fn advance_returns_when_all_that_is_due_was_woken() {
    let one = Timer::new();
    let many = Timer::builder().shards(64).build().unwrap();
    for delay in [70 * MS, 60_000 * MS] {
        let naps = move |timer: &Timer, count| (0..count).map(|_| timer.sleep(delay)).collect();
        let threads: Vec<_> = (0..64)
            .map(|_| {
                let many = many.clone();
                std::thread::spawn(move || naps(&many, 100))
            })
            .collect();
        let spread: Vec<Vec<Sleep>> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        assert_all_are_woken_by_advance(spread.into_iter().flatten().collect(), delay).await;
        for count in [300, 1_000, 10_000] {
            assert_all_are_woken_by_advance(naps(&one, count), delay).await;
        }
    }
}

async fn assert_all_are_woken_by_advance(mut naps: Vec<Sleep>, delay: Duration) {
    struct Counting(AtomicUsize);
    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let counting = Arc::new(Counting(AtomicUsize::new(0)));
    let waker = Waker::from(counting.clone());
    for nap in &mut naps {
        arm(nap, &waker);
    }
    tokio::time::advance(delay).await;
    assert_eq!(counting.0.load(Ordering::Relaxed), naps.len());
}
