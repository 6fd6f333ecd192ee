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
//!
//! glibc keeps small blocks that are freed in its fast bins, and joins all of them in the one call
//! that frees a large block. So does the drop that gives a segment of a wheel back. The contenders
//! without fast bins show that this is all of a long drop. The rows of boxes show that every
//! program that frees as many small blocks has it.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cpu_time::ThreadTime;
use tickwheel::{DeadlineMap, Timer};
use tokio::task::{unconstrained, yield_now};
use tokio::time::Instant;

use super::keyed::{ByKey, Locked, STANDS, Values};
use crate::harness::{STANDING, Standing, runtime, settle_the_allocator};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "longest",
    about: "the longest single insert, reset, drop and turn at 2,000,000 timers or keys",
    state: "A standing sleep is due before the timers that do not fire, and a map also holds \
            such an item. Unlike a server: all timers are armed, reset and dropped in one go \
            each, from one thread.",
    how: How::Apart {
        contenders: &[
            name::TICKWHEEL,
            name::NO_FAST_BINS,
            name::TOKIO,
            name::MUTEX_MAP,
            name::NO_TIMER,
            name::NO_TIMER_NO_FAST_BINS,
        ],
        rounds: 3,
        run,
    },
};

/// In microseconds: nothing fires meanwhile.
const FAR: Range<u64> = 300_000_000..900_000_000;

fn run(contender: &str, settings: &Settings) -> Vec<(String, f64)> {
    let count = settings.either(2_000_000, 100_000);
    let near = settings.either(4_200_000..5_200_000, 200_000..300_000);
    let measured: Pin<Box<dyn Future<Output = Found> + Send>> = match contender {
        name::TICKWHEEL => Box::pin(async move {
            let timer = Timer::current();
            let sleep = |after| timer.sleep(after);
            let mut found = sleeps(count, near, sleep, tickwheel::Sleep::reset).await;
            settle_the_allocator();
            let [insert, remove] = by_key(count, Values::default());
            found.extend([("delay-map-insert", insert), ("delay-map-remove", remove)]);
            settle_the_allocator();
            found.extend(deadline_map(count, &timer));
            found
        }),
        name::NO_FAST_BINS => Box::pin(async move {
            let timer = Timer::current();
            let sleep = |after| timer.sleep(after);
            let (_, mut found) = calls(count, &sleep, tickwheel::Sleep::reset);
            settle_the_allocator();
            found.extend(deadline_map(count, &timer));
            found
        }),
        name::TOKIO => {
            let sleep = tokio::time::sleep;
            Box::pin(sleeps(count, near, sleep, tokio::time::Sleep::reset))
        }
        name::NO_TIMER | name::NO_TIMER_NO_FAST_BINS => Box::pin(async move { boxes(count) }),
        // What programs commonly have in the place of both.
        _ => Box::pin(async move {
            let [insert, remove] = by_key(count, Locked::default());
            vec![
                ("deadline-map-insert", insert),
                ("deadline-map-remove", remove),
                ("delay-map-insert", insert),
                ("delay-map-remove", remove),
            ]
        }),
    };
    settle_the_allocator();
    let runtime = runtime(1);
    let _standing = Standing::of(contender, &runtime);
    let found = runtime.block_on(runtime.spawn(unconstrained(measured)));
    let figure = |(call, longest): (_, Duration)| {
        let millis = longest.as_secs_f64() * 1e3;
        (format!("longest-{call}"), millis)
    };
    let found = found.expect("no call panics");
    found.into_iter().map(figure).collect()
}

/// Calls, and the longest of each.
type Found = Vec<(&'static str, Duration)>;

fn within(micros: Range<u64>) -> Duration {
    Duration::from_micros(fastrand::u64(micros))
}

/// Where a sleep lies that may be dropped.
type Slot<S> = Pin<Box<Option<S>>>;

/// The longest poll that arms, reset, drop, and turn. In `near` all of them fire, in microseconds
/// after they are armed.
async fn sleeps<S: Future<Output = ()>>(
    count: u64,
    near: Range<u64>,
    sleep: impl Fn(Duration) -> S,
    reset: fn(Pin<&mut S>, Instant),
) -> Found {
    let (mut sleeps, mut found) = calls(count, &sleep, reset);
    for slot in &mut sleeps {
        slot.set(Some(sleep(within(near.clone()))));
        arm(slot);
    }
    // By then all of them have fired, unless the machine is held up.
    let end = Instant::now() + Duration::from_micros(near.end) + Duration::from_secs(1);
    let is_over = |slot: &mut Slot<S>| poll(slot).is_ready();
    let turn = longest_turn(|| Instant::now() >= end && sleeps.iter_mut().all(is_over)).await;
    found.push(("turn", turn));
    found
}

/// The longest poll that arms, reset and drop, and the slots that are left.
fn calls<S: Future<Output = ()>>(
    count: u64,
    sleep: &impl Fn(Duration) -> S,
    reset: fn(Pin<&mut S>, Instant),
) -> (Vec<Slot<S>>, Found) {
    let mut sleeps: Vec<_> = (0..count)
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
    let found = vec![("insert", insert), ("reset", reset), ("drop", drop)];
    (sleeps, found)
}

fn arm<S: Future>(slot: &mut Slot<S>) {
    assert!(poll(slot).is_pending());
}

fn poll<S: Future>(slot: &mut Slot<S>) -> Poll<S::Output> {
    let sleep = slot.as_mut().as_pin_mut().expect("it is not dropped yet");
    sleep.poll(&mut Context::from_waker(Waker::noop()))
}

/// Small boxes are dropped in random order, and then a buffer.
fn boxes(count: u64) -> Found {
    let filled = |size| Some(vec![1_u8; size].into_boxed_slice());
    let mut boxes: Vec<Option<Box<[u8]>>> = (0..count).map(|_| filled(24)).collect();
    fastrand::shuffle(&mut boxes);
    boxes.push(filled(128 << 10));
    vec![("boxes", longest(&mut boxes, |slot| *slot = None))]
}

fn deadline_map(count: u64, timer: &Timer) -> Found {
    let map = DeadlineMap::new(timer);
    let insert = |key| {
        let deadline = map.insert(key, within(FAR)).expect("the map is open");
        let mut slot = Box::pin(Some(deadline));
        arm(&mut slot);
        slot
    };
    let [insert, remove] = keys(count, insert, |slot| slot.as_mut().set(None));
    vec![
        ("deadline-map-insert", insert),
        ("deadline-map-remove", remove),
    ]
}

fn by_key(count: u64, map: impl ByKey) -> [Duration; 2] {
    map.insert_for(STANDS, STANDING);
    let insert = |key| {
        map.insert(key);
        key
    };
    keys(count, insert, |key| map.remove(*key))
}

/// The longest insert and the longest removal. What `insert` gives is kept until nothing is
/// measured any more.
fn keys<T>(
    count: u64,
    mut insert: impl FnMut(u64) -> T,
    remove: impl FnMut(&mut T),
) -> [Duration; 2] {
    let mut kept = Vec::with_capacity(count as usize);
    let insert = longest(0..count, |key| kept.push(insert(key)));
    fastrand::shuffle(&mut kept);
    [insert, longest(&mut kept, remove)]
}

/// What the longest of some calls took of this thread's CPU. One reading for each: where one ends,
/// the next begins.
fn longest<T>(all: impl IntoIterator<Item = T>, mut call: impl FnMut(T)) -> Duration {
    let mut last = cpu();
    let took = all.into_iter().map(|one| {
        call(one);
        let now = cpu();
        now - std::mem::replace(&mut last, now)
    });
    took.max().unwrap_or_default()
}

/// Turns until all timers have fired, by whatever else this thread does between two polls of the
/// task. To ask whether they have is not measured.
async fn longest_turn(mut is_over: impl FnMut() -> bool) -> Duration {
    let mut longest = Duration::ZERO;
    while !is_over() {
        let begin = cpu();
        yield_now().await;
        longest = longest.max(cpu() - begin);
    }
    longest
}

/// What this thread has taken so far.
fn cpu() -> Duration {
    ThreadTime::now().as_duration()
}
