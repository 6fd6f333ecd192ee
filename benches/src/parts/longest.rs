//! The longest single call among two million timers: a program that holds so many does not care
//! what a call takes in the mean, but for how long one may stop its worker.
//!
//! One thread does all of it, and what counts is the CPU of that thread from call to call. So a
//! neighbour on the machine is not in the figures, and the driver's work is. Sleeps are armed at
//! their first poll, moved, and dropped where they lie. The boxes around them are freed when
//! nothing is measured any more: what an allocator does then is its own affair.
//!
//! The longest turn is the longest that a task which does nothing but yield was kept waiting, while
//! all of the timers become due within a second. They were armed more than four seconds ahead, so
//! they come down from a coarse slot first. A `DelayQueue` is turned by the task that polls it.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cpu_time::ThreadTime;
use tickwheel::Timer;
use tokio::task::{unconstrained, yield_now};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "longest",
    about: "the longest single insert, reset, drop and turn at 2,000,000 timers",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::TOKIO, name::DELAY_QUEUE],
        rounds: 3,
        run,
    },
};

/// In microseconds: nothing fires meanwhile.
const FAR: Range<u64> = 300_000_000..900_000_000;

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    let scale = Scale {
        timers: settings.either(2_000_000, 100_000),
        begin: settings.either(4_200_000, 200_000),
        span: settings.either(1_000_000, 100_000),
    };
    let measured: Pin<Box<dyn Future<Output = [Duration; 4]> + Send>> = match contender {
        name::TICKWHEEL => Box::pin(async move {
            let timer = Timer::current();
            sleeps(scale, |after| timer.sleep(after), tickwheel::Sleep::reset).await
        }),
        name::TOKIO => Box::pin(sleeps(scale, tokio::time::sleep, tokio::time::Sleep::reset)),
        _ => Box::pin(queue(scale)),
    };
    // glibc maps a large block by itself, and moves no byte to make it larger, until the program
    // has freed one that is nearly 32 MB. A program that has run for a while has done so.
    drop(black_box(vec![1_u8; 31 << 20]));
    let runtime = runtime(1);
    let longest = runtime.block_on(runtime.spawn(unconstrained(measured)));
    ["insert", "reset", "drop", "turn"]
        .into_iter()
        .zip(longest.expect("no call panics"))
        .map(|(call, longest)| {
            let millis = longest.as_secs_f64() * 1e3;
            Record::new(&format!("longest-{call}"), contender, vec![millis])
        })
        .collect()
}

#[derive(Clone, Copy)]
struct Scale {
    timers: usize,
    /// When the first one fires after all are armed, in microseconds.
    begin: u64,
    /// Within how many microseconds all of them fire.
    span: u64,
}

impl Scale {
    fn near(self) -> Range<u64> {
        self.begin..self.begin + self.span
    }

    /// By then all of them have fired.
    fn end(self) -> Instant {
        Instant::now() + Duration::from_micros(self.begin + self.span) + Duration::from_secs(1)
    }
}

fn within(micros: Range<u64>) -> Duration {
    Duration::from_micros(fastrand::u64(micros))
}

/// The longest poll that arms, reset, drop, and turn.
async fn sleeps<S: Future<Output = ()>>(
    scale: Scale,
    sleep: impl Fn(Duration) -> S,
    reset: fn(Pin<&mut S>, Instant),
) -> [Duration; 4] {
    let mut sleeps: Vec<_> = (0..scale.timers)
        .map(|_| Box::pin(Some(sleep(within(FAR)))))
        .collect();
    let insert = longest(&mut sleeps, arm);
    fastrand::shuffle(&mut sleeps);
    let now = Instant::now();
    let reset = longest(&mut sleeps, |slot| {
        if let Some(sleep) = slot.as_mut().as_pin_mut() {
            reset(sleep, now + within(FAR));
        }
    });
    fastrand::shuffle(&mut sleeps);
    let drop = longest(&mut sleeps, |slot| slot.as_mut().set(None));
    for slot in &mut sleeps {
        slot.set(Some(sleep(within(scale.near()))));
        arm(slot);
    }
    let turn = longest_turn(scale, |_| ()).await;
    let is_over = |slot: &mut Pin<Box<Option<S>>>| poll(slot).is_ready();
    assert!(sleeps.iter_mut().all(is_over), "measured something else");
    [insert, reset, drop, turn]
}

fn arm<S: Future<Output = ()>>(slot: &mut Pin<Box<Option<S>>>) {
    assert!(poll(slot).is_pending());
}

fn poll<S: Future<Output = ()>>(slot: &mut Pin<Box<Option<S>>>) -> Poll<()> {
    let sleep = slot.as_mut().as_pin_mut().expect("it is not dropped yet");
    sleep.poll(&mut Context::from_waker(Waker::noop()))
}

/// The same of a `DelayQueue`.
async fn queue(scale: Scale) -> [Duration; 4] {
    let mut queue = DelayQueue::new();
    let mut keys = Vec::with_capacity(scale.timers);
    let insert = longest(0..scale.timers, |_| {
        keys.push(queue.insert((), within(FAR)));
    });
    fastrand::shuffle(&mut keys);
    let reset = longest(&keys, |key| queue.reset(key, within(FAR)));
    fastrand::shuffle(&mut keys);
    let drop = longest(&keys, |key| {
        queue.remove(key);
    });
    for _ in 0..scale.timers {
        queue.insert((), within(scale.near()));
    }
    let turn = longest_turn(scale, |cx| {
        while let Poll::Ready(Some(_)) = queue.poll_expired(cx) {}
    })
    .await;
    assert!(queue.is_empty(), "measured something else");
    [insert, reset, drop, turn]
}

/// What the longest of some calls took of this thread's CPU.
fn longest<T>(all: impl IntoIterator<Item = T>, mut call: impl FnMut(T)) -> Duration {
    let mut longest = Longest::begin();
    for one in all {
        call(one);
        longest.ended();
    }
    longest.longest
}

/// Turns until all timers have fired, by whatever else this thread does between two polls of the
/// task. `turn` is what the task does itself.
async fn longest_turn(scale: Scale, mut turn: impl FnMut(&mut Context<'_>)) -> Duration {
    let end = scale.end();
    let mut longest = Longest::begin();
    while Instant::now() < end {
        yield_now().await;
        poll_fn(|cx| {
            turn(cx);
            Poll::Ready(())
        })
        .await;
        longest.ended();
    }
    longest.longest
}

/// One reading for each call: where one ends, the next begins.
struct Longest {
    last: Duration,
    longest: Duration,
}

impl Longest {
    fn begin() -> Longest {
        Longest {
            last: ThreadTime::now().as_duration(),
            longest: Duration::ZERO,
        }
    }

    fn ended(&mut self) {
        let now = ThreadTime::now().as_duration();
        self.longest = self.longest.max(now - self.last);
        self.last = now;
    }
}
