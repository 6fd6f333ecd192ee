//! A row's contenders, and their rounds.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::runtime::Runtime;
use tokio::task::unconstrained;

use super::{Hand, Pace, Record, Standing, StartingLine, Took, runtime, sample};
use crate::settings::Settings;

/// A row's contenders, which run alternately: in each round each of them has one sample, next to a
/// [`Standing`] sleep.
pub struct Race {
    pub row: String,
    threads: usize,
    pace: Pace,
    runtime: Runtime,
    pub names: Vec<&'static str>,
    contenders: Vec<Contender>,
}

struct Contender {
    make: Box<dyn FnMut() -> Hand>,
    /// One operation for each thread, between the samples.
    hands: Vec<Hand>,
}

impl Race {
    /// A race in this many tasks at once, on a runtime with a worker for each, and two at least.
    /// With 0 it is one task on a runtime of the current thread.
    pub fn new(row: impl Into<String>, threads: usize) -> Race {
        let workers = if threads == 0 { 0 } else { threads.max(2) };
        Race {
            row: row.into(),
            threads: threads.max(1),
            pace: Pace::Continuous,
            runtime: runtime(workers),
            names: Vec::new(),
            contenders: Vec::new(),
        }
    }

    pub fn paced(self, pace: Pace) -> Race {
        Race { pace, ..self }
    }

    /// Adds a contender. `make` is called once for each thread, within the runtime.
    pub fn enter(&mut self, name: &'static str, make: impl FnMut() -> Hand + 'static) {
        self.names.push(name);
        self.contenders.push(Contender {
            make: Box::new(make),
            hands: Vec::new(),
        });
    }

    /// An operation of one contender, and its runtime.
    pub fn alone(mut self, contender: &str) -> (Runtime, Hand) {
        let index = self.names.iter().position(|name| *name == contender);
        let contender = &mut self.contenders[index.expect("it was entered")];
        let within = self.runtime.enter();
        let hand = (contender.make)();
        drop(within);
        (self.runtime, hand)
    }

    pub fn run(mut self, settings: &Settings) -> Vec<Record> {
        in_turn(&[&self.row], &self.names, settings.rounds, |index| {
            let contender = &mut self.contenders[index];
            if contender.hands.is_empty() {
                let _within = self.runtime.enter();
                let hands = (0..self.threads).map(|_| (contender.make)());
                contender.hands.extend(hands);
            }
            let standing = Standing::of(self.names[index], &self.runtime);
            let time = at_once(&self.runtime, &mut contender.hands, self.pace, settings);
            standing.end();
            [time]
        })
    }
}

/// Lets contenders take turns, in an order that is shuffled again in each round. `turn` runs the
/// contender of that index, and returns its figure in each of the rows.
pub fn in_turn<const ROWS: usize>(
    rows: &[impl AsRef<str>; ROWS],
    contenders: &[&str],
    rounds: usize,
    mut turn: impl FnMut(usize) -> [f64; ROWS],
) -> Vec<Record> {
    let of_each = |who: &&str| {
        let rows = rows.each_ref();
        rows.map(|row| Record::new(row.as_ref(), who, Vec::new()))
    };
    let mut records: Vec<_> = contenders.iter().map(of_each).collect();
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for _ in 0..rounds {
        fastrand::shuffle(&mut order);
        for &index in &order {
            for (record, figure) in records[index].iter_mut().zip(turn(index)) {
                record.samples.push(figure);
            }
        }
    }
    records.into_iter().flatten().collect()
}

/// A sample of each of these in a task of its own, all at once: nanoseconds for each operation.
pub fn at_once(runtime: &Runtime, hands: &mut Vec<Hand>, pace: Pace, settings: &Settings) -> f64 {
    let line = Arc::new(StartingLine::new(hands.len()));
    let run = |mut hand: Hand| {
        let (line, settings) = (line.clone(), settings.clone());
        // It is spawned from outside, so it goes to a worker that is free.
        runtime.spawn(unconstrained(async move {
            let took = sample(&mut *hand, pace, &settings, &line).await;
            (hand, took)
        }))
    };
    let tasks: Vec<_> = hands.drain(..).map(run).collect();
    let mut took = Vec::new();
    for task in tasks {
        let (hand, one) = runtime.block_on(task).expect("no operation panics");
        hands.push(hand);
        took.push(one);
    }
    core_time(&took)
}

/// Nanoseconds of a core for each operation. With at most as many threads as cores, this is what an
/// operation takes on its thread.
pub fn core_time(took: &[Took]) -> f64 {
    let cores = available_parallelism().map_or(1, usize::from);
    let time: f64 = took.iter().map(|(time, _)| time.as_secs_f64()).sum();
    let operations: usize = took.iter().map(|(_, operations)| operations).sum();
    let busy = cores.min(took.len()) as f64 / took.len() as f64;
    time * busy * 1e9 / operations as f64
}
