//! What an armed timer costs in memory, at a million: the future, and all that it takes elsewhere.
//! And what eleven of them keep, wherever they lie, when all others are dropped.
//!
//! What counts is what the program asks its allocator for. So this runs in a program of its own,
//! whose allocator counts.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use peak_alloc::PeakAlloc;
use scopeguard::guard;
use tickwheel::{DeadlineMap, DelayMap, Timer};
use tickwheel_util::time::DelayQueue as OurQueue;
use tokio::task::unconstrained;
use tokio_util::time::DelayQueue;

use crate::harness::{Durations, Inner, Record, runtime};
use crate::part::{Build, How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "memory",
    about: "bytes for each armed timer, at 1,000,000, and for eleven that are left",
    state: "Bytes do not depend on what else is armed, so no sleep stands next to the timers. \
            Unlike a server: all of them are armed in one go.",
    how: How::Built {
        program: "tickwheel-bench-memory",
        arguments: "",
        build: Build::SAME,
    },
};

/// Only in a program whose global allocator is a [`PeakAlloc`].
pub fn run(settings: &Settings) -> Vec<Record> {
    let mut records = Vec::new();
    // A row for each, and one for the survivors.
    let mut add = |rows: &[&str], contender, bytes: [f64; 2]| {
        let record = |(row, bytes): (&&str, _)| Record::new(row, contender, vec![bytes]);
        records.extend(rows.iter().zip(bytes).map(record));
    };
    let million = settings.either(1_000_000, 100_000);
    // Storage that doubles holds twice of what it needs just above a power of two, which is
    // 1,048,576.
    let above = settings.either(1_060_000, 106_000);
    for (rows, count) in [
        (&["memory-sleep", "survivors-sleep"][..], million),
        (&["memory-sleep-1060000"], above),
    ] {
        let ours = held(count, || {
            let timer = Timer::current();
            move |after, cx| armed(timer.sleep(after), cx)
        });
        add(rows, name::TICKWHEEL, ours);
        let tokio = held(count, || |after, cx| armed(tokio::time::sleep(after), cx));
        add(rows, name::TOKIO, tokio);
        let pingora = held(count, || {
            |after, cx| armed(pingora_timeout::timeout(after, Inner::<false>), cx)
        });
        add(rows, name::PINGORA, pingora);
        /// Of either crate.
        macro_rules! queue {
            ($queue:ident) => {
                held(count, || {
                    let queue = Rc::new(RefCell::new($queue::new()));
                    move |after, _| {
                        let key = Box::new(queue.borrow_mut().insert((), after));
                        let queue = queue.clone();
                        guard(key, move |key| _ = queue.borrow_mut().remove(&key))
                    }
                })
            };
        }
        add(rows, name::QUEUE, queue!(OurQueue));
        add(rows, name::DELAY_QUEUE, queue!(DelayQueue));
    }
    let delay_map = held(million, || {
        // All of them keep the map and its stream.
        let kept = Arc::new(DelayMap::new(&Timer::current()));
        let mut keys = 0_u64..;
        move |after, _| {
            let (key, kept) = (keys.next().expect("there are more"), kept.clone());
            kept.0.insert(key, key, after).expect("the map is open");
            guard(key, move |key| _ = kept.0.remove(&key))
        }
    });
    let rows = ["memory-delay-map", "survivors-delay-map"];
    add(&rows, name::TICKWHEEL, delay_map);
    let deadline_map = held(million, || {
        let map = DeadlineMap::new(&Timer::current());
        let mut keys = 0_u64..;
        move |after, cx| {
            let key = keys.next().expect("there are more");
            armed(map.insert(key, after).expect("the map is open"), cx)
        }
    });
    let rows = ["memory-deadline-map", "survivors-deadline-map"];
    add(&rows, name::TICKWHEEL, deadline_map);
    let deadline = held(million, || {
        let timer = Timer::current();
        move |after, cx| {
            let deadline = timer.deadline(after);
            let handle = Box::new(deadline.handle());
            (armed(deadline, cx), handle)
        }
    });
    let rows = ["memory-deadline", "survivors-deadline"];
    add(&rows, name::TICKWHEEL, deadline);
    records
}

/// A future in memory of its own, which the allocator counts, polled once.
fn armed<F: Future>(future: F, cx: &mut Context<'_>) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(future.as_mut().poll(cx).is_pending());
    future
}

/// How many are left when the others are dropped.
const SURVIVORS: usize = 11;

/// Makes so many, and drops all but [`SURVIVORS`] of them, in random order. The bytes that the
/// program holds for each, and at the end, besides the list that all are kept in.
fn held<T, A>(count: usize, make: impl FnOnce() -> A) -> [f64; 2]
where
    A: FnMut(Duration, &mut Context<'_>) -> T,
{
    runtime(2).block_on(unconstrained(async {
        let durations = Durations::seconds(300..900);
        let mut arm = make();
        let mut kept = Vec::with_capacity(count);
        poll_fn(|cx| {
            kept.push(arm(durations.get(0), cx)); // What the first one brings about is not of each.
            let before = PeakAlloc.current_usage();
            kept.extend((1..count).map(|index| arm(durations.get(index), cx)));
            let all = PeakAlloc.current_usage() - before;
            fastrand::shuffle(&mut kept);
            kept.truncate(SURVIVORS);
            let left = PeakAlloc.current_usage().saturating_sub(before);
            Poll::Ready([all as f64 / (count - 1) as f64, left as f64])
        })
        .await
    }))
}
