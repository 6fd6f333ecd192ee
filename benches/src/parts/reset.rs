//! Deadlines that are pushed back, as a keepalive is at each read: one over and over while the
//! ticks pass, and 10,000 in random order, each time in a new tick.
//!
//! Another task awaits tickwheel's deadline and the hand-written pattern. Only the owner of tokio's
//! `Sleep` or of a `DelayQueue` can reset it, so here the measured task owns them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use tickwheel::{ResetHandle, Timer};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_util::time::DelayQueue;

use crate::harness::{Hand, Pace, Race, Record, STANDING, TIMEOUT, operation};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "reset",
    about: "one deadline reset over and over, and 10,000 at random",
    state: "A standing sleep is due before the deadlines, and a queue also holds such an item. \
            Unlike a server: a loop resets without a pause, so the one deadline is in the \
            caches, as most of the 10,000 are. Nearly all resets of the one are not the first in \
            their tick, and write nothing; a server's is the first, and writes once.",
    how: How::Together(run),
};

pub(super) const HANDLES: usize = 10_000;
/// Longer than a millisecond, so that each reset is the first one in its own, and writes.
const EVERY: Duration = Duration::from_micros(2_200);

fn run(settings: &Settings) -> Vec<Record> {
    let many = Race::new("reset-many", 1).paced(Pace::Passes {
        size: HANDLES,
        every: EVERY,
    });
    let races = [
        one(),
        resets(Race::new("reset-one-0", 0), 1),
        after(),
        resets(many, HANDLES),
    ];
    let records = races.into_iter().flat_map(|race| race.run(settings));
    records.collect()
}

pub(super) fn one() -> Race {
    resets(Race::new("reset-one", 1), 1)
}

fn resets(mut race: Race, count: usize) -> Race {
    race.enter(name::TICKWHEEL, move || {
        in_turn(count, connect, |handle| assert!(handle.reset()))
    });
    race.enter(name::TOKIO, move || in_turn(count, owned, reset_owned));
    race.enter(name::DELAY_QUEUE, move || {
        let mut queue = DelayQueue::new();
        queue.insert((), STANDING);
        let mut keys = in_random_order(count, || queue.insert((), TIMEOUT))
            .into_iter()
            .cycle();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(queue.poll_expired(&mut cx).is_pending());
        operation(move |_, times| {
            for key in keys.by_ref().take(times) {
                queue.reset(&key, TIMEOUT);
            }
        })
    });
    race.enter(name::LAST_SEEN, move || {
        in_turn(count, LastSeen::start, |seen| seen.touch())
    });
    race
}

/// To later, which takes no lock either.
pub(super) fn after() -> Race {
    let mut race = Race::new("reset-after", 1);
    race.enter(name::TICKWHEEL, || {
        in_turn(1, connect, |handle| assert!(handle.reset_after(TIMEOUT)))
    });
    race.enter(name::TOKIO, || in_turn(1, owned, reset_owned));
    race
}

fn in_turn<T: Send + 'static>(count: usize, make: fn() -> T, reset: fn(&mut T)) -> Hand {
    let mut all = in_random_order(count, make);
    let mut next = 0;
    operation(move |_, times| {
        for _ in 0..times {
            reset(&mut all[next]);
            next = if next + 1 == count { 0 } else { next + 1 };
        }
    })
}

/// So many of what `make` makes, in a random order.
pub(super) fn in_random_order<T>(count: usize, make: impl FnMut() -> T) -> Vec<T> {
    let mut all: Vec<T> = std::iter::repeat_with(make).take(count).collect();
    fastrand::shuffle(&mut all);
    all
}

// How each contender holds a deadline, and resets it.

/// A task awaits the deadline.
pub(super) fn connect() -> ResetHandle {
    let deadline = Timer::current().deadline(TIMEOUT);
    let handle = deadline.handle();
    tokio::spawn(deadline);
    handle
}

pub(super) fn owned() -> Pin<Box<Sleep>> {
    let mut sleep = Box::pin(sleep(TIMEOUT));
    assert!(sleep.as_mut().now_or_never().is_none());
    sleep
}

pub(super) fn reset_owned(sleep: &mut Pin<Box<Sleep>>) {
    sleep.as_mut().reset(Instant::now() + TIMEOUT);
}

/// Written by hand: an atomic holds when something was last seen. A task sleeps, looks, and sleeps
/// again.
pub(super) struct LastSeen {
    start: Instant,
    millis: AtomicU64,
}

impl LastSeen {
    pub(super) fn start() -> Arc<LastSeen> {
        let seen = Arc::new(LastSeen {
            start: Instant::now(),
            millis: AtomicU64::new(0),
        });
        tokio::spawn(seen.clone().expire());
        seen
    }

    pub(super) fn touch(&self) {
        let millis = self.start.elapsed().as_millis() as u64;
        self.millis.store(millis, Ordering::Relaxed);
    }

    async fn expire(self: Arc<Self>) {
        loop {
            let seen = Duration::from_millis(self.millis.load(Ordering::Relaxed));
            let due = self.start + seen + TIMEOUT;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}
