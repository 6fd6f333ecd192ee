//! What a timer reports of itself in numbers, each at zero and after each event that counts; and
//! what a snapshot shows.

use std::sync::mpsc;
use std::task::Waker;
use std::thread;

use tickwheel::metrics::Metrics;
use tickwheel::{DeadlineMap, DelayMap, Duration, Instant, ResetHandle, Timer, sleep};
use tokio_test::{assert_pending, task};

use crate::common::{HOUR, MS, arm, current_thread, is_shown_in, poll_once, waker_fn};
use crate::paused_clock::{move_the_clock_only, settle};

#[tokio::test(start_paused = true)]
async fn a_fresh_timer_counts_no_event() {
    let timer = Timer::builder().shards(4).name("fresh").build().unwrap();
    let fresh = timer.metrics();
    assert_eq!((fresh.name(), fresh.shards()), (Some("fresh"), 4));
    let counts = [
        fresh.armed(),
        fresh.fired(),
        fresh.disarmed(),
        fresh.rescheduled(),
    ];
    let troubles = [
        fresh.stalls(),
        fresh.spared(),
        fresh.waker_panics(),
        fresh.rejected_inserts(),
    ];
    assert_eq!(
        (fresh.pending(), fresh.wake_ups(), counts, troubles),
        (0, 0, [0; 4], [0; 4])
    );
    assert_eq!(
        (fresh.stalled(), fresh.fired_lateness_sum()),
        (Duration::ZERO, Duration::ZERO)
    );
    assert!(fresh.fired_within().all(|(_, fired)| fired == 0));
    assert_eq!(Timer::builder().build().unwrap().metrics().name(), None);
}

#[test]
fn a_runtimes_own_timer_has_the_name_of_its_runtime() {
    for name in [None, Some("requests"), Some("jobs")] {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        if let Some(name) = name {
            builder.name(name);
        }
        let runtime = builder.enable_time().build().unwrap();
        let metrics = runtime.block_on(async { Timer::current().metrics() });
        assert_eq!(metrics.name(), name);
    }
}

/// Five timers are due at 10 ms, and one each at 20 and 40 ms. The driver comes at 50 ms.
#[tokio::test(start_paused = true)]
async fn lateness_is_from_the_due_to_the_wake_up() {
    let timer = Timer::builder().build().unwrap();
    let armed = |after| {
        let mut sleep = task::spawn(timer.sleep(after));
        assert_pending!(sleep.poll());
        sleep
    };
    let late: Vec<_> = [10, 10, 10, 10, 10, 20, 40].map(|ms| armed(ms * MS)).into();
    tokio::time::advance(50 * MS).await;
    settle().await;
    assert!(late.iter().all(task::Spawn::is_woken));
    let metrics = timer.metrics();
    assert_eq!(metrics.fired_lateness_sum(), (5 * 40 + 30 + 10) * MS);
    let expected = [0, 0, 0, 0, 1, 2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7];
    let within = |metrics: Metrics| -> Vec<_> {
        let within = metrics.fired_within();
        within.map(|(_, fired)| fired).collect()
    };
    assert_eq!(within(metrics), expected);
    // What is taken out before it fires has no lateness.
    drop(armed(HOUR));
    drop(late);
    assert_eq!(within(timer.metrics()), expected);
}

/// A reset that came while the deadline was already linked at its old tick.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_was_reset_is_late_by_its_last_due() {
    let timer = Timer::builder().build().unwrap();
    let deadline = timer.deadline(20 * MS);
    sleep(10 * MS).await;
    assert!(deadline.handle().reset());
    move_the_clock_only(50 * MS);
    settle().await;
    assert_eq!(deadline.await, Ok(()));
    let late = timer.metrics().fired_lateness_sum();
    assert!(late <= 31 * MS, "{late:?}");
    assert_eq!(timer.metrics().rescheduled(), 0);
}

/// A waker that blocks makes the batches after it late, and they say so.
#[test]
fn timers_behind_a_waker_that_blocks_are_late_by_that() {
    current_thread().block_on(async {
        let timer = Timer::builder().shards(1).build().unwrap();
        let due = Instant::now() + 20 * MS;
        let mut sleeps: Vec<_> = (0..200).map(|_| timer.sleep_until(due)).collect();
        arm(&mut sleeps[0], &waker_fn(|| thread::sleep(300 * MS)));
        sleeps[1..]
            .iter_mut()
            .for_each(|sleep| arm(sleep, Waker::noop()));
        tokio::time::sleep(50 * MS).await;
        let metrics = timer.metrics();
        assert_eq!(metrics.fired(), 200);
        let (end, within_256_ms) = metrics.fired_within().nth(8).unwrap();
        assert_eq!(end, 256 * MS);
        assert!(within_256_ms <= 128, "the waker's batch: {within_256_ms}");
    });
}

#[tokio::test(start_paused = true)]
async fn a_change_without_a_stall_spares_no_deadline() {
    let timer = Timer::builder().build().unwrap();
    let deadline = timer.deadline(20 * MS);
    let handle = deadline.handle();
    assert!(handle.extend(MS) && handle.set_timeout(10 * MS) && handle.reset_after(5 * MS));
    assert_eq!(timer.metrics().spared(), 0);
    assert_eq!(deadline.await, Ok(()));
    assert_eq!(timer.metrics().spared(), 0);
}

/// It falls due while the waker blocks, and the same turn fires it afterwards. On a machine that
/// comes to the first timer only when both are due, one batch holds both, and nothing is shown. Nor
/// is it where the machine has stalled.
#[test]
fn a_timer_due_while_a_waker_blocks_is_late_from_its_due_on() {
    let attempt = || {
        current_thread().block_on(async {
            let timer = Timer::builder().shards(1).build().unwrap();
            let (mut blocks, mut waits) = (timer.sleep(20 * MS), timer.sleep(50 * MS));
            let (sender, began) = mpsc::channel();
            let block = move || {
                sender.send(Instant::now()).unwrap();
                thread::sleep(300 * MS);
            };
            arm(&mut blocks, &waker_fn(block));
            arm(&mut waits, Waker::noop());
            tokio::time::sleep(100 * MS).await;
            // After a stall the timer comes later than tokio's. To wait for it here would block it.
            let began = began.try_recv();
            if began.is_err() || began.is_ok_and(|began| began >= waits.deadline()) {
                return false;
            }
            waits.await;
            let metrics = timer.metrics();
            assert_eq!(metrics.fired(), 2);
            // It is woken 320 ms after it was armed, at the earliest.
            let late = metrics.fired_lateness_sum();
            assert!(late >= 260 * MS, "{late:?}");
            true
        })
    };
    assert!(
        is_shown_in(20, attempt),
        "inconclusive: the machine is too slow"
    );
}

/// It takes no lock, so the timer stays where it is linked until the driver comes. A move to
/// earlier links it again.
#[tokio::test(start_paused = true)]
async fn a_move_to_later_leaves_the_timer_to_the_driver() {
    type Move = fn(&ResetHandle) -> bool;
    let moves: [(Move, u64); 4] = [
        (|handle| handle.reset_after(30 * MS), 1),
        (|handle| handle.reset_at(Instant::now() + 30 * MS), 1),
        (|handle| handle.reset_after(15 * MS), 0),
        (|handle| handle.reset_at(Instant::now() + 15 * MS), 0),
    ];
    for (move_it, rescheduled) in moves {
        let timer = Timer::builder().build().unwrap();
        let deadline = timer.deadline(20 * MS);
        assert!(move_it(&deadline.handle()));
        let due = deadline.handle().deadline().unwrap();
        assert_eq!(deadline.await, Ok(()));
        assert!(Instant::now() >= due && Instant::now() < due + 2 * MS);
        assert_eq!(timer.metrics().rescheduled(), rescheduled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_was_reset_is_rescheduled_once_each_time() {
    let timer = Timer::builder().build().unwrap();
    let deadline = timer.deadline(10 * MS);
    let handle = deadline.handle();
    for round in 0..5 {
        sleep(9 * MS).await;
        let metrics = timer.metrics();
        assert_eq!((metrics.rescheduled(), metrics.wake_ups()), (round, round));
        assert!(handle.reset() && handle.reset());
    }
    assert_eq!(timer.metrics().fired(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_insert_that_is_refused_counts() {
    let timer = Timer::builder().build().unwrap();
    let (values, _stream) = DelayMap::with_limit(&timer, 1);
    let keys = DeadlineMap::with_limit(&timer, 1);
    assert!(values.insert(1, 1, HOUR).is_ok() && values.insert(1, 2, HOUR).is_ok());
    let _kept = keys.insert(1, HOUR).unwrap();
    assert_eq!(timer.metrics().rejected_inserts(), 0);
    assert!(values.insert(2, 2, HOUR).is_err() && keys.insert(2, HOUR).is_err());
    assert!(values.insert_if_absent(2, 2, HOUR).is_err());
    assert_eq!(timer.metrics().rejected_inserts(), 3);
    values.close();
    keys.close();
    assert!(values.insert(1, 1, HOUR).is_err() && keys.insert_if_absent(1, HOUR).is_err());
    assert!(values.insert_if_absent(1, 1, HOUR).is_err());
    assert_eq!(timer.metrics().rejected_inserts(), 6);
}

#[tokio::test(start_paused = true)]
async fn each_waker_that_panics_counts() {
    /// Panics too, when it is dropped.
    struct Payload;

    impl Drop for Payload {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(Payload));
        }
    }

    let timer = Timer::builder().build().unwrap();
    let waker = waker_fn(|| std::panic::resume_unwind(Box::new(Payload)));
    let (mut fired, mut cancelled) = (timer.deadline(MS), timer.deadline(HOUR));
    arm(&mut fired, &waker);
    arm(&mut cancelled, &waker);
    assert_eq!(timer.metrics().waker_panics(), 0);
    assert!(cancelled.handle().cancel());
    assert_eq!(timer.metrics().waker_panics(), 1);
    sleep(5 * MS).await;
    assert_eq!(timer.metrics().waker_panics(), 2);
}

#[test]
fn stalls_count_with_the_time_that_they_took() {
    let runtime = current_thread();
    runtime.block_on(async {
        let timer = Timer::builder().build().unwrap();
        let mut sleep = timer.sleep(20 * MS);
        assert!(poll_once(&mut sleep).is_pending());
        thread::sleep(300 * MS);
        sleep.await;
        let metrics = timer.metrics();
        let (stalled, late) = (metrics.stalled(), metrics.fired_lateness_sum());
        assert!(metrics.stalls() >= 1 && stalled >= 200 * MS && late >= 200 * MS);
        let within_128_ms = metrics.fired_within().nth(7);
        assert_eq!(within_128_ms, Some((128 * MS, 0)));
    });
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_is_reset_to_the_past_has_fired() {
    let timer = Timer::builder().build().unwrap();
    tokio::time::advance(10 * MS).await;
    let mut sleep = timer.sleep(HOUR);
    assert!(poll_once(&mut sleep).is_pending());
    sleep.reset_at(tickwheel::Instant::now() - 5 * MS);
    sleep.await;
    let metrics = timer.metrics();
    assert_eq!((metrics.fired(), metrics.disarmed()), (1, 0));
}

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
