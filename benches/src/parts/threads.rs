//! An armed and dropped timeout where threads are no plain workers of one runtime.
//!
//! - **Thread per core**: each thread has a current-thread runtime of its own, as servers without
//!   work stealing have. All of them use one timer: the process's, or one that they hold.
//! - **`block_in_place` now and then**: it hands a worker over to another thread. So after some of
//!   it each worker is on a thread that was another worker before. The row is the worst of some
//!   rounds.

use std::thread;
use std::time::Duration;

use tickwheel::Timer;
use tokio::runtime::Runtime;
use tokio::task::{block_in_place, unconstrained, yield_now};

use super::pending::hand;
use crate::harness::{
    Pace, Record, Standing, StartingLine, at_once, core_time, in_turn, runtime, sample,
};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "threads",
    about: "an armed timeout, thread per core, and after block_in_place",
    state: "A sleep stands on each timer, of a thread or shared. Unlike a server: each thread \
            arms and disarms one timer in a loop and has no socket, so caches hold all of it, \
            and nothing fires.",
    how: How::Together(run),
};

const CONTENDERS: [&str; 4] = [name::TICKWHEEL, name::DROP_IN, name::GLOBAL, name::TOKIO];

fn run(settings: &Settings) -> Vec<Record> {
    let mut records = per_core(2, settings);
    records.extend(per_core(4, settings));
    records.extend(handed_over(settings));
    records
}

fn per_core(threads: usize, settings: &Settings) -> Vec<Record> {
    let of_timer = runtime(1);
    let timer = Timer::builder().shards(threads).build_on(of_timer.handle());
    let timer = timer.expect("the settings are valid");
    let row = format!("per-core-{threads}");
    in_turn(&[row], &CONTENDERS, settings.rounds, |index| {
        let line = StartingLine::new(threads);
        // The timer that is held is that of no thread's runtime.
        let standing = Standing::on(&timer);
        let run = || {
            let runtime = runtime(0);
            let standing = Standing::of(CONTENDERS[index], &runtime);
            let mut hand = hand::<false>(CONTENDERS[index], timer.clone());
            let task = sample(&mut *hand, Pace::Continuous, settings, &line);
            let took = runtime.block_on(unconstrained(task));
            standing.end();
            took
        };
        let took = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
            let took = threads
                .into_iter()
                .map(|it| it.join().expect("no thread panics"));
            took.collect::<Vec<_>>()
        });
        standing.end();
        [core_time(&took)]
    })
}

/// So many rounds has the worst.
const ROUNDS: usize = 8;

const WORKERS: usize = 2;

fn handed_over(settings: &Settings) -> Vec<Record> {
    let runtime = runtime(WORKERS);
    let held = runtime.block_on(async { Timer::current() });
    // As long together as one of another row.
    let settings = Settings {
        rounds: settings.rounds.div_ceil(4),
        warm_up: settings.warm_up / 4,
        sample: settings.sample / 4,
        ..settings.clone()
    };
    in_turn(&["in-place-2"], &CONTENDERS, settings.rounds, |index| {
        let standing = Standing::of(CONTENDERS[index], &runtime);
        let worst = (0..ROUNDS).map(|_| {
            block_now_and_then(&runtime);
            let hand = |_| hand::<false>(CONTENDERS[index], held.clone());
            let mut hands = (0..WORKERS).map(hand).collect();
            at_once(&runtime, &mut hands, Pace::Continuous, &settings)
        });
        let worst = worst.fold(0.0, f64::max);
        standing.end();
        [worst]
    })
}

/// Tasks use a timer, block, and use it again.
fn block_now_and_then(runtime: &Runtime) {
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            runtime.spawn(async {
                let a_while = Duration::from_micros(fastrand::u64(..1_000));
                let _ = tickwheel::timeout(Duration::from_secs(1), yield_now()).await;
                block_in_place(|| thread::sleep(a_while));
                let _ = tickwheel::timeout(Duration::from_secs(1), yield_now()).await;
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).expect("no task panics");
    }
}
