//! A row's contenders, and their rounds.

use std::rc::Rc;
use std::thread::available_parallelism;

use tokio::runtime::{self, Runtime};
use tokio::task::unconstrained;

use super::sample::{Pace, StartingLine, Took, sample};
use super::{Operation, Record};
use crate::settings::Settings;

/// A multi-threaded runtime of the kind that programs use, with this many workers.
pub fn runtime(workers: usize) -> Runtime {
    runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("the runtime starts")
}

/// A row's contenders, which run alternately. In each round each of them has one sample, in an
/// order that is shuffled anew.
pub struct Race {
    row: String,
    threads: usize,
    pace: Pace,
    runtime: Rc<Runtime>,
    contenders: Vec<Contender>,
}

struct Contender {
    name: &'static str,
    runtime: Rc<Runtime>,
    make: Box<dyn FnMut() -> Box<dyn Operation>>,
    /// Whether the operations are kept from sample to sample.
    keeps: bool,
    /// One operation for each thread, between the samples.
    hands: Vec<Box<dyn Operation>>,
    samples: Vec<f64>,
}

impl Race {
    /// A race in this many tasks at once, on a runtime with a worker for each, and two at least.
    pub fn new(row: impl Into<String>, threads: usize) -> Race {
        Race {
            row: row.into(),
            threads,
            pace: Pace::Continuous,
            runtime: Rc::new(runtime(threads.max(2))),
            contenders: Vec::new(),
        }
    }

    pub fn paced(self, pace: Pace) -> Race {
        Race { pace, ..self }
    }

    /// Adds a contender. `make` is called once for each thread, within the runtime.
    pub fn enter<O: Operation>(&mut self, name: &'static str, make: impl FnMut() -> O + 'static) {
        self.add(self.runtime.clone(), name, true, make);
    }

    /// Adds a contender that needs a runtime of its own kind.
    pub fn enter_on<O: Operation>(
        &mut self,
        runtime: Rc<Runtime>,
        name: &'static str,
        make: impl FnMut() -> O + 'static,
    ) {
        self.add(runtime, name, true, make);
    }

    /// Adds a contender that would disturb the others after its sample. It is made anew for each
    /// sample, and dropped after it.
    pub fn enter_afresh<O: Operation>(
        &mut self,
        name: &'static str,
        make: impl FnMut() -> O + 'static,
    ) {
        self.add(self.runtime.clone(), name, false, make);
    }

    fn add<O: Operation>(
        &mut self,
        runtime: Rc<Runtime>,
        name: &'static str,
        keeps: bool,
        mut make: impl FnMut() -> O + 'static,
    ) {
        self.contenders.push(Contender {
            name,
            runtime,
            make: Box::new(move || Box::new(make())),
            keeps,
            hands: Vec::new(),
            samples: Vec::new(),
        });
    }

    pub fn run(mut self, settings: &Settings) -> Vec<Record> {
        let mut order: Vec<usize> = (0..self.contenders.len()).collect();
        for _ in 0..settings.rounds {
            fastrand::shuffle(&mut order);
            for &index in &order {
                let (pace, threads) = (self.pace, self.threads);
                self.contenders[index].turn(pace, threads, settings);
            }
        }
        self.contenders
            .into_iter()
            .map(|contender| Record::new(&self.row, contender.name, contender.samples))
            .collect()
    }
}

impl Contender {
    fn turn(&mut self, pace: Pace, threads: usize, settings: &Settings) {
        let line = StartingLine::new(threads);
        let mut hands = std::mem::take(&mut self.hands);
        if hands.is_empty() {
            let _within = self.runtime.enter();
            hands.extend((0..threads).map(|_| (self.make)()));
        }
        // These are spawned from outside, so each goes to a worker that is free.
        let tasks: Vec<_> = hands
            .into_iter()
            .map(|mut hand| {
                let (line, settings) = (line.clone(), settings.clone());
                self.runtime.spawn(unconstrained(async move {
                    let took = sample(&mut *hand, pace, &settings, &line).await;
                    (hand, took)
                }))
            })
            .collect();
        let mut took = Vec::new();
        for task in tasks {
            let (hand, one) = self
                .runtime
                .block_on(task)
                .expect("the operation does not panic");
            if self.keeps {
                self.hands.push(hand);
            }
            took.push(one);
        }
        self.samples.push(core_time(&took));
    }
}

/// Nanoseconds of a core for each operation. With at most as many threads as cores, this is what an
/// operation takes on its thread.
fn core_time(took: &[Took]) -> f64 {
    let cores = available_parallelism().map_or(1, usize::from);
    let time: f64 = took.iter().map(|took| took.time.as_secs_f64()).sum();
    let operations: usize = took.iter().map(|took| took.operations).sum();
    let busy = cores.min(took.len()) as f64 / took.len() as f64;
    time * busy * 1e9 / operations as f64
}
