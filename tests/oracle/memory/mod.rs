//! Memory follows what is pending, and all of it comes back: the oracle's programs leave none
//! behind, a timer that lives on gives back what it held, each kind costs what it may, and a full
//! map takes no more.
//!
//! It counts what the allocator gives to the whole process. So it is one test, which runs again in
//! a process of its own.

mod counted;
mod kinds;
mod limit;

use std::any::Any;
use std::future::Future;
use std::task::Waker;

use fastrand::Rng;
use tickwheel::{DeadlineMap, DelayMap, Duration, Timer};

use counted::{grown_since, used};

use crate::common::{SECOND, arm, is_alone_in_a_process};
use crate::paused::{program, replay};
use crate::paused_clock::paused;

/// Small stores that an empty timer and its maps may keep, however full they were.
const KEPT: usize = 900_000;

#[test]
fn memory_follows_what_is_pending() {
    if !is_alone_in_a_process("memory::memory_follows_what_is_pending") {
        return;
    }
    programs_leave_nothing_behind();
    (0..2).for_each(|seed| on_paused_clock(fill_and_empty(seed)));
    kinds::wheels_of_large_values();
    on_paused_clock(kinds::timers());
    on_paused_clock(kinds::deadline_map());
    on_paused_clock(kinds::delay_map());
    on_paused_clock(limit::a_refused_insert_allocates_nothing_that_stays());
}

fn on_paused_clock(future: impl Future<Output = ()>) {
    paused().block_on(tokio::task::unconstrained(future));
}

/// What a program of the oracle made is gone with its runtime.
fn programs_leave_nothing_behind() {
    for seed in 0..60 {
        let program = program::random(seed, 120);
        let run = || replay(&program).map(drop);
        assert_eq!(run(), Ok(()), "seed {seed}");
        let before = used();
        assert_eq!(run(), Ok(()), "seed {seed}");
        let grown = grown_since(before);
        assert!(grown < 1_000, "seed {seed}: {grown} bytes are lost");
    }
}

/// Fills a timer and its maps, and empties them from one end or in random order, again and again.
async fn fill_and_empty(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let timer = Timer::builder().build().unwrap();
    let deadlines = DeadlineMap::new(&timer);
    let (values, mut stream) = DelayMap::new(&timer);
    let sleep = |after| {
        let mut sleep = timer.sleep(after);
        arm(&mut sleep, Waker::noop());
        sleep
    };
    // What a program sets up once.
    drop(sleep(SECOND));
    let before = used();
    for round in 0..4 {
        let count = random.u32(60_000..100_000);
        let mut held: Vec<Box<dyn Any>> = Vec::new();
        for number in 0..count {
            let after = Duration::from_micros(random.u64(1_000..40_000_000));
            match random.u8(..4) {
                0 => held.push(Box::new(sleep(after))),
                1 => held.push(Box::new(timer.deadline(after))),
                2 => held.push(Box::new(deadlines.insert(number, after).unwrap())),
                _ => drop(values.insert(number, u64::from(number), after)),
            }
        }
        tokio::time::sleep(random.u32(..30) * SECOND).await;
        match random.u8(..3) {
            0 => random.shuffle(&mut held),
            1 => held.reverse(),
            _ => {}
        }
        for key in 0..random.u32(..count) {
            values.remove(&key);
        }
        drop(held);
        if round % 2 == 0 {
            drop(values.drain());
        } else {
            tokio::time::sleep(50 * SECOND).await;
            while stream.try_recv().is_ok() {}
        }
        // The alarm and the driver find out that nothing is left.
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!((deadlines.len(), values.len()), (0, 0));
        assert_eq!(timer.metrics().pending, 0, "seed {seed}");
        let kept = grown_since(before);
        assert!(
            kept < KEPT,
            "seed {seed}, round {round}: {kept} bytes for {count} that are gone"
        );
    }
}
