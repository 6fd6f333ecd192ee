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
//! they come down from a coarse slot first.
//!
//! The maps are measured in the same way: the longest insert of a key while two million come in,
//! and the longest removal while all of them go, in random order.

use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cpu_time::ThreadTime;
use tickwheel::{DeadlineMap, DelayMap, Timer};
use tokio::task::{unconstrained, yield_now};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "longest",
    about: "the longest single insert, reset, drop and turn at 2,000,000 timers or keys",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::TOKIO, name::MUTEX_MAP],
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
    let measured: Pin<Box<dyn Future<Output = Found> + Send>> = match contender {
        name::TICKWHEEL => Box::pin(async move {
            let timer = Timer::current();
            let mut found =
                sleeps(scale, |after| timer.sleep(after), tickwheel::Sleep::reset).await;
            settle_the_allocator();
            found.extend(delay_map(scale, &timer));
            settle_the_allocator();
            found.extend(deadline_map(scale, &timer));
            found
        }),
        name::TOKIO => Box::pin(sleeps(scale, tokio::time::sleep, tokio::time::Sleep::reset)),
        _ => Box::pin(async move { mutex_map(scale) }),
    };
    settle_the_allocator();
    let runtime = runtime(1);
    let found = runtime.block_on(runtime.spawn(unconstrained(measured)));
    found
        .expect("no call panics")
        .into_iter()
        .map(|(call, longest)| {
            let millis = longest.as_secs_f64() * 1e3;
            Record::new(&format!("longest-{call}"), contender, vec![millis])
        })
        .collect()
}

/// glibc maps a large block by itself, and moves no byte to make it larger, until the program has
/// freed one that is nearly 32 MB. A program that has run for a while has done so. And with a large
/// block glibc joins all small ones that were freed before, which nobody who is measured next pays.
fn settle_the_allocator() {
    drop(black_box(vec![1_u8; 31 << 20]));
}

/// Calls, and the longest of each.
type Found = Vec<(&'static str, Duration)>;

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

    /// By then all of them have fired, unless the machine is held up.
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
) -> Found {
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
    let is_over = |slot: &mut Pin<Box<Option<S>>>| poll(slot).is_ready();
    let end = scale.end();
    let turn = longest_turn(&mut sleeps, |sleeps| {
        Instant::now() >= end && sleeps.iter_mut().all(is_over)
    });
    let turn = turn.await;
    vec![
        ("insert", insert),
        ("reset", reset),
        ("drop", drop),
        ("turn", turn),
    ]
}

fn arm<S: Future>(slot: &mut Pin<Box<Option<S>>>) {
    assert!(poll(slot).is_pending());
}

fn poll<S: Future>(slot: &mut Pin<Box<Option<S>>>) -> Poll<S::Output> {
    let sleep = slot.as_mut().as_pin_mut().expect("it is not dropped yet");
    sleep.poll(&mut Context::from_waker(Waker::noop()))
}

fn delay_map(scale: Scale, timer: &Timer) -> Found {
    let (map, _expirations) = DelayMap::new(timer);
    let insert = |key| {
        map.insert(key, key, within(FAR)).expect("the map is open");
        key
    };
    let [insert, remove] = keys(scale, insert, |key| _ = map.remove(key));
    vec![("delay-map-insert", insert), ("delay-map-remove", remove)]
}

fn deadline_map(scale: Scale, timer: &Timer) -> Found {
    let map = DeadlineMap::new(timer);
    let insert = |key| {
        let deadline = map.insert(key, within(FAR)).expect("the map is open");
        let mut slot = Box::pin(Some(deadline));
        arm(&mut slot);
        slot
    };
    let [insert, remove] = keys(scale, insert, |slot| slot.as_mut().set(None));
    vec![
        ("deadline-map-insert", insert),
        ("deadline-map-remove", remove),
    ]
}

/// What programs commonly have in the place of both.
fn mutex_map(scale: Scale) -> Found {
    let map = Mutex::new((HashMap::new(), DelayQueue::new()));
    let lock = || map.lock().expect("nothing panics under it");
    let insert = |key: u64| {
        let (places, queue) = &mut *lock();
        places.insert(key, queue.insert(key, within(FAR)));
        key
    };
    let remove = |key: &mut u64| {
        let (places, queue) = &mut *lock();
        queue.remove(&places.remove(key).expect("it is there"));
    };
    let [insert, remove] = keys(scale, insert, remove);
    vec![
        ("deadline-map-insert", insert),
        ("deadline-map-remove", remove),
        ("delay-map-insert", insert),
        ("delay-map-remove", remove),
    ]
}

/// The longest insert and the longest removal. What `insert` gives is kept until nothing is
/// measured any more.
fn keys<T>(
    scale: Scale,
    mut insert: impl FnMut(u64) -> T,
    remove: impl FnMut(&mut T),
) -> [Duration; 2] {
    let mut kept = Vec::with_capacity(scale.timers);
    let insert = longest(0..scale.timers as u64, |key| kept.push(insert(key)));
    fastrand::shuffle(&mut kept);
    [insert, longest(&mut kept, remove)]
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
/// task. To ask whether they have is not measured.
async fn longest_turn<T>(timers: &mut T, is_over: impl Fn(&mut T) -> bool) -> Duration {
    let mut longest = Longest::begin();
    while !is_over(timers) {
        longest.last = ThreadTime::now().as_duration();
        yield_now().await;
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
