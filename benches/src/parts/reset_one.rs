//! One deadline pushed back over and over, while the ticks pass: a keepalive that is reset at each
//! read.
//!
//! Another task awaits tickwheel's deadline and the hand-written patterns. Only the owner of
//! tokio's `Sleep` or of a `DelayQueue` can reset it, so here the measured task owns them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use tickwheel::{ResetHandle, Timer};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::time::{DelayQueue, delay_queue};

use super::by_hand::{LastSeen, NotifyLoop};
use super::{How, Part, name};
use crate::harness::{Operation, Race, Record, operation};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "reset-one",
    about: "one deadline, reset over and over while ticks pass",
    how: How::Together(run),
};

const TIMEOUT: Duration = Duration::from_secs(30);

fn run(settings: &Settings) -> Vec<Record> {
    let mut race = Race::new("reset-one", 1);
    race.enter(name::TICKWHEEL, || awaited_elsewhere(ResetHandle::reset));
    race.enter(name::TOKIO, || OwnedSleep(Box::pin(sleep(TIMEOUT))));
    race.enter(name::DELAY_QUEUE, OwnedQueue::new);
    race.enter(name::LAST_SEEN, || {
        let seen = Arc::new(LastSeen::new());
        tokio::spawn(seen.clone().expire(TIMEOUT));
        operation(move |_, times| {
            for _ in 0..times {
                seen.touch();
            }
        })
    });
    race.enter(name::NOTIFY, || {
        let idle = Arc::new(NotifyLoop::default());
        tokio::spawn(idle.clone().expire(TIMEOUT));
        operation(move |_, times| {
            for _ in 0..times {
                idle.touch();
            }
        })
    });
    let mut records = race.run(settings);
    // Takes the lock of the shard, which a reset does not.
    let mut race = Race::new("reset-after", 1);
    race.enter(name::TICKWHEEL, || {
        awaited_elsewhere(|handle| handle.reset_after(TIMEOUT))
    });
    race.enter(name::TOKIO, || OwnedSleep(Box::pin(sleep(TIMEOUT))));
    records.extend(race.run(settings));
    records
}

fn awaited_elsewhere(reset: impl Fn(&ResetHandle) -> bool + Send + 'static) -> impl Operation {
    let deadline = Timer::current().deadline(TIMEOUT);
    let handle = deadline.handle();
    tokio::spawn(deadline);
    operation(move |_, times| {
        let mut in_time = 0;
        for _ in 0..times {
            in_time += usize::from(reset(&handle));
        }
        assert_eq!(in_time, times);
    })
}

struct OwnedSleep(Pin<Box<Sleep>>);

impl Operation for OwnedSleep {
    fn prepare(&mut self, cx: &mut Context<'_>) {
        assert!(self.0.as_mut().poll(cx).is_pending());
    }

    fn run(&mut self, _: &mut Context<'_>, times: usize) {
        for _ in 0..times {
            self.0.as_mut().reset(Instant::now() + TIMEOUT);
        }
    }
}

struct OwnedQueue {
    queue: DelayQueue<()>,
    key: delay_queue::Key,
}

impl OwnedQueue {
    fn new() -> OwnedQueue {
        let mut queue = DelayQueue::new();
        let key = queue.insert((), TIMEOUT);
        OwnedQueue { queue, key }
    }
}

impl Operation for OwnedQueue {
    fn prepare(&mut self, cx: &mut Context<'_>) {
        assert!(self.queue.poll_expired(cx).is_pending());
    }

    fn run(&mut self, _: &mut Context<'_>, times: usize) {
        for _ in 0..times {
            self.queue.reset(&self.key, TIMEOUT);
        }
    }
}
