//! 10,000 deadlines, each reset once in each pass, in random order, each time in a new tick: a
//! server's connections.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use tickwheel::Timer;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::time::{DelayQueue, delay_queue};

use super::by_hand::{LastSeen, NotifyLoop};
use super::{How, Part, name};
use crate::harness::{Operation, Pace, Race, Record, operation};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "reset-many",
    about: "10,000 deadlines, reset in random order, each time in a new tick",
    how: How::Together(run),
};

pub(super) const HANDLES: usize = 10_000;
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than a millisecond, so that each reset is the first one in its own, and writes.
const EVERY: Duration = Duration::from_micros(2_200);

fn run(settings: &Settings) -> Vec<Record> {
    let mut race = Race::new("reset-many", 1).paced(Pace::Passes {
        size: HANDLES,
        every: EVERY,
    });
    race.enter(name::TICKWHEEL, || {
        let timer = Timer::current();
        let handles = in_random_order(|| {
            let deadline = timer.deadline(TIMEOUT);
            let handle = deadline.handle();
            tokio::spawn(deadline);
            handle
        });
        operation(move |_, _| {
            let in_time = handles.iter().filter(|handle| handle.reset()).count();
            assert_eq!(in_time, HANDLES);
        })
    });
    race.enter(name::TOKIO, || {
        OwnedSleeps(in_random_order(|| Box::pin(sleep(TIMEOUT))))
    });
    race.enter(name::DELAY_QUEUE, || {
        let mut queue = DelayQueue::new();
        let keys = in_random_order(|| queue.insert((), TIMEOUT));
        OwnedQueue { queue, keys }
    });
    race.enter(name::LAST_SEEN, || {
        let seen = in_random_order(|| {
            let seen = Arc::new(LastSeen::new());
            tokio::spawn(seen.clone().expire(TIMEOUT));
            seen
        });
        operation(move |_, _| {
            for seen in &seen {
                seen.touch();
            }
        })
    });
    race.enter(name::NOTIFY, || Notified {
        loops: in_random_order(|| {
            let idle = Arc::new(NotifyLoop::default());
            tokio::spawn(idle.clone().expire(TIMEOUT));
            idle
        }),
        passes: 0,
    });
    race.run(settings)
}

/// `HANDLES` of what `make` makes, in a random order.
pub(super) fn in_random_order<T>(make: impl FnMut() -> T) -> Vec<T> {
    let mut all: Vec<T> = std::iter::repeat_with(make).take(HANDLES).collect();
    fastrand::shuffle(&mut all);
    all
}

struct OwnedSleeps(Vec<Pin<Box<Sleep>>>);

impl Operation for OwnedSleeps {
    fn prepare(&mut self, cx: &mut Context<'_>) {
        for sleep in &mut self.0 {
            assert!(sleep.as_mut().poll(cx).is_pending());
        }
    }

    fn run(&mut self, _: &mut Context<'_>, _: usize) {
        for sleep in &mut self.0 {
            sleep.as_mut().reset(Instant::now() + TIMEOUT);
        }
    }
}

struct OwnedQueue {
    queue: DelayQueue<()>,
    keys: Vec<delay_queue::Key>,
}

impl Operation for OwnedQueue {
    fn prepare(&mut self, cx: &mut Context<'_>) {
        assert!(self.queue.poll_expired(cx).is_pending());
    }

    fn run(&mut self, _: &mut Context<'_>, _: usize) {
        for key in &self.keys {
            self.queue.reset(key, TIMEOUT);
        }
    }
}

/// Only the caller's share is timed. The work of the 10,000 tasks that it wakes comes on top.
struct Notified {
    loops: Vec<Arc<NotifyLoop>>,
    passes: u64,
}

impl Operation for Notified {
    fn run(&mut self, _: &mut Context<'_>, _: usize) {
        self.passes += 1;
        for idle in &self.loops {
            idle.touch();
        }
    }

    fn is_settled(&mut self) -> bool {
        self.loops.iter().all(|idle| idle.turns() == self.passes)
    }
}
