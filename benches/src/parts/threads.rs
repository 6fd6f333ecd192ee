//! An armed and dropped timeout where threads are no plain workers of one runtime.
//!
//! - **Thread per core**: each thread has a current-thread runtime of its own, as servers without
//!   work stealing have. All of them use one timer: the process's, or one that they hold.
//! - **The thread of `block_on`** works beside the one worker.
//! - **`block_in_place` now and then**: it hands a worker over to another thread. So after some of
//!   it each worker is on a thread that was another worker before. The row is the worst of some
//!   rounds.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tickwheel::Timer;
use tokio::runtime::Runtime;
use tokio::task::{block_in_place, unconstrained, yield_now};

use super::{How, Part, name};
use crate::harness::{
    Never, Operation, Pace, Record, StartingLine, Took, core_time, polled_once, runtime, sample,
};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "threads",
    about: "an armed timeout, thread per core, in block_on beside a worker, after block_in_place",
    how: How::Together(run),
};

fn run(settings: &Settings) -> Vec<Record> {
    let per_core = [2, 4].map(|threads| per_core(threads, settings));
    let others = [beside_a_worker(settings), handed_over(settings)];
    per_core.into_iter().chain(others).flatten().collect()
}

type Make = Arc<dyn Fn() -> Box<dyn Operation> + Send + Sync>;

fn make<O: Operation>(make: impl Fn() -> O + Send + Sync + 'static) -> Make {
    Arc::new(move || Box::new(make()))
}

/// What each thread does. The first uses this timer.
fn contenders(held: Timer) -> Vec<(&'static str, Make)> {
    vec![
        (
            name::TICKWHEEL,
            make(move || {
                let timer = held.clone();
                polled_once(false, move |after| timer.timeout(after, Never))
            }),
        ),
        (
            name::DROP_IN,
            make(|| polled_once(false, |after| tickwheel::timeout(after, Never))),
        ),
        (
            name::GLOBAL,
            make(|| {
                let timer = Timer::global();
                polled_once(false, move |after| timer.timeout(after, Never))
            }),
        ),
        (
            name::TOKIO,
            make(|| polled_once(false, |after| tokio::time::timeout(after, Never))),
        ),
    ]
}

/// Lets the contenders take turns, in an order that is shuffled anew in each round.
fn race(
    row: &str,
    contenders: &[(&'static str, Make)],
    settings: &Settings,
    mut turn: impl FnMut(&Make) -> f64,
) -> Vec<Record> {
    let mut samples = vec![Vec::new(); contenders.len()];
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for _ in 0..settings.rounds {
        fastrand::shuffle(&mut order);
        for &index in &order {
            samples[index].push(turn(&contenders[index].1));
        }
    }
    let each = contenders.iter().zip(samples);
    each.map(|((name, _), samples)| Record::new(row, name, samples))
        .collect()
}

fn per_core(threads: usize, settings: &Settings) -> Vec<Record> {
    let of_timer = runtime(1);
    let timer = Timer::builder().shards(threads).build_on(of_timer.handle());
    let contenders = contenders(timer.expect("the settings are valid"));
    race(
        &format!("per-core-{threads}"),
        &contenders,
        settings,
        |make| {
            let line = StartingLine::new(threads);
            let threads: Vec<_> = (0..threads)
                .map(|_| {
                    let (make, line, settings) = (make.clone(), line.clone(), settings.clone());
                    thread::spawn(move || {
                        let mut hand = make();
                        let task = async move {
                            sample(&mut *hand, Pace::Continuous, &settings, &line).await
                        };
                        runtime(0).block_on(unconstrained(task))
                    })
                })
                .collect();
            let took = threads.into_iter().map(|it| it.join());
            core_time(
                &took
                    .map(|it| it.expect("no thread panics"))
                    .collect::<Vec<_>>(),
            )
        },
    )
}

fn beside_a_worker(settings: &Settings) -> Vec<Record> {
    let runtime = runtime(1);
    let held = runtime.block_on(async { Timer::current() });
    race("block-on-1", &contenders(held), settings, |make| {
        let line = StartingLine::new(2);
        let task = || {
            let (make, line, settings) = (make.clone(), line.clone(), settings.clone());
            unconstrained(
                async move { sample(&mut *make(), Pace::Continuous, &settings, &line).await },
            )
        };
        let worker = runtime.spawn(task());
        let took = runtime.block_on(async { (task().await, worker.await) });
        core_time(&[took.0, took.1.expect("the operation does not panic")])
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
    race("in-place-2", &contenders(held), &settings, |make| {
        let worst = (0..ROUNDS).map(|_| {
            block_now_and_then(&runtime);
            core_time(&on_workers(&runtime, make, &settings))
        });
        worst.fold(0.0, f64::max)
    })
}

fn on_workers(runtime: &Runtime, make: &Make, settings: &Settings) -> Vec<Took> {
    let line = StartingLine::new(WORKERS);
    let tasks: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (make, line, settings) = (make.clone(), line.clone(), settings.clone());
            runtime.spawn(unconstrained(async move {
                sample(&mut *make(), Pace::Continuous, &settings, &line).await
            }))
        })
        .collect();
    let took = tasks.into_iter().map(|task| runtime.block_on(task));
    took.map(|took| took.expect("the operation does not panic"))
        .collect()
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
