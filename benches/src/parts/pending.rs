//! A timeout whose inner future is pending at the first poll, and which is then dropped: arm and
//! disarm.
//!
//! A `DelayQueue` of either crate has no timeout. In its place the owner inserts and removes, and
//! each thread has its own queue.

use tickwheel::Timer;
use tokio_util::time::DelayQueue;

use crate::harness::{Durations, Hand, Inner, Race, Record, STANDING, operation, polled_once};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "pending",
    about: "timeout whose inner future is pending once, then dropped, on 1, 2 and 4 threads",
    state: "A standing sleep is due before all others, and a queue also holds such an item. \
            Unlike a server: a loop arms and disarms one timer, so caches hold all of it. \
            Several threads do so without a pause, and nothing fires. All timeouts are of random \
            length, so pingora, which shares a timer among those due in the same 10 ms, shares \
            fewer.",
    how: How::Together(run),
};

fn run(settings: &Settings) -> Vec<Record> {
    let races = [0, 1, 2, 4].into_iter().map(race);
    races.flat_map(|race| race.run(settings)).collect()
}

/// Makes a timeout of that contender, polls it once and drops it. `held` is the timer of the first.
pub(super) fn hand<const READY: bool>(contender: &str, held: Timer) -> Hand {
    match contender {
        name::DROP_IN => polled_once(READY, |after| tickwheel::timeout(after, Inner::<READY>)),
        name::TOKIO => polled_once(READY, |after| tokio::time::timeout(after, Inner::<READY>)),
        name::PINGORA => polled_once(READY, |after| {
            pingora_timeout::timeout(after, Inner::<READY>)
        }),
        _ => {
            let is_global = contender == name::GLOBAL;
            let timer = if is_global {
                Timer::global().clone()
            } else {
                held
            };
            polled_once(READY, move |after| timer.timeout(after, Inner::<READY>))
        }
    }
}

/// All that have a timeout.
pub(super) fn enter<const READY: bool>(race: &mut Race) {
    for contender in [
        name::TICKWHEEL,
        name::DROP_IN,
        name::GLOBAL,
        name::TOKIO,
        name::PINGORA,
    ] {
        race.enter(contender, move || {
            hand::<READY>(contender, Timer::current())
        });
    }
}

pub(super) fn race(threads: usize) -> Race {
    let mut race = Race::new(format!("pending-{threads}"), threads);
    enter::<false>(&mut race);
    /// Of either crate.
    macro_rules! enter_queue {
        ($name:expr, $queue:ty) => {
            race.enter($name, || {
                let durations = Durations::of_timeouts();
                let mut queue = <$queue>::new();
                queue.insert(usize::MAX, STANDING);
                operation(move |_, times| {
                    for index in 0..times {
                        let key = queue.insert(index, durations.get(index));
                        queue.remove(&key);
                    }
                })
            })
        };
    }
    enter_queue!(name::QUEUE, tickwheel_util::time::DelayQueue<usize>);
    enter_queue!(name::DELAY_QUEUE, DelayQueue<usize>);
    race
}
