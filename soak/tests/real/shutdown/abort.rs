//! Programs in which each panic ends the process, as with `panic = "abort"`, and which make and
//! drop very many runtimes. Each has a process of its own.

use std::backtrace::Backtrace;
use std::fs;
use std::future::{pending, poll_fn};
use std::sync::Barrier;
use std::thread;

use futures::FutureExt;
use futures::executor::block_on;
use futures::future::BoxFuture;
use tickwheel::{DelayMap, Timer};
use tokio::runtime::{Builder, Runtime};

use super::OnDrop;
use crate::common::{
    HOUR, MS, PATIENCE, current_thread, is_alone_in_a_process, multi_thread, poll_once,
};

const RUNTIMES: [fn() -> Runtime; 4] = [
    current_thread,
    || multi_thread(1),
    || multi_thread(2),
    || multi_thread(4),
];

/// How a runtime ends.
const ENDS: [fn(Runtime); 4] = [
    drop,
    Runtime::shutdown_background,
    |runtime| runtime.shutdown_timeout(PATIENCE),
    |runtime| {
        let other = multi_thread(1);
        other.block_on(async { runtime.shutdown_background() });
    },
];

/// Uses the runtime in some way. Returns what waits for it elsewhere, if anything does. That was
/// polled, because a thread that arms something in the very moment of the end may panic.
type Use = fn(&Runtime) -> Option<BoxFuture<'static, bool>>;

const USES: [Use; 7] = [
    |_| None,
    |runtime| {
        let task = runtime.spawn(async { tickwheel::sleep(MS).await });
        runtime.block_on(task).unwrap();
        None
    },
    |runtime| {
        runtime.spawn(async { tickwheel::sleep(HOUR).await });
        None
    },
    |runtime| {
        let deadline = timer_of(runtime).deadline(HOUR);
        Some(deadline.map(|end| end.unwrap_err().is_shutdown()).boxed())
    },
    |runtime| {
        let mut sleep = timer_of(runtime).sleep(HOUR);
        let end = poll_fn(move |cx| sleep.try_poll(cx));
        Some(end.map(|end| end.is_err()).boxed())
    },
    // Each task arms something earlier as it is dropped.
    |runtime| {
        let timer = timer_of(runtime);
        for number in 1..10 {
            let timer = timer.clone();
            let arms = OnDrop(Some(move || {
                drop([&timer, &Timer::current()].map(|on| on.deadline(HOUR / number)));
            }));
            runtime.spawn(async move {
                let _arms = arms;
                pending::<()>().await;
            });
        }
        None
    },
    // Nothing is armed.
    |runtime| {
        let (map, mut due) = DelayMap::<u8, ()>::new(&timer_of(runtime));
        let end = async move {
            let end = due.recv().await.is_none();
            drop(map);
            end
        };
        Some(end.boxed())
    },
];

fn timer_of(runtime: &Runtime) -> Timer {
    Timer::builder().build_on(runtime.handle()).unwrap()
}

fn use_and_end(rounds: usize) {
    for round in 0..rounds {
        for build in RUNTIMES {
            for used in USES {
                let runtime = build();
                let wait = used(&runtime).map(|mut wait| {
                    assert!(poll_once(&mut wait).is_pending());
                    thread::spawn(|| block_on(wait))
                });
                ENDS[round % ENDS.len()](runtime);
                if let Some(wait) = wait {
                    assert!(wait.join().unwrap(), "it learns of the end");
                }
            }
        }
    }
}

#[test]
fn a_program_that_aborts_on_a_panic_outlives_its_runtimes() {
    let test = "shutdown::abort::a_program_that_aborts_on_a_panic_outlives_its_runtimes";
    if is_alone_in_a_process(test) {
        std::panic::set_hook(Box::new(|info| {
            eprintln!("{info}\n{}", Backtrace::force_capture());
            std::process::abort();
        }));
        use_and_end(8);
    }
}

/// Threads that have driven them keep their timers meanwhile, which may hold a handle of a runtime
/// for its clock.
#[cfg(target_os = "linux")]
#[test]
fn very_many_runtimes_leave_no_file_thread_or_memory() {
    let test = "shutdown::abort::very_many_runtimes_leave_no_file_thread_or_memory";
    if !is_alone_in_a_process(test) {
        return;
    }
    const THREADS: usize = 50;
    const RUNTIMES: usize = 20;
    let in_dir = |dir: &str| fs::read_dir(dir).unwrap().count();
    let resident = || {
        let status = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4_096
    };
    let use_one = |number: usize| {
        let mut builder = match number % 2 {
            0 => Builder::new_current_thread(),
            _ => Builder::new_multi_thread(),
        };
        let builder = builder.worker_threads(1 + number % 3).enable_all();
        #[cfg(tokio_unstable)]
        if number % 2 == 1 {
            builder.enable_alt_timer();
        }
        let runtime = builder.build().unwrap();
        let timer = runtime.block_on(async {
            tickwheel::sleep(HOUR).now_or_never();
            Timer::current()
        });
        runtime.spawn(async { tickwheel::sleep(HOUR).await });
        drop(runtime);
        // A clock that can be paused learns of the end by the next use.
        drop(timer.deadline(HOUR));
        timer
    };
    let use_all = || {
        let are_done = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let timers: Vec<_> = (0..RUNTIMES).map(use_one).collect();
                    are_done.wait();
                    are_done.wait();
                    drop(timers);
                });
            }
            are_done.wait();
            // What outlives its runtime by a while has gone then.
            thread::sleep(1_000 * MS);
            let files = in_dir("/proc/self/fd");
            let left = (files, in_dir("/proc/self/task"), resident());
            are_done.wait();
            left
        })
    };
    let before = in_dir("/proc/self/fd");
    // The first makes what stays.
    let ((_, threads, memory), now) = (use_all(), use_all());
    assert!(now.0 <= before + 20, "{before} files, then {}", now.0);
    assert!(now.1 <= threads + 5, "{threads} threads, then {}", now.1);
    let more = now.2.saturating_sub(memory);
    assert!(more < 8 << 20, "{more} bytes more");
}
