//! How many instructions each operation takes, as valgrind's callgrind counts them: the same number
//! in each run, so that a change of the hot path shows to a per cent.
//!
//! ```sh
//! cargo run --release -p tickwheel-bench --bin instructions
//! CARGO_PROFILE_RELEASE_LTO=thin cargo run --release -p tickwheel-bench --bin instructions
//! ```
//!
//! The first is how cargo builds a program unless it is told otherwise; the second lets the
//! compiler inline across crates. It runs either way, and the counts differ, so compare only tables
//! that were built alike.
//!
//! The program calls itself under callgrind, once for each row and contender, with two counts. The
//! difference is what one operation takes: start and end drop out. Of an operation the calling
//! thread alone is counted, and the driver is on another. An idiom has all on one thread. A reading
//! of the clock counts as little as a system call does, alike for all.

use std::future::{Future, pending};
use std::hint::black_box;
use std::pin::pin;
use std::process::Command;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use std::collections::HashMap;
use tickwheel::{DeadlineMap, DelayMap, Timer};
use tickwheel_bench::harness::runtime;
use tickwheel_bench::idioms::{IDIOMS, Idiom};
use tickwheel_bench::report::table;
use tokio::time::Instant;
use tokio_util::time::DelayQueue;

const MINUTE: Duration = Duration::from_secs(60);

const ROWS: &[&str] = &[
    "timeout, ready at once",
    "sleep, armed and dropped",
    "timeout, pending once, then dropped",
    "timeout, pending once, then ready",
    "sleep, boxed, armed and kept",
    "reset of a deadline; of a sleep",
    "deadline, made and dropped; boxed sleep",
    "DeadlineMap::reset; mutex, map and queue",
    "DeadlineMap: insert and drop",
    "DelayMap: insert and remove",
    "DelayQueue: insert and remove, 1,000 there",
    "DelayQueue: insert",
    "DelayQueue: receive",
];

/// What the queue of either crate does.
macro_rules! queue {
    ($queue:ty, $row:expr, $times:expr) => {{
        let mut queue = <$queue>::new();
        match $row {
            "DelayQueue: insert" => {
                let mut value = 0;
                repeat($times, || {
                    value += 7_919;
                    queue.insert(value, Duration::from_micros(1_000_000 + value % 2_000_000));
                });
            }
            // All are due, some in each millisecond.
            "DelayQueue: receive" => {
                for value in 0..$times as u64 {
                    queue.insert(value, Duration::from_micros(value * 7_919 % 2_000_000));
                }
                std::thread::sleep(Duration::from_millis(2_500));
                repeat($times, || {
                    let expired = std::future::poll_fn(|cx| queue.poll_expired(cx));
                    let mut expired = pin!(tokio::task::unconstrained(expired));
                    // Until the driver has seen that the time has come.
                    while poll(expired.as_mut()).is_pending() {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                });
            }
            _ => {
                (0..1_000).for_each(|value| _ = queue.insert(value, MINUTE));
                repeat($times, || {
                    let key = queue.insert(black_box(1_000), MINUTE);
                    queue.remove(&key);
                });
            }
        }
    }};
}

/// Does so many times what a row is about.
fn operate(row: &str, ours: bool, timer: &Timer, times: usize) {
    use tokio::time::{sleep, timeout};
    match (row, ours) {
        ("timeout, ready at once", true) => {
            repeat(times, || ready(timer.timeout(MINUTE, async {})));
        }
        ("timeout, ready at once", _) => repeat(times, || ready(timeout(MINUTE, async {}))),
        ("sleep, armed and dropped", true) => repeat(times, || armed(timer.sleep(MINUTE))),
        ("sleep, armed and dropped", _) => repeat(times, || armed(sleep(MINUTE))),
        ("timeout, pending once, then dropped", true) => {
            repeat(times, || armed(timer.timeout(MINUTE, pending::<()>())));
        }
        ("timeout, pending once, then dropped", _) => {
            repeat(times, || armed(timeout(MINUTE, pending::<()>())));
        }
        ("timeout, pending once, then ready", true) => {
            repeat(times, || then_ready(timer.timeout(MINUTE, second())));
        }
        ("timeout, pending once, then ready", _) => {
            repeat(times, || then_ready(timeout(MINUTE, second())));
        }
        ("sleep, boxed, armed and kept", true) => {
            let mut kept = Vec::with_capacity(times);
            repeat(times, || kept.push(boxed(timer.sleep(MINUTE))));
            std::mem::forget(kept);
        }
        ("sleep, boxed, armed and kept", _) => {
            let mut kept = Vec::with_capacity(times);
            repeat(times, || kept.push(boxed(sleep(MINUTE))));
            std::mem::forget(kept);
        }
        ("reset of a deadline; of a sleep", true) => {
            let deadline = timer.deadline(MINUTE);
            let handle = deadline.handle();
            repeat(times, || assert!(handle.reset()));
        }
        ("reset of a deadline; of a sleep", _) => {
            let mut sleep = boxed(sleep(MINUTE));
            repeat(times, || sleep.as_mut().reset(Instant::now() + MINUTE));
        }
        ("deadline, made and dropped; boxed sleep", true) => {
            repeat(times, || drop(timer.deadline(MINUTE)));
        }
        ("deadline, made and dropped; boxed sleep", _) => {
            repeat(times, || drop(boxed(sleep(MINUTE))));
        }
        ("DeadlineMap::reset; mutex, map and queue", true) => {
            let map = DeadlineMap::new(timer);
            let _kept: Vec<_> = (0..1_000).map(|key: u64| map.insert(key, MINUTE)).collect();
            repeat(times, || assert!(map.reset(&7)));
        }
        ("DeadlineMap::reset; mutex, map and queue", _) => {
            let map = by_hand(1_000);
            repeat(times, || {
                let mut map = map.lock().unwrap();
                let (keys, queue) = &mut *map;
                queue.reset(&keys[&7], MINUTE);
            });
        }
        ("DeadlineMap: insert and drop", true) => {
            let map = DeadlineMap::new(timer);
            let _kept: Vec<_> = (0..1_000).map(|key: u64| map.insert(key, MINUTE)).collect();
            repeat(times, || drop(map.insert(black_box(1_000), MINUTE)));
        }
        ("DelayMap: insert and remove", true) => {
            let (map, _expired) = DelayMap::new(timer);
            (0..1_000_u64).for_each(|key| assert!(map.insert(key, key, MINUTE).is_ok()));
            repeat(times, || {
                let _ = map.insert(black_box(1_000), 1, MINUTE);
                assert!(map.remove(&1_000).is_some());
            });
        }
        (row, true) => queue!(tickwheel::DelayQueue<u64>, row, times),
        (row, _) if row.starts_with("DelayQueue") => queue!(DelayQueue<u64>, row, times),
        _ => {
            let map = by_hand(1_000);
            repeat(times, || insert_and_remove_by_hand(&map));
        }
    }
}

type ByHand = Mutex<(
    HashMap<u64, tokio_util::time::delay_queue::Key>,
    DelayQueue<u64>,
)>;

fn by_hand(keys: u64) -> ByHand {
    let mut queue = DelayQueue::new();
    let keys = (0..keys).map(|key| (key, queue.insert(key, MINUTE)));
    Mutex::new((keys.collect(), queue))
}

fn insert_and_remove_by_hand(map: &ByHand) {
    let key = black_box(1_000);
    {
        let mut map = map.lock().unwrap();
        let (keys, queue) = &mut *map;
        keys.insert(key, queue.insert(key, MINUTE));
    }
    let mut map = map.lock().unwrap();
    let (keys, queue) = &mut *map;
    let removed = keys.remove(&key).expect("it is in the map");
    queue.remove(&removed);
}

fn timer() -> Timer {
    // Under valgrind a millisecond is short. A tick as long as this sees about as many operations
    // as one of a millisecond does without valgrind.
    let timer = Timer::builder().tick(Duration::from_millis(20)).build();
    let timer = timer.expect("that tick is allowed");
    // What is made once is not counted.
    armed(timer.sleep(MINUTE));
    std::thread::sleep(Duration::from_millis(50));
    timer
}

/// Only what runs within this function is counted.
#[inline(never)]
fn counted(mut operation: impl FnMut(), times: usize) {
    for _ in 0..times {
        operation();
    }
}

fn repeat(times: usize, operation: impl FnMut()) {
    counted(operation, times);
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[inline(always)]
fn ready(future: impl Future) {
    assert!(poll(pin!(future)).is_ready());
}

#[inline(always)]
fn armed(future: impl Future) {
    assert!(poll(pin!(future)).is_pending());
}

#[inline(always)]
fn then_ready(future: impl Future) {
    let mut future = pin!(future);
    assert!(poll(future.as_mut()).is_pending());
    assert!(poll(future).is_ready());
}

fn boxed<F: Future>(future: F) -> std::pin::Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(poll(future.as_mut()).is_pending());
    future
}

/// Ready at its second poll.
fn second() -> impl Future {
    let mut is_second = false;
    std::future::poll_fn(move |_| match std::mem::replace(&mut is_second, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Contender {
    Tickwheel,
    Tokio,
    NoTimer,
}

#[derive(Parser)]
struct Options {
    /// What the program calls itself with. The idioms follow on the rows.
    #[arg(long, hide = true, requires = "contender", requires = "times")]
    row: Option<usize>,
    #[arg(long, hide = true)]
    contender: Option<Contender>,
    #[arg(long, hide = true)]
    times: Option<usize>,
}

fn main() {
    let options = Options::parse();
    match (options.row, options.contender, options.times) {
        (Some(row), Some(contender), Some(times)) => run(row, contender, times),
        _ => {
            println!("{}", operations());
            println!("{}", idioms());
        }
    }
}

/// An operation runs on a thread that is none of the runtime's, beside a worker that drives. An
/// idiom runs on a runtime of the current thread.
fn run(row: usize, contender: Contender, times: usize) {
    match ROWS.get(row) {
        Some(row) => runtime(1).block_on(async {
            operate(row, contender == Contender::Tickwheel, &timer(), times);
        }),
        None => {
            let idiom = &IDIOMS[row - ROWS.len()];
            let program = match contender {
                Contender::Tickwheel => idiom.tickwheel,
                Contender::Tokio => idiom.tokio,
                Contender::NoTimer => idiom.no_timer,
            };
            runtime(0).block_on(program(1, times));
        }
    }
    // What was kept is not dropped, and nobody waits for the worker.
    std::process::exit(0);
}

fn operations() -> String {
    let line = |(index, row): (usize, &&str)| {
        let cell = |contender| count(index, contender).to_string();
        let cells = [Contender::Tickwheel, Contender::Tokio].map(cell);
        [&[row.to_string()][..], &cells].concat()
    };
    let head = ["instructions of an operation", "tickwheel", "tokio"];
    table(&head, ROWS.iter().enumerate().map(line).collect())
}

/// Without those that the same program takes without timers.
fn idioms() -> String {
    let line = |(index, idiom): (usize, &Idiom)| {
        let counted = |contender| count(ROWS.len() + index, contender) as f64;
        let base = counted(Contender::NoTimer);
        let [ours, theirs] = [Contender::Tickwheel, Contender::Tokio].map(|it| counted(it) - base);
        let goal = if idiom.resets { 0.6 } else { 0.85 };
        let share = ours / theirs;
        let mark = if share <= goal { "holds" } else { "missed" };
        vec![
            idiom.title.to_owned(),
            ours.to_string(),
            theirs.to_string(),
            format!("{share:.3}"),
            format!("≤ {goal}, {mark}"),
        ]
    };
    let head = [
        "instructions of an idiom",
        "tickwheel",
        "tokio",
        "share",
        "goal",
    ];
    table(&head, IDIOMS.iter().enumerate().map(line).collect())
}

/// The instructions of one operation.
fn count(row: usize, contender: Contender) -> u64 {
    const FEW: u64 = 2_000;
    const MANY: u64 = 12_000;
    let [few, many] = [FEW, MANY].map(|times| collected(row, contender, times));
    (many - few + (MANY - FEW) / 2) / (MANY - FEW)
}

fn collected(row: usize, contender: Contender, times: u64) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--fair-sched=yes",
    ]);
    if row < ROWS.len() {
        valgrind.arg("--toggle-collect=*instructions::counted*");
    }
    let output = valgrind
        .arg(std::env::current_exe().expect("the program has a path"))
        .args(["--row", &row.to_string(), "--times", &times.to_string()])
        .args([
            "--contender",
            contender
                .to_possible_value()
                .expect("none is skipped")
                .get_name(),
        ])
        .output()
        .expect("valgrind runs; Debian's package is called so");
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told
        .lines()
        .find_map(|line| line.split("Collected : ").nth(1));
    let Some(collected) = collected.filter(|_| output.status.success()) else {
        panic!("{told}");
    };
    collected.trim().parse().expect("it is a number")
}
