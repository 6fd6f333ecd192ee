//! A timeout whose inner future is ready at the first poll: most timeouts of a busy server. And the
//! same around a small and a large future.
//!
//! The state of an `async fn` is as large as all that it holds over an `await`. Of a request with
//! its buffers that is some kilobytes. A timeout takes its future by value, and each move copies
//! them.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tickwheel::Timer;

use super::pending;
use crate::harness::{Durations, Hand, Inner, Race, Record, operation, polled_once};
use crate::part::{Build, How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "ready",
    about: "timeout whose inner future is ready at once, on 1, 2 and 4 threads, small and large",
    state: "Nothing is armed but a standing sleep. Unlike a server: a loop makes one timeout \
            after the other, so caches hold all of it, and no task does anything else.",
    how: How::Together(run),
};

/// The rows of large futures, in a program that is built as many release builds are.
pub const LARGE: Part = Part {
    name: "large",
    about: "timeout around a small and a large future, built with thin LTO and one unit of code",
    state: "As in `ready`. How often a timeout moves its future depends on what the compiler \
            inlines, and so on the build.",
    how: How::Built {
        program: "tickwheel-bench-large",
        arguments: "",
        build: Build {
            folder: "thin-lto",
            environment: &[
                ("CARGO_PROFILE_RELEASE_LTO", "thin"),
                ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
            ],
        },
    },
};

fn run(settings: &Settings) -> Vec<Record> {
    let mut races: Vec<Race> = [0, 1, 2, 4].map(race).into();
    races.extend(large_races("large"));
    let records = races.into_iter().flat_map(|race| race.run(settings));
    records.collect()
}

/// The rows of large futures, under this name. Another program runs them as it was built.
pub fn run_large(row: &str, settings: &Settings) -> Vec<Record> {
    let races = large_races(row).into_iter();
    races.flat_map(|race| race.run(settings)).collect()
}

fn large_races(row: &str) -> [Race; 3] {
    [large::<8>(row), large::<1_024>(row), large::<4_096>(row)]
}

pub(super) fn race(threads: usize) -> Race {
    let mut race = Race::new(format!("ready-{threads}"), threads);
    pending::enter::<true>(&mut race);
    race.enter(name::CLOCK, || {
        polled_once(true, |_| {
            black_box(Instant::now());
            Inner::<true>
        })
    });
    race.enter(name::NO_TIMER, || polled_once(true, |_| Inner::<true>));
    race
}

fn large<const SIZE: usize>(row: &str) -> Race {
    let mut race = Race::new(format!("{row}-{SIZE}"), 1);
    race.enter(name::TICKWHEEL, || {
        let timer = Timer::current();
        awaited(move |after| timer.timeout(after, Large::<SIZE>::new()))
    });
    race.enter(name::DROP_IN, || {
        awaited(|after| tickwheel::timeout(after, Large::<SIZE>::new()))
    });
    race.enter(name::TOKIO, || {
        awaited(|after| tokio::time::timeout(after, Large::<SIZE>::new()))
    });
    race.enter(name::NO_TIMER, || awaited(|_| Large::<SIZE>::new()));
    race
}

/// Makes a future with a duration, and awaits it, as an `async fn` does.
fn awaited<F: Future>(mut make: impl FnMut(Duration) -> F + Send + 'static) -> Hand {
    let durations = Durations::of_timeouts();
    operation(move |cx, times| {
        let all = pin!(async {
            for index in 0..times {
                make(durations.get(index)).await;
            }
        });
        assert!(all.poll(cx).is_ready(), "measured something else");
    })
}

/// Ready at the first poll, and that large.
struct Large<const SIZE: usize>([u8; SIZE]);

impl<const SIZE: usize> Large<SIZE> {
    fn new() -> Large<SIZE> {
        Large([black_box(1); SIZE])
    }
}

impl<const SIZE: usize> Future for Large<SIZE> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        // The compiler must have all bytes in their place here.
        match black_box(&self.0)[SIZE - 1] {
            1 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}
