//! A timeout whose inner future is pending at the first poll, and which is then dropped: arm and
//! disarm.
//!
//! A `DelayQueue` of either crate has no timeout. In its place the owner inserts and removes, and
//! each thread has its own queue.

use tickwheel::Timer;
use tokio_util::time::DelayQueue;

use super::{How, Part, name};
use crate::harness::{Durations, Never, Race, Record, operation, polled_once};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "pending",
    about: "timeout whose inner future is pending once, then dropped, on 1, 2 and 4 threads",
    how: How::Together(run),
};

fn run(settings: &Settings) -> Vec<Record> {
    let races = [0, 1, 2, 4].into_iter().map(race);
    races.flat_map(|race| race.run(settings)).collect()
}

/// tokio's timer per worker, which only a build with `--cfg tokio_unstable` has.
#[cfg(tokio_unstable)]
fn enter_alternative(race: &mut Race, threads: usize) {
    // A current-thread runtime has none.
    if threads == 0 {
        return;
    }
    let runtime = std::rc::Rc::new(
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(2))
            .enable_all()
            .enable_alt_timer()
            .build()
            .expect("the runtime starts"),
    );
    race.enter_on(runtime.clone(), name::TOKIO_ALTERNATIVE, || {
        polled_once(false, |after| tokio::time::timeout(after, Never))
    });
    race.enter_on(runtime, name::ON_ALTERNATIVE, || {
        let timer = Timer::current();
        polled_once(false, move |after| timer.timeout(after, Never))
    });
}

fn race(threads: usize) -> Race {
    let mut race = Race::new(format!("pending-{threads}"), threads);
    race.enter(name::TICKWHEEL, || {
        let timer = Timer::current();
        polled_once(false, move |after| timer.timeout(after, Never))
    });
    race.enter(name::DROP_IN, || {
        polled_once(false, |after| tickwheel::timeout(after, Never))
    });
    race.enter(name::GLOBAL, || {
        let timer = Timer::global();
        polled_once(false, move |after| timer.timeout(after, Never))
    });
    race.enter(name::TOKIO, || {
        polled_once(false, |after| tokio::time::timeout(after, Never))
    });
    #[cfg(tokio_unstable)]
    enter_alternative(&mut race, threads);
    race.enter(name::PINGORA, || {
        polled_once(false, |after| pingora_timeout::timeout(after, Never))
    });
    /// Of either crate.
    macro_rules! enter_queue {
        ($name:expr, $queue:ty) => {
            race.enter($name, || {
                let durations = Durations::of_timeouts();
                let mut queue = <$queue>::new();
                operation(move |_, times| {
                    for index in 0..times {
                        let key = queue.insert(index, durations.get(index));
                        queue.remove(&key);
                    }
                })
            })
        };
    }
    enter_queue!(name::QUEUE, tickwheel::DelayQueue<usize>);
    enter_queue!(name::DELAY_QUEUE, DelayQueue<usize>);
    race
}
