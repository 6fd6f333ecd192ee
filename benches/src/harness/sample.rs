//! One sample of one contender: warm up, then take the time of as many operations as fit.
//!
//! The loop runs in tasks, one for each thread, that begin together. It yields to the runtime every
//! [`BATCH`], like a well-behaved task, and what the runtime does then counts. Operations are not
//! timed one by one, because a reading of the clock costs more than most of them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::yield_now;

use super::Operation;
use crate::settings::Settings;

/// How long a task runs before it yields.
const BATCH: Duration = Duration::from_micros(200);

/// How operations are spread over a sample.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// One after the other.
    Continuous,
    /// Passes of `size` operations. A pass begins at least `every` after the one before. Only the
    /// passes are timed.
    Passes { size: usize, every: Duration },
}

/// How long one task took in one sample, and for how many operations.
pub type Took = (Duration, usize);

/// Runs one sample in the current task.
pub async fn sample(
    hand: &mut dyn Operation,
    pace: Pace,
    settings: &Settings,
    start: &StartingLine,
) -> Took {
    poll_fn(|cx| {
        hand.prepare(cx);
        Poll::Ready(())
    })
    .await;
    start.all_here().await;
    match pace {
        Pace::Continuous => continuous(hand, settings).await,
        Pace::Passes { size, every } => passes(hand, size, every, settings).await,
    }
}

async fn continuous(hand: &mut dyn Operation, settings: &Settings) -> Took {
    let mut size = 64;
    let begin = Instant::now();
    while begin.elapsed() < settings.warm_up {
        if batch(hand, size).await < BATCH {
            size *= 2;
        }
        yield_now().await;
    }

    let mut operations = 0;
    let begin = Instant::now();
    while begin.elapsed() < settings.sample {
        batch(hand, size).await;
        operations += size;
        yield_now().await;
    }
    (begin.elapsed(), operations)
}

async fn passes(
    hand: &mut dyn Operation,
    size: usize,
    every: Duration,
    settings: &Settings,
) -> Took {
    let (mut time, mut operations) = (Duration::ZERO, 0);
    let begin = Instant::now();
    while begin.elapsed() < settings.warm_up + settings.sample {
        let pass = Instant::now();
        let took = batch(hand, size).await;
        if begin.elapsed() >= settings.warm_up {
            time += took;
            operations += size;
        }
        while pass.elapsed() < every {
            yield_now().await;
        }
    }
    (time, operations)
}

/// The time of a number of operations, all in one poll of the task.
pub async fn batch(hand: &mut dyn Operation, size: usize) -> Duration {
    poll_fn(|cx| {
        let begin = Instant::now();
        hand.run(cx, size);
        Poll::Ready(begin.elapsed())
    })
    .await
}

/// Where the tasks of a sample wait for one another: how many are missing. They keep yielding, so
/// the wait needs no more workers than there are.
pub struct StartingLine(AtomicUsize);

impl StartingLine {
    pub fn new(tasks: usize) -> StartingLine {
        StartingLine(AtomicUsize::new(tasks))
    }

    async fn all_here(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) > 0 {
            yield_now().await;
        }
    }
}
