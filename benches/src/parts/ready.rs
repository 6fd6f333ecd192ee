//! A timeout whose inner future is ready at the first poll: most timeouts of a busy server.

use std::hint::black_box;
use std::time::Instant;

use tickwheel::Timer;

use super::timeouts::polled_once;
use super::{How, Part, name};
use crate::harness::{Once, Race, Record};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "ready",
    about: "timeout whose inner future is ready at once, on 1, 2 and 4 threads",
    how: How::Together(run),
};

fn run(settings: &Settings) -> Vec<Record> {
    [1, 2, 4]
        .into_iter()
        .flat_map(|threads| race(threads).run(settings))
        .collect()
}

fn race(threads: usize) -> Race {
    let mut race = Race::new(format!("ready-{threads}"), threads);
    race.enter(name::TICKWHEEL, || {
        let timer = Timer::current();
        polled_once(true, move |after| timer.timeout(after, Once))
    });
    race.enter(name::DROP_IN, || {
        polled_once(true, |after| tickwheel::timeout(after, Once))
    });
    race.enter(name::GLOBAL, || {
        polled_once(true, |after| tickwheel::global::timeout(after, Once))
    });
    race.enter(name::TOKIO, || {
        polled_once(true, |after| tokio::time::timeout(after, Once))
    });
    race.enter(name::PINGORA, || {
        polled_once(true, |after| pingora_timeout::timeout(after, Once))
    });
    race.enter(name::CLOCK, || {
        polled_once(true, |_| {
            black_box(Instant::now());
            Once
        })
    });
    race.enter(name::NO_TIMER, || polled_once(true, |_| Once));
    race
}
