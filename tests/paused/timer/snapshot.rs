//! What a snapshot tells: every timer that stays armed once, also while others come and go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tickwheel::{Duration, Timer};

use crate::common::{HOUR, MS, multi_thread};

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_what_every_level_holds() {
    let timer = Timer::builder().tick(10 * MS).shards(1).build().unwrap();
    let empty = timer.snapshot();
    assert_eq!(empty.pending(), 0);
    assert_eq!(empty.to_string().lines().count(), 2, "no row");
    let deadlines: Vec<_> = [1, 1, 5, 200, 600_000]
        .map(|ticks| timer.deadline(ticks * 10 * MS))
        .into();
    let full = timer.snapshot();
    assert_eq!(full.pending(), 5);
    assert_eq!(
        full.to_string(),
        "\
timers 5, late 0, shards 1, tick 0 of 10ms
level 0: 3 timers in 2 of 128 slots of 10ms, at most 2 in a slot
  .2...1
level 1: 1 timers in 1 of 128 slots of 640ms, at most 1 in a slot
  ...1
level 2: 0 timers in 0 of 128 slots of 40.96s, at most 0 in a slot
level 3: 1 timers in 1 of 128 slots of 2621.44s, at most 1 in a slot
  ..1"
    );
    drop(deadlines);
    assert_eq!(timer.snapshot(), empty);
}

/// Threads arm and drop timers of some milliseconds, which also fire, and move those that stay
/// between one day and two.
#[test]
fn a_snapshot_counts_what_stays_while_threads_arm_and_drop() {
    const STAY: usize = 2_000;
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let runtime = multi_thread(1);
    let timer = Timer::builder().shards(1).build_on(runtime.handle());
    let timer = timer.unwrap();
    // The places of those that stay have others between them.
    let (stay, others): (Vec<_>, Vec<_>) = (0..STAY)
        .map(|_| (timer.deadline(DAY), timer.deadline(DAY)))
        .unzip();
    drop(others);
    let (armed, is_over) = (&AtomicUsize::new(STAY), &AtomicBool::new(false));
    thread::scope(|scope| {
        for seed in 0..2 {
            let (timer, stay) = (&timer, &stay);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut deadlines = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    armed.fetch_add(1, Ordering::SeqCst);
                    deadlines.push(timer.deadline(random.u32(1..20) * MS));
                    if deadlines.len() > random.usize(..3_000) {
                        drop(deadlines.swap_remove(random.usize(..deadlines.len())));
                    }
                    if deadlines.len() > random.usize(..100_000) {
                        deadlines.clear();
                    }
                    let moved = &stay[random.usize(..STAY)];
                    moved.handle().reset_after(DAY + random.u32(..24) * HOUR);
                }
            });
        }
        for _ in 0..100 {
            let snapshot = timer.snapshot();
            let armed = armed.load(Ordering::SeqCst);
            // Nothing else comes to these levels within 9 hours, two rotations of the level below.
            let text = snapshot.to_string();
            let levels = text.lines().filter_map(|line| line.strip_prefix("level "));
            let in_level = |line: &str| line.split(' ').nth(1).unwrap().parse::<usize>().unwrap();
            let stayed: usize = levels.skip(4).map(in_level).sum();
            let counted = snapshot.pending();
            is_over.fetch_or(stayed != STAY || counted > armed, Ordering::Relaxed);
            assert_eq!(stayed, STAY);
            assert!(counted <= armed, "{counted} of {armed} ever armed");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(timer.snapshot().pending(), timer.metrics().pending);
}
