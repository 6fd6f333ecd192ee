//! A timeout whose inner future is pending at the first poll, and which is then dropped: arm and
//! disarm.
//!
//! A `DelayQueue` of either crate has no timeout. In its place the owner inserts and removes, and each thread has
//! its own queue.

use tickwheel::Timer;
use tokio_util::time::DelayQueue;

use super::timeouts::polled_once;
use super::{How, Part, name};
use crate::harness::{Durations, Never, Operation, Race, Record, operation};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "pending",
    about: "timeout whose inner future is pending once, then dropped, on 1, 2 and 4 threads",
    how: How::Together(run),
};

fn run(settings: &Settings) -> Vec<Record> {
    [1, 2, 4]
        .into_iter()
        .flat_map(|threads| race(threads).run(settings))
        .collect()
}

fn race(threads: usize) -> Race {
    let mut race = Race::new(format!("pending-{threads}"), threads);
    enter_tickwheel(&mut race);
    race.enter(name::DROP_IN, || {
        polled_once(false, |after| tickwheel::timeout(after, Never))
    });
    race.enter(name::GLOBAL, || {
        polled_once(false, |after| tickwheel::global::timeout(after, Never))
    });
    enter_tokio(&mut race);
    race.enter(name::PINGORA, || {
        polled_once(false, |after| pingora_timeout::timeout(after, Never))
    });
    race.enter(name::QUEUE, insert_and_remove_ours);
    race.enter(name::DELAY_QUEUE, insert_and_remove);
    race
}

/// Enters tickwheel by its explicit timer.
pub fn enter_tickwheel(race: &mut Race) {
    race.enter(name::TICKWHEEL, || {
        let timer = Timer::current();
        polled_once(false, move |after| timer.timeout(after, Never))
    });
}

/// Enters tokio.
pub fn enter_tokio(race: &mut Race) {
    race.enter(name::TOKIO, || {
        polled_once(false, |after| tokio::time::timeout(after, Never))
    });
}

fn insert_and_remove() -> impl Operation {
    let durations = Durations::of_timeouts();
    let mut queue = DelayQueue::new();
    operation(move |_, times| {
        for index in 0..times {
            let key = queue.insert(index, durations.get(index));
            queue.remove(&key);
        }
    })
}

fn insert_and_remove_ours() -> impl Operation {
    let durations = Durations::of_timeouts();
    let mut queue = tickwheel::DelayQueue::new();
    operation(move |_, times| {
        for index in 0..times {
            let key = queue.insert(index, durations.get(index));
            queue.remove(&key);
        }
    })
}
