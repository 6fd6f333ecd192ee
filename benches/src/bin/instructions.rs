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
//! difference is what one operation takes: start and end drop out. Counted is the calling thread
//! alone, and the driver is on another. A reading of the clock counts as little as a system call
//! does, alike for all.

#![forbid(unsafe_code)]

use std::future::{Future, pending};
use std::hint::black_box;
use std::pin::pin;
use std::process::Command;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table};
use std::collections::HashMap;
use tickwheel::{DeadlineMap, DelayMap, Timer};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;

const MINUTE: Duration = Duration::from_secs(60);

/// An operation, done that many times.
type Operation = fn(usize);

struct Row {
    name: &'static str,
    ours: Operation,
    theirs: Option<Operation>,
}

const ROWS: &[Row] = &[
    Row {
        name: "timeout, ready at once",
        ours: |times| timer(|timer| repeat(times, || ready(timer.timeout(MINUTE, async {})))),
        theirs: Some(|times| repeat(times, || ready(tokio::time::timeout(MINUTE, async {})))),
    },
    Row {
        name: "sleep, armed and dropped",
        ours: |times| timer(|timer| repeat(times, || armed(timer.sleep(MINUTE)))),
        theirs: Some(|times| repeat(times, || armed(tokio::time::sleep(MINUTE)))),
    },
    Row {
        name: "timeout, pending once, then dropped",
        ours: |times| {
            timer(|timer| repeat(times, || armed(timer.timeout(MINUTE, pending::<()>()))));
        },
        theirs: Some(|times| {
            repeat(times, || {
                armed(tokio::time::timeout(MINUTE, pending::<()>()));
            });
        }),
    },
    Row {
        name: "timeout, pending once, then ready",
        ours: |times| timer(|timer| repeat(times, || then_ready(timer.timeout(MINUTE, second())))),
        theirs: Some(|times| {
            repeat(times, || then_ready(tokio::time::timeout(MINUTE, second())));
        }),
    },
    Row {
        name: "sleep, boxed, armed and kept",
        ours: |times| {
            timer(|timer| {
                let mut kept = Vec::with_capacity(times);
                repeat(times, || kept.push(boxed(timer.sleep(MINUTE))));
                std::mem::forget(kept);
            });
        },
        theirs: Some(|times| {
            let mut kept = Vec::with_capacity(times);
            repeat(times, || kept.push(boxed(tokio::time::sleep(MINUTE))));
            std::mem::forget(kept);
        }),
    },
    Row {
        name: "reset of a deadline; of a sleep",
        ours: |times| {
            timer(|timer| {
                let deadline = timer.deadline(MINUTE);
                let handle = deadline.handle();
                repeat(times, || assert!(handle.reset()));
            });
        },
        theirs: Some(|times| {
            let mut sleep = boxed(tokio::time::sleep(MINUTE));
            repeat(times, || sleep.as_mut().reset(Instant::now() + MINUTE));
        }),
    },
    Row {
        name: "deadline, made and dropped; boxed sleep",
        ours: |times| timer(|timer| repeat(times, || drop(timer.deadline(MINUTE)))),
        theirs: Some(|times| repeat(times, || drop(boxed(tokio::time::sleep(MINUTE))))),
    },
    Row {
        name: "DeadlineMap::reset; mutex, map and queue",
        ours: |times| {
            timer(|timer| {
                let map = DeadlineMap::new(timer);
                let _kept: Vec<_> = (0..1_000).map(|key: u64| map.insert(key, MINUTE)).collect();
                repeat(times, || assert!(map.reset(&7)));
            });
        },
        theirs: Some(|times| {
            let map = by_hand(1_000);
            repeat(times, || {
                let mut map = map.lock().unwrap();
                let (keys, queue) = &mut *map;
                queue.reset(&keys[&7], MINUTE);
            });
        }),
    },
    Row {
        name: "DeadlineMap: insert and drop",
        ours: |times| {
            timer(|timer| {
                let map = DeadlineMap::new(timer);
                let _kept: Vec<_> = (0..1_000).map(|key: u64| map.insert(key, MINUTE)).collect();
                repeat(times, || drop(map.insert(black_box(1_000), MINUTE)));
            });
        },
        theirs: Some(|times| {
            let map = by_hand(1_000);
            repeat(times, || insert_and_remove_by_hand(&map));
        }),
    },
    Row {
        name: "DelayMap: insert and remove",
        ours: |times| {
            timer(|timer| {
                let (map, _expired) = DelayMap::new(timer);
                (0..1_000_u64).for_each(|key| assert!(map.insert(key, key, MINUTE).is_ok()));
                repeat(times, || {
                    let _ = map.insert(black_box(1_000), 1, MINUTE);
                    assert!(map.remove(&1_000).is_some());
                });
            });
        },
        theirs: Some(|times| {
            let map = by_hand(1_000);
            repeat(times, || insert_and_remove_by_hand(&map));
        }),
    },
    Row {
        name: "DelayQueue: insert and remove, 1,000 there",
        ours: |times| queue!(tickwheel::DelayQueue<u64>, insert_and_remove, times),
        theirs: Some(|times| queue!(DelayQueue<u64>, insert_and_remove, times)),
    },
    Row {
        name: "DelayQueue: insert",
        ours: |times| queue!(tickwheel::DelayQueue<u64>, insert, times),
        theirs: Some(|times| queue!(DelayQueue<u64>, insert, times)),
    },
    Row {
        name: "DelayQueue: receive",
        ours: |times| queue!(tickwheel::DelayQueue<u64>, receive, times),
        theirs: Some(|times| queue!(DelayQueue<u64>, receive, times)),
    },
];

/// What the queue of either crate does.
macro_rules! queue {
    ($queue:ty, insert_and_remove, $times:ident) => {{
        let mut queue = <$queue>::new();
        (0..1_000).for_each(|value| _ = queue.insert(value, MINUTE));
        repeat($times, || {
            let key = queue.insert(black_box(1_000), MINUTE);
            queue.remove(&key);
        });
    }};
    ($queue:ty, insert, $times:ident) => {{
        let mut queue = <$queue>::new();
        let mut value = 0;
        repeat($times, || {
            value += 7_919;
            queue.insert(value, Duration::from_micros(1_000_000 + value % 2_000_000));
        });
    }};
    // All are due, some in each millisecond.
    ($queue:ty, receive, $times:ident) => {{
        let mut queue = <$queue>::new();
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
    }};
}
use queue;

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

fn timer(run: impl FnOnce(&Timer)) {
    // Under valgrind a millisecond is short. A tick as long as this sees about as many operations
    // as one of a millisecond does without valgrind.
    let timer = Timer::builder().tick(Duration::from_millis(20)).build();
    let timer = timer.expect("that tick is allowed");
    // What is made once is not counted.
    armed(timer.sleep(MINUTE));
    std::thread::sleep(Duration::from_millis(50));
    run(&timer);
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Contender {
    Tickwheel,
    Tokio,
}

#[derive(Parser)]
struct Options {
    /// What the program calls itself with.
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
        (Some(row), Some(contender), Some(times)) => run(&ROWS[row], contender, times),
        _ => table(),
    }
}

/// The operations run on a thread that is none of the runtime's, beside a worker that drives.
fn run(row: &Row, contender: Contender, times: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("the runtime starts");
    let operation = match contender {
        Contender::Tokio => row.theirs.expect("only what there is is asked for"),
        Contender::Tickwheel => row.ours,
    };
    runtime.block_on(async { operation(times) });
    // What was kept is not dropped, and nobody waits for the worker.
    std::process::exit(0);
}

fn table() {
    let mut table = Table::new();
    table.set_header(["instructions", "tickwheel", "tokio"]);
    for column in 1..3 {
        let column = table.column_mut(column).expect("it is in the header");
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (index, row) in ROWS.iter().enumerate() {
        let cell = |contender| count(index, contender).to_string();
        let theirs = row.theirs.map(|_| cell(Contender::Tokio));
        table.add_row([
            row.name.to_owned(),
            cell(Contender::Tickwheel),
            theirs.unwrap_or_default(),
        ]);
    }
    println!("{table}");
}

/// The instructions of one operation.
fn count(row: usize, contender: Contender) -> u64 {
    const FEW: u64 = 2_000;
    const MANY: u64 = 12_000;
    let [few, many] = [FEW, MANY].map(|times| collected(row, contender, times));
    (many - few + (MANY - FEW) / 2) / (MANY - FEW)
}

fn collected(row: usize, contender: Contender, times: u64) -> u64 {
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--fair-sched=yes",
        ])
        .arg("--toggle-collect=*instructions::counted*")
        .arg(std::env::current_exe().expect("the program has a path"))
        .args(["--row", &row.to_string(), "--times", &times.to_string()])
        .args(["--contender", &format!("{contender:?}").to_lowercase()])
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
