//! Arm and disarm while many other timers are armed: how the cost grows.
//!
//! There are two ways. `armed-…` replaces one timer, over and over, and keeps to the same memory.
//! `replace-…` replaces one at random each time, as when connections come and go. So it also pays
//! for memory that is in no cache.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tickwheel::Timer;

use crate::harness::{Durations, Hand, Operation, Race, Record};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "armed",
    about: "arm and disarm with 1,000 to 10,000,000 others armed",
    state: "A standing sleep is due before all others. Unlike a server: a loop does nothing \
            else, and nothing fires. The `armed` rows use the same memory each time, so caches \
            hold it. The `replace` rows choose at random from all of it.",
    how: How::Together(run),
};

/// How many other timers are armed.
pub const SIZES: &[usize] = &[1_000, 10_000, 100_000, 1_000_000, 5_000_000, 10_000_000];

fn run(settings: &Settings) -> Vec<Record> {
    let most = settings.either(usize::MAX, 100_000);
    let settings = Settings {
        rounds: settings.rounds.div_ceil(2),
        ..settings.clone()
    };
    SIZES
        .iter()
        .filter(|&&size| size <= most)
        .flat_map(|&size| [(size, false), (size, true)])
        // A race is set up only when it begins. By then the timers of the one before it are
        // dropped.
        .flat_map(|(size, replaces)| race(size, replaces).run(&settings))
        .collect()
}

fn race(size: usize, replaces: bool) -> Race {
    let row = if replaces { "replace" } else { "armed" };
    let mut race = Race::new(format!("{row}-{size}"), 1);
    race.enter(name::TICKWHEEL, move || {
        let timer = Timer::current();
        armed(size, replaces, move |after| timer.sleep(after))
    });
    race.enter(name::TOKIO, move || {
        armed(size, replaces, tokio::time::sleep)
    });
    race
}

fn armed<S: Future + Send + 'static>(
    size: usize,
    replaces: bool,
    sleep: impl Fn(Duration) -> S + Send + 'static,
) -> Hand {
    Box::new(Armed {
        size,
        replaces,
        sleep,
        armed: Vec::new(),
        durations: Durations::seconds(300..900),
    })
}

/// Sleeps that are armed, each in its box; none of them fires before the part is over.
struct Armed<S, M> {
    size: usize,
    replaces: bool,
    sleep: M,
    armed: Vec<Pin<Box<S>>>,
    durations: Durations,
}

impl<S, M> Operation for Armed<S, M>
where
    S: Future + Send + 'static,
    M: Fn(Duration) -> S + Send + 'static,
{
    /// Arms them, before the first sample.
    fn prepare(&mut self, cx: &mut Context<'_>) {
        self.armed.reserve_exact(self.size + 1 - self.armed.len());
        while self.armed.len() <= self.size {
            let mut sleep = Box::pin((self.sleep)(self.durations.get(fastrand::usize(..))));
            assert!(sleep.as_mut().poll(cx).is_pending());
            self.armed.push(sleep);
        }
    }

    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        let mut pending = 0;
        for index in 0..times {
            let place = if self.replaces {
                fastrand::usize(..self.size)
            } else {
                0
            };
            // In the same box, so that the allocator is not measured too.
            let sleep = &mut self.armed[place];
            sleep.set((self.sleep)(self.durations.get(index)));
            pending += usize::from(sleep.as_mut().poll(cx).is_pending());
        }
        assert_eq!(pending, times);
    }
}
