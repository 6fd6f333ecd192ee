//! One timer's misbehaving user does not harm another. The oracle has wakers that panic and that
//! use the timer while they are woken. Here they use it while they are dropped, workers are
//! blocked, and what is no task of tokio's is woken as early as with tokio's timers.

use std::pin::Pin;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;

use tickwheel::{Deadline, Duration, Instant, ResetHandle, Sleep, Timer};
use tokio::runtime::{Handle, Runtime};

use crate::common::{HOUR, MS, PATIENCE, arm, current_thread, in_time, multi_thread, poll_with};

/// A waker whose last clone uses the timer when it is dropped. If the timer dropped it while it
/// holds a lock, the test would hang.
struct Meddling {
    timer: Timer,
    deadlines: Mutex<Vec<Deadline>>,
    handles: Vec<ResetHandle>,
}

impl Wake for Meddling {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Meddling {
    fn drop(&mut self) {
        for handle in &self.handles {
            handle.reset();
            handle.reset_after(3 * MS);
            handle.set_timeout(4 * MS);
            let _ = (handle.remaining(), handle.deadline(), handle.cancel());
        }
        let mut nap = self.timer.sleep(MS);
        arm(&mut nap, Waker::noop());
        nap.reset_after(Duration::ZERO);
        drop(self.deadlines.lock().unwrap().pop());
        let _ = (self.timer.metrics(), self.timer.snapshot());
    }
}

fn meddling(timer: &Timer, deadlines: Vec<Deadline>) -> Waker {
    Waker::from(Arc::new(Meddling {
        timer: timer.clone(),
        handles: deadlines.iter().map(Deadline::handle).collect(),
        deadlines: Mutex::new(deadlines),
    }))
}

#[test]
fn a_waker_is_dropped_under_no_lock() {
    in_time(|| {
        let runtime = current_thread();
        let builder = Timer::builder().shards(1);
        let timer = builder.build_on(runtime.handle()).unwrap();
        let waker = || meddling(&timer, Vec::new());
        // The sleep is fired, dropped, or polled by another task. The deadline is cancelled,
        // expired or dropped, or it passes.
        let mut fired = timer.sleep(20 * MS);
        let _ = poll_with(&mut fired, &waker());
        let mut dropped = timer.sleep(HOUR);
        let mut deadlines = [HOUR, HOUR, HOUR, 20 * MS].map(|length| timer.deadline(length));
        for _ in 0..2 {
            arm(&mut dropped, &waker());
            for deadline in &mut deadlines {
                let _ = poll_with(deadline, &waker());
            }
        }
        drop(dropped);
        assert!(deadlines[0].handle().cancel() && deadlines[1].handle().expire());
        runtime.block_on(timer.sleep(50 * MS));
        drop(deadlines);
        // The runtime ends.
        let pool = (0..10).map(|_| timer.deadline(HOUR)).collect();
        let mut nap = timer.sleep(HOUR);
        arm(&mut nap, &meddling(&timer, pool));
        drop(runtime);
        assert_eq!(timer.metrics().pending(), 0);
    });
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes a sleep until a moment. Call it in the context of the runtime that drives the sleep.
type SleepUntil = fn(Instant) -> Waiting;

fn on_tokio(deadline: Instant) -> Waiting {
    Box::pin(tokio::time::sleep_until(deadline))
}

fn on_tickwheel(deadline: Instant) -> Waiting {
    Box::pin(tickwheel::sleep_until(deadline))
}

/// Waits for a moment on a thread that is none of the runtime's.
type Wait = fn(&Handle, Instant, SleepUntil);

const WAITS: [(&str, Wait); 2] = [
    ("block_on", |handle, due, sleep_until| {
        handle.block_on(async { sleep_until(due).await });
    }),
    ("another executor", |handle, due, sleep_until| {
        let _context = handle.enter();
        futures::executor::block_on(sleep_until(due));
    }),
];

/// How late the waits are among forty tasks that are due at the same moment. Each of these tasks
/// then blocks its worker for 10 ms.
fn lateness_beside_forty_tasks(workers: usize, sleep_until: SleepUntil) -> [Duration; 2] {
    let runtime = multi_thread(workers);
    // The same moment for all, and a whole tick for any timer.
    let due = Instant::now() + 200 * MS;
    let waits = WAITS.map(|(_, wait)| {
        let handle = runtime.handle().clone();
        thread::spawn(move || {
            wait(&handle, due, sleep_until);
            Instant::now() - due
        })
    });
    // They have begun by then, or nearly.
    thread::sleep(50 * MS);
    for _ in 0..40 {
        runtime.spawn(async move {
            sleep_until(due).await;
            thread::sleep(10 * MS);
        });
    }
    let lateness = waits.map(|wait| wait.join().unwrap());
    runtime.shutdown_background();
    lateness
}

/// Runs both until ours was as early as tokio's once, for each kind of wait. So noise of the
/// machine fails nothing.
#[test]
fn plain_threads_wake_as_early_as_on_tokio_beside_busy_workers() {
    for workers in [1, 2] {
        let tokios = lateness_beside_forty_tasks(workers, on_tokio);
        let mut best = [Duration::MAX; 2];
        let is_early = (0..4).any(|_| {
            let again = lateness_beside_forty_tasks(workers, on_tickwheel);
            best = std::array::from_fn(|wait| best[wait].min(again[wait]));
            best.iter()
                .zip(&tokios)
                .all(|(ours, tokios)| *ours <= *tokios + 60 * MS)
        });
        let names = WAITS.map(|(name, _)| name);
        assert!(is_early, "{names:?}: ours {best:?}, tokio's {tokios:?}");
    }
}

/// How long a worker is blocked, how long another task sleeps meanwhile, and how late is too late.
const BLOCKED: Duration = Duration::from_millis(500);
const SLEPT: Duration = Duration::from_millis(60);
const TOO_LATE: Duration = Duration::from_millis(350);

/// Another task sleeps in time while a worker is blocked, in one of four rounds. A round in which a
/// plain thread was late too shows nothing, and comes again.
fn sleeps_beside_a_blocked_worker(what: &str, round: impl Fn(&Runtime) -> Duration) {
    let mut late = Vec::new();
    for _ in 0..20 {
        let runtime = multi_thread(2);
        let nap = || {
            let begin = Instant::now();
            thread::sleep(10 * MS);
            begin.elapsed()
        };
        let naps = thread::spawn(move || (0..30).map(|_| nap()).max());
        let slept = round(&runtime);
        runtime.shutdown_background();
        assert!(slept >= SLEPT, "{what}: {slept:?}");
        if slept < TOO_LATE {
            return;
        }
        if naps.join().unwrap() < Some(60 * MS) {
            late.push(slept);
        }
        assert!(late.len() < 4, "{what}: {late:?}");
    }
    panic!("inconclusive: the machine is too slow");
}

/// Sleeps in a task that is spawned from outside, and gives the time that it took.
fn sleep_in_a_task(
    runtime: &Runtime,
    sleep: impl Future<Output = ()> + Send + 'static,
) -> Duration {
    let (sender, slept) = mpsc::channel();
    let begin = Instant::now();
    runtime.spawn(async move {
        sleep.await;
        sender.send(begin.elapsed()).unwrap();
    });
    slept.recv_timeout(PATIENCE).unwrap()
}

/// A task of the runtime makes a timer, arms a first sleep if there is to be one, and then blocks
/// its worker. It does so in the context of another runtime if there is one.
fn block_a_worker(
    runtime: &Runtime,
    other: Option<&Runtime>,
    make: fn() -> Timer,
    first: Option<Duration>,
) -> Timer {
    let (sender, made) = mpsc::channel();
    let other = other.map(|other| other.handle().clone());
    runtime.spawn(async move {
        let timer = make();
        let _context = other.as_ref().map(Handle::enter);
        let mut first: Option<Sleep> = first.map(|first| timer.sleep(first));
        if let Some(first) = &mut first {
            arm(first, Waker::noop());
        }
        sender.send(timer).unwrap();
        thread::sleep(BLOCKED);
    });
    made.recv().unwrap()
}

/// Whether it is the first user of the timer or not, and also in the context of another runtime.
#[test]
fn a_task_that_arms_and_blocks_stalls_no_timer() {
    let other = multi_thread(1);
    for other in [None, Some(&other)] {
        for first in [None, Some(20 * MS)] {
            for make in [|| Timer::builder().build().unwrap(), Timer::current] {
                sleeps_beside_a_blocked_worker(&format!("armed after {first:?}"), |runtime| {
                    let timer = block_a_worker(runtime, other, make, first);
                    sleep_in_a_task(runtime, timer.sleep(SLEPT))
                });
            }
        }
        sleeps_beside_a_blocked_worker("armed before", |runtime| {
            thread::scope(|scope| {
                let sleep = async { tickwheel::sleep(SLEPT).await };
                let slept = scope.spawn(|| sleep_in_a_task(runtime, sleep));
                thread::sleep(20 * MS);
                block_a_worker(runtime, other, Timer::current, Some(5 * MS));
                slept.join().unwrap()
            })
        });
    }
}
