//! Arm and disarm while many other timers are armed: how the cost grows.
//!
//! There are two ways. `armed-…` arms and disarms one more timer, over and over, and keeps to the
//! same memory. `replace-…` replaces one of the other timers at random each time, as when
//! connections come and go. So it also pays for memory that is in no cache.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tickwheel::{Sleep, Timer};

use super::timeouts::polled_once;
use super::{How, Part, name};
use crate::harness::{Durations, Operation, Race, Record};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "armed",
    about: "arm and disarm with 1,000 to 10,000,000 others armed",
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
        .flat_map(|&size| [one_more(size), one_of_them(size)])
        .flat_map(|race| race().run(&settings))
        .collect()
}

/// A race is set up only when it begins. By then the timers of the race before it are dropped.
type Later = Box<dyn FnOnce() -> Race>;

fn one_more(size: usize) -> Later {
    Box::new(move || {
        let mut race = Race::new(format!("armed-{size}"), 1);
        race.enter(name::TICKWHEEL, move || {
            let timer = Timer::current();
            OneMore {
                others: Others::new(size, Ours(timer.clone())),
                hand: polled_once(false, move |after| timer.sleep(after)),
            }
        });
        race.enter(name::TOKIO, move || OneMore {
            others: Others::new(size, Tokios),
            hand: polled_once(false, tokio::time::sleep),
        });
        race
    })
}

fn one_of_them(size: usize) -> Later {
    Box::new(move || {
        let mut race = Race::new(format!("replace-{size}"), 1);
        race.enter(name::TICKWHEEL, move || {
            OneOfThem(Others::new(size, Ours(Timer::current())))
        });
        race.enter(name::TOKIO, move || OneOfThem(Others::new(size, Tokios)));
        race
    })
}

/// Makes sleeps.
trait Sleeps: Send + 'static {
    type Sleep: Future<Output = ()> + Unpin + Send;

    fn sleep(&self, after: Duration) -> Self::Sleep;

    /// Drops a sleep and puts a new one in its place.
    fn replace(&self, old: &mut Self::Sleep, after: Duration) {
        *old = self.sleep(after);
    }
}

struct Ours(Timer);

impl Sleeps for Ours {
    type Sleep = Sleep;

    fn sleep(&self, after: Duration) -> Sleep {
        self.0.sleep(after)
    }
}

struct Tokios;

impl Sleeps for Tokios {
    /// Boxed, because it cannot be moved.
    type Sleep = Pin<Box<tokio::time::Sleep>>;

    fn sleep(&self, after: Duration) -> Self::Sleep {
        Box::pin(tokio::time::sleep(after))
    }

    /// In the same box, so that the allocator is not measured too.
    fn replace(&self, old: &mut Self::Sleep, after: Duration) {
        old.set(tokio::time::sleep(after));
    }
}

/// Sleeps that are armed; none of them fires before the part is over.
struct Others<S: Sleeps> {
    size: usize,
    sleeps: S,
    armed: Vec<S::Sleep>,
    durations: Durations,
}

impl<S: Sleeps> Others<S> {
    fn new(size: usize, sleeps: S) -> Others<S> {
        Others {
            size,
            sleeps,
            armed: Vec::new(),
            durations: Durations::seconds(300..900),
        }
    }

    /// Arms them, before the first sample.
    fn arm(&mut self, cx: &mut Context<'_>) {
        self.armed.reserve_exact(self.size - self.armed.len());
        while self.armed.len() < self.size {
            let mut sleep = self.sleeps.sleep(self.durations.get(fastrand::usize(..)));
            assert!(Pin::new(&mut sleep).poll(cx).is_pending());
            self.armed.push(sleep);
        }
    }
}

struct OneMore<S: Sleeps, O> {
    others: Others<S>,
    hand: O,
}

impl<S: Sleeps, O: Operation> Operation for OneMore<S, O> {
    fn prepare(&mut self, cx: &mut Context<'_>) {
        self.others.arm(cx);
    }

    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        self.hand.run(cx, times);
    }
}

struct OneOfThem<S: Sleeps>(Others<S>);

impl<S: Sleeps> Operation for OneOfThem<S> {
    fn prepare(&mut self, cx: &mut Context<'_>) {
        self.0.arm(cx);
    }

    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        let others = &mut self.0;
        let mut pending = 0;
        for index in 0..times {
            let place = fastrand::usize(..others.size);
            let sleep = &mut others.armed[place];
            others.sleeps.replace(sleep, others.durations.get(index));
            pending += usize::from(Pin::new(sleep).poll(cx).is_pending());
        }
        assert_eq!(pending, times);
    }
}
