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

use super::{How, Part, name};
use crate::harness::{Durations, Once, Operation, Race, Record, operation, polled_once};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "ready",
    about: "timeout whose inner future is ready at once, on 1, 2 and 4 threads, small and large",
    how: How::Together(run),
};

/// How large the futures are, in bytes.
pub const SIZES: &[usize] = &[8, 1_024, 4_096];

fn run(settings: &Settings) -> Vec<Record> {
    let mut races: Vec<Race> = [0, 1, 2, 4].map(race).into();
    races.extend([large::<8>(), large::<1_024>(), large::<4_096>()]);
    let records = races.into_iter().flat_map(|race| race.run(settings));
    records.collect()
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
        let timer = Timer::global();
        polled_once(true, move |after| timer.timeout(after, Once))
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

fn large<const SIZE: usize>() -> Race {
    assert!(SIZES.contains(&SIZE), "it has a row");
    let mut race = Race::new(format!("large-{SIZE}"), 1);
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
fn awaited<F: Future>(mut make: impl FnMut(Duration) -> F + Send + 'static) -> impl Operation {
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
