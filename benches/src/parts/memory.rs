//! What an armed timer costs in memory, at a million: the future, and all that it takes elsewhere.
//! What counts is what the program asks its allocator for. So this runs in a program of its own,
//! whose allocator counts.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use peak_alloc::PeakAlloc;
use tickwheel::{DeadlineMap, DelayMap, Timer};
use tokio::task::unconstrained;
use tokio_util::time::DelayQueue;

use super::{How, Part, name};
use crate::conductor::cargo_run;
use crate::harness::{Durations, Never, Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "memory",
    about: "bytes for each armed timer, at 1,000,000",
    how: How::Built(build),
};

fn build() -> Command {
    let mut command = cargo_run(env!("CARGO_MANIFEST_DIR"), "tickwheel-bench-memory", "");
    command.arg("--");
    command
}

/// Only in a program whose global allocator is a [`PeakAlloc`].
pub fn run(settings: &Settings) -> Vec<Record> {
    let count = settings.either(1_000_000, 100_000);
    let record = |row, name, bytes: f64| Record::new(row, name, vec![bytes]);
    let sleep = |name, bytes| record("memory-sleep", name, bytes);
    vec![
        sleep(name::TICKWHEEL, {
            bytes_for_each(count, || {
                let timer = Timer::current();
                move |after, cx| armed(timer.sleep(after), cx)
            })
        }),
        sleep(name::TOKIO, {
            bytes_for_each(count, || |after, cx| armed(tokio::time::sleep(after), cx))
        }),
        sleep(name::PINGORA, {
            bytes_for_each(count, || {
                |after, cx| armed(pingora_timeout::timeout(after, Never), cx)
            })
        }),
        sleep(name::DELAY_QUEUE, {
            bytes_for_each(count, || {
                let mut queue = DelayQueue::new();
                move |after, _| Box::new(queue.insert((), after))
            })
        }),
        record("memory-delay-map", name::TICKWHEEL, {
            bytes_for_each(count, || {
                let (map, expirations) = DelayMap::new(&Timer::current());
                let mut key = 0_u64;
                // All of them keep the map and its stream.
                let kept = Arc::new(expirations);
                move |after, _| {
                    key += 1;
                    map.insert(key, key, after).expect("the map is open");
                    kept.clone()
                }
            })
        }),
        record("memory-deadline-map", name::TICKWHEEL, {
            bytes_for_each(count, || {
                let map = DeadlineMap::new(&Timer::current());
                let mut key = 0_u64;
                move |after, cx| {
                    key += 1;
                    armed(map.insert(key, after).expect("the map is open"), cx)
                }
            })
        }),
        record("memory-deadline", name::TICKWHEEL, {
            bytes_for_each(count, || {
                let timer = Timer::current();
                move |after, cx| {
                    let deadline = timer.deadline(after);
                    let handle = Box::new(deadline.handle());
                    (armed(deadline, cx), handle)
                }
            })
        }),
    ]
}

/// A future in memory of its own, which the allocator counts, polled once.
fn armed<F: Future>(future: F, cx: &mut Context<'_>) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    assert!(future.as_mut().poll(cx).is_pending());
    future
}

/// How much memory the program holds for each of the things that are made, besides the list that
/// they are kept in.
fn bytes_for_each<T, A>(count: usize, make: impl FnOnce() -> A) -> f64
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
            let used = PeakAlloc.current_usage() - before;
            Poll::Ready(used as f64 / (count - 1) as f64)
        })
        .await
    }))
}
