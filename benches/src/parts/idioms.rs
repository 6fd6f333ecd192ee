//! What a change of `use` gives: the loops of [`crate::idioms`], on a runtime of the current
//! thread, on one worker and on two, and tokio's own workloads on eight.

use std::time::Instant;

use tokio::runtime::Runtime;

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::idioms::{IDIOMS, Idiom, Program};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "idioms",
    about: "loops with timers as users write them, on three kinds of runtime",
    how: How::Together(run),
};

fn run(settings: &Settings) -> Vec<Record> {
    let mut records = Vec::new();
    for idiom in IDIOMS {
        for &workers in idiom.workers {
            records.extend(row(idiom, workers, settings));
        }
    }
    records
}

fn row(idiom: &Idiom, workers: usize, settings: &Settings) -> Vec<Record> {
    let tasks = if workers == 8 { 8 } else { 1 };
    // On two workers it is chance where the two tasks run, so a turn tries that anew.
    let tries = if workers == 2 { 10 } else { 1 };
    // Each has a runtime of its own.
    let mut contenders = [
        (name::DROP_IN, idiom.tickwheel),
        (name::TOKIO, idiom.tokio),
        (name::NO_TIMER, idiom.no_timer),
    ]
    .map(|(name, program)| Contender {
        name,
        program,
        runtime: runtime(workers),
        samples: Vec::new(),
    });
    let mut order = [0, 1, 2];
    for round in 0..=settings.rounds {
        fastrand::shuffle(&mut order);
        for index in order {
            let contender = &mut contenders[index];
            let times = settings.either(100_000, 5_000) / tasks / tries;
            let took = contender.turn(tries, tasks, times);
            // The first one warms up.
            if round > 0 {
                contender.samples.push(took);
            }
        }
    }
    let row = idiom.row(workers);
    let record = |contender: Contender| Record::new(&row, contender.name, contender.samples);
    contenders.into_iter().map(record).collect()
}

struct Contender {
    name: &'static str,
    program: Program,
    runtime: Runtime,
    samples: Vec<f64>,
}

impl Contender {
    /// Nanoseconds for each time, by the clock on the wall.
    fn turn(&self, tries: usize, tasks: usize, times: usize) -> f64 {
        let begin = Instant::now();
        for _ in 0..tries {
            self.runtime.block_on((self.program)(tasks, times));
        }
        begin.elapsed().as_nanos() as f64 / (tries * tasks * times) as f64
    }
}
