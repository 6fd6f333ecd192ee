//! What a change of `use` gives: the loops of [`crate::idioms`], on a runtime of the current
//! thread, on one worker and on two, and the loops without a channel on eight. And what the only
//! timers of a runtime cost. The CPU is the process's.

use cpu_time::ProcessTime;

use crate::harness::{Record, Standing, in_turn, runtime, settle_the_allocator};
use crate::idioms::{ALONE, IDIOMS, Idiom};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "idioms",
    about: "loops with timers as users write them, on the kinds of runtime",
    state: "A sleep stands next to each loop. The rows in which nothing else is armed have none, which \
            is no state of a server. Unlike a server: all timers have the same timeout, nothing \
            fires, and a task does nothing with a message. On several workers there are eight tasks, or \
            pairs of them.",
    how: How::Together(run),
};

const CONTENDERS: [&str; 3] = [name::DROP_IN, name::TOKIO, name::NO_TIMER];

fn run(settings: &Settings) -> Vec<Record> {
    let mut records = rows(IDIOMS, true, settings);
    records.extend(rows(ALONE, false, settings));
    records
}

/// A row for each loop on each kind of its runtimes, next to a standing sleep or without one.
pub(super) fn rows(loops: &'static [Idiom], stands: bool, settings: &Settings) -> Vec<Record> {
    settle_the_allocator();
    let of_loop = |idiom: &'static Idiom| idiom.workers.iter().map(move |at| (idiom, *at));
    let rows = loops.iter().flat_map(of_loop);
    rows.flat_map(|(idiom, workers)| row(idiom, workers, stands, settings))
        .collect()
}

fn row(idiom: &Idiom, workers: usize, stands: bool, settings: &Settings) -> Vec<Record> {
    // On several workers one task competes with no other, and it is chance where it runs.
    let tasks = if workers > 1 { 8 } else { 1 };
    let times = settings.either(100_000, 5_000) / tasks;
    // Each has a runtime of its own.
    let programs = [idiom.tickwheel, idiom.tokio, idiom.no_timer];
    let contenders = programs.map(|program| (program, runtime(workers)));
    // Nanoseconds of CPU for each time.
    let turn = |index: usize| {
        let (program, runtime) = &contenders[index];
        let standing = stands.then(|| Standing::of(CONTENDERS[index], runtime));
        let cpu = ProcessTime::now();
        runtime.block_on(program(tasks, times));
        let cpu = cpu.elapsed();
        standing.into_iter().for_each(Standing::end);
        [cpu.as_nanos() as f64 / (tasks * times) as f64]
    };
    (0..CONTENDERS.len()).for_each(|index| _ = turn(index)); // warms up
    in_turn(&[idiom.row(workers)], &CONTENDERS, settings.rounds, turn)
}
