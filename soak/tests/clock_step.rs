//! A monotonic clock that steps back a little, that differs between threads, or that jumps ahead by
//! hours. Processors whose clocks differ have one, and machines that are restored from a snapshot.
//! The program's own `clock_gettime` stands in for it.
//!
//! Nothing ends, nothing is lost, and nothing is early by more than the clock has stepped.

// On 32 bits the standard library asks glibc for another function, which has 64 bits for the time.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(unsafe_code, reason = "it is the clock of its process")]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::block_on;
use tickwheel::Timer;
use tickwheel_soak::finding::quiet_panics;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// How far all readings are behind the system's, in nanoseconds. Negative if they are ahead.
static BEHIND: AtomicI64 = AtomicI64::new(0);
/// How much further behind those of every other thread are.
static APART: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// Whether this thread is such a one, once it is known.
    static IS_APART: Cell<Option<bool>> = const { Cell::new(None) };
}

fn is_apart() -> bool {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let is_apart = IS_APART.try_with(|is_apart| {
        is_apart.get().unwrap_or_else(|| {
            let is_apart_now = THREADS.fetch_add(1, Ordering::Relaxed) % 2 == 1;
            is_apart.set(Some(is_apart_now));
            is_apart_now
        })
    });
    is_apart.unwrap_or(false)
}

/// # Safety
///
/// `to` is valid, as for that of libc.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, to: *mut libc::timespec) -> libc::c_int {
    let call = libc::SYS_clock_gettime;
    // SAFETY: these are the arguments of that call, and the caller vouches for `to`.
    let result = unsafe { libc::syscall(call, libc::c_long::from(clock), to) };
    if clock == libc::CLOCK_MONOTONIC && result == 0 {
        // SAFETY: the call has written it.
        let at = unsafe { &mut *to };
        let apart = APART.load(Ordering::SeqCst);
        let behind = BEHIND.load(Ordering::SeqCst) + if is_apart() { apart } else { 0 };
        let nanos = at.tv_sec * 1_000_000_000 + at.tv_nsec - behind;
        (at.tv_sec, at.tv_nsec) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    }
    result as libc::c_int
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It steps back, and ahead again.
    Steps,
    DiffersBetweenThreads,
}

const MS: Duration = Duration::from_millis(1);
const LENGTH: Duration = Duration::from_millis(400);
/// Who waits for longer than this is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// A current-thread runtime, or one of so many workers.
fn runtime(workers: usize) -> Runtime {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder
        .worker_threads(workers.max(1))
        .enable_all()
        .build()
        .unwrap()
}

/// What several tasks and a thread do again and again, until they are stopped.
#[derive(Clone)]
struct Loops {
    timer: Timer,
    /// So much may a sleep be early.
    early: Duration,
    stops: Arc<AtomicBool>,
    slept: Arc<[AtomicUsize]>,
}

impl Loops {
    async fn run(self, number: usize) {
        let nap = MS + MS * (number % 3) as u32;
        while !self.stops.load(Ordering::SeqCst) {
            let before = Instant::now();
            self.timer.sleep(nap).await;
            // The thread may have gone to another processor.
            let waited = before.elapsed() + self.early;
            assert!(
                waited >= nap,
                "{nap:?} were over in {waited:?}, with {:?}",
                self.early
            );
            self.slept[number].fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Waits until each has slept so often. `false` if some do not.
    fn have_slept(&self, times: usize) -> bool {
        let has_slept = |slept: &AtomicUsize| slept.load(Ordering::SeqCst) >= times;
        waits_for(|| self.slept.iter().all(has_slept))
    }
}

/// Whether it is so within a while.
fn waits_for(is_so: impl Fn() -> bool) -> bool {
    (0..PATIENCE.as_millis() / 5).any(|_| {
        let is_so = is_so();
        if !is_so {
            thread::sleep(5 * MS);
        }
        is_so
    })
}

const TASKS: usize = 8;

/// With `workers` of 0, on a current-thread runtime.
fn sleep_while_it_steps(workers: usize, fault: Fault, step: Duration) -> Result<(), String> {
    BEHIND.store(0, Ordering::SeqCst);
    APART.store(0, Ordering::SeqCst);
    let runtime = runtime(workers);
    let nanos = step.as_nanos() as i64;
    if matches!(fault, Fault::DiffersBetweenThreads) {
        APART.store(nanos, Ordering::SeqCst);
    }
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let minute = timer.deadline(Duration::from_secs(60));
    let handle = minute.handle();
    let loops = Loops {
        timer: timer.clone(),
        // One step between the calls that arm and fire it, and another one between the readings.
        early: 2 * step,
        stops: Arc::default(),
        slept: (0..=TASKS).map(|_| AtomicUsize::new(0)).collect(),
    };
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| runtime.spawn(loops.clone().run(number)))
        .collect();
    let minute = runtime.spawn(minute);
    let of_thread = loops.clone();
    let outside = thread::spawn(move || block_on(of_thread.run(TASKS)));
    let stepped = loops.clone();
    let step_it = move || {
        for number in 0..LENGTH.as_micros() / 1_000 {
            if matches!(fault, Fault::Steps) {
                let behind = if number % 2 == 0 { nanos } else { 0 };
                BEHIND.store(behind, Ordering::SeqCst);
            }
            thread::sleep(MS);
        }
        let have_slept = stepped.have_slept(20);
        stepped.stops.store(true, Ordering::SeqCst);
        // The runtime is driven meanwhile.
        if waits_for(|| outside.is_finished()) {
            (have_slept, outside.join().is_ok())
        } else {
            (false, true)
        }
    };
    let (have_slept, is_outside_right) = runtime.block_on(async {
        let result = tokio::task::spawn_blocking(step_it).await.unwrap();
        for task in tasks {
            // One that is lost never ends.
            if task.is_finished() {
                task.await.map_err(|error| format!("a task: {error}"))?;
            }
        }
        Ok::<_, String>(result)
    })?;
    if !have_slept {
        return Err(format!("a sleep is lost: {:?}", loops.slept));
    }
    if !is_outside_right {
        return Err("a sleep outside of the runtime is early, or reports an end".to_owned());
    }
    if handle.is_pending() {
        Ok(())
    } else {
        Err(format!(
            "a minute has ended: {:?}",
            end_of(&runtime, minute)
        ))
    }
}

fn end_of<T>(runtime: &Runtime, task: JoinHandle<T>) -> Option<T> {
    task.is_finished().then(|| runtime.block_on(task).unwrap())
}

/// What is due an hour ahead is due then, and the timer goes on.
fn jump_ahead(workers: usize) {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let runtime = runtime(workers);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let minute = timer.deadline(Duration::from_secs(60));
    let hour = runtime.spawn(timer.sleep(HOUR));
    let goes_on = runtime.block_on(async {
        timer.sleep(2 * MS).await;
        BEHIND.fetch_sub(2 * HOUR.as_nanos() as i64, Ordering::SeqCst);
        let mut sleep = Some(runtime.spawn(timer.sleep(2 * MS)));
        for _ in 0..PATIENCE.as_millis() {
            // The time driver waits for the time that it knew of, and so does tokio's own timer
            // until something else wakes it.
            runtime.spawn(async {}).await.unwrap();
            tokio::task::yield_now().await;
            if sleep.as_ref().is_some_and(JoinHandle::is_finished) {
                sleep.take().unwrap().await.unwrap();
            }
            if sleep.is_none() && hour.is_finished() {
                return true;
            }
            thread::sleep(MS);
        }
        false
    });
    assert!(goes_on, "{workers} workers: something sleeps on");
    // It has the grace of a stall, or that is over by now.
    let result = end_of(&runtime, runtime.spawn(minute));
    assert!(
        !matches!(result, Some(Err(_))),
        "{workers} workers: {result:?}"
    );
}

/// One test, because there is one clock.
#[test]
fn a_clock_that_steps_ends_nothing_and_loses_nothing() {
    quiet_panics();
    let mut failed = Vec::new();
    for workers in [0, 1, 2] {
        for micros in [50, 1_000, 5_000] {
            for fault in [Fault::Steps, Fault::DiffersBetweenThreads] {
                let result = sleep_while_it_steps(workers, fault, Duration::from_micros(micros));
                let case = format!("{workers} workers, {fault:?} by {micros} us");
                failed.extend(result.err().map(|result| format!("{case}: {result}")));
            }
        }
    }
    // The hook prints no panic that names a shutdown.
    failed.iter().for_each(|result| println!("{result}"));
    assert!(failed.is_empty(), "of the cases above");
    // Last, because the clock stays ahead.
    for workers in [0, 1, 2] {
        jump_ahead(workers);
    }
}
