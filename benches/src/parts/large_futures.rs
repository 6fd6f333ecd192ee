//! A timeout around a future that is ready at the first poll, and is small or large: what it costs
//! that a timeout takes its future by value.
//!
//! The state of an `async fn` is as large as all that it holds over an `await`. Of a request with
//! its buffers that is some kilobytes, and each move of the future copies them.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tickwheel::Timer;

use super::{How, Part, name};
use crate::harness::{Durations, Operation, Race, Record, operation};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "large-futures",
    about: "timeout around a ready future of 8 bytes, 1 KiB and 4 KiB",
    how: How::Together(run),
};

/// How large the futures are, in bytes.
pub const SIZES: &[usize] = &[8, 1_024, 4_096];

fn run(settings: &Settings) -> Vec<Record> {
    [race::<8>(), race::<1_024>(), race::<4_096>()]
        .into_iter()
        .flat_map(|race| race.run(settings))
        .collect()
}

fn race<const SIZE: usize>() -> Race {
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
        if black_box(&self.0)[SIZE - 1] == 1 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
