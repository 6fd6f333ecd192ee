//! The promises of a shard beside others, at moments that a whole timer seldom meets.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::word::MapTag;
use super::*;
use crate::clock::tick::TickLength;
use crate::sync::try_lock;

const MS: Duration = Duration::from_millis(1);

/// Two wakers without data differ by their functions alone.
#[test]
fn wakers_of_the_same_data_are_told_apart() {
    let (one, other) = (Waker::noop(), futures::task::noop_waker());
    assert_eq!(one.data(), other.data());
    assert!(WakerId::of(one) != WakerId::of(&other));
}

struct NoDriver;

impl TurnRequests for NoDriver {
    fn request_turn(&self, _: ExpiryChange, _: &ShardTick) {}

    fn wake(&self, waker: Waker) {
        waker.wake();
    }
}

fn shard_of(driver: Arc<dyn TurnRequests>) -> Shard {
    let tick = TickLength::new(MS).unwrap();
    Shard::new(Arc::new(Clock::of_system(tick, true)), driver, 0)
}

fn shard() -> Shard {
    shard_of(Arc::new(NoDriver))
}

fn at(ms: u32) -> Moment {
    Moment::after_epoch(ms * MS)
}

/// A thread that waits for the lock as the runtime ends would arm a timer that never fires.
#[test]
fn a_thread_that_waits_while_a_shard_is_closed_arms_nothing() {
    let shard = shard();
    let clock = shard.clock();
    let far = Tick::new(1 << 40);
    thread::scope(|scope| {
        let guard = lock(&shard.state);
        let arming = scope.spawn(|| shard.arm(far, Waker::noop().clone()));
        let word = scope.spawn(|| {
            let word = shard.arm_deadline(clock.now(), 50 * MS, MapTag::default());
            word.outcome()
        });
        thread::sleep(50 * MS);
        clock.end(clock.now());
        drop(guard);
        assert_eq!(arming.join().unwrap(), None);
        assert_eq!(word.join().unwrap(), Poll::Ready(Err(Cancelled::SHUTDOWN)));
    });
    assert_eq!(shard.counts().pending, 0);
}

/// It had passed, and is not to be told that it expires right after its restart.
#[test]
fn a_restart_after_the_end_finds_no_expiry_before_it() {
    let shard = Arc::new(shard());
    let word = shard.arm_deadline(Moment::before_epoch(MS), MS, MapTag::default());
    let (shard, word) = (&shard, &word);
    shard.clock().end(at(0));
    DeadlineRef { shard, word }.restart();
    assert_eq!(word.outcome(), Poll::Ready(Err(Cancelled::SHUTDOWN)));
    assert_eq!(shard.counts().pending, 0);
}

/// The driver was to come at 300 ms, and comes at 500.
#[test]
fn a_spared_deadline_is_late_from_the_end_of_its_grace_on() {
    let shard = shard();
    let word = shard.arm_deadline(at(0), 100 * MS, MapTag::default());
    let stalls = shard.clock().stalls();
    stalls.wait_from(Tick::new(100));
    assert!(stalls.turn_begins(at(400), || false).is_some());
    let mut wakers = Vec::new();
    shard.fire_batch(Tick::new(400), at(400), Tick::new(100), &mut wakers);
    let counts = shard.counts();
    assert_eq!((counts.spared, counts.rescheduled), (1, 0));
    assert_eq!(word.outcome(), Poll::Pending);
    shard.fire_batch(Tick::new(500), at(503), Tick::new(300), &mut wakers);
    assert_eq!(shard.counts().fired.sum, 3_000_000);
}

/// The clock stands at a minute, and the stall went from 20 to 59 seconds.
#[test]
fn a_spared_deadline_counts_once_whether_a_call_or_the_driver_finds_it() {
    for is_found_by_driver in [false, true] {
        let epoch = Instant::now().checked_sub(60_000 * MS).unwrap();
        let clock = Clock::new(None, TickLength::new(MS).unwrap(), epoch, true);
        let shard = Arc::new(Shard::new(Arc::new(clock), Arc::new(NoDriver), 0));
        let word = shard.arm_deadline(at(0), 50_000 * MS, MapTag::default());
        let stalls = shard.clock().stalls();
        stalls.wait_from(Tick::new(20_000));
        assert!(stalls.turn_begins(at(59_000), || false).is_some());
        stalls.wait_from(Tick::NEVER);
        if is_found_by_driver {
            let now = Tick::new(59_500);
            shard.fire_batch(now, at(59_500), now, &mut Vec::new());
        }
        let (shard, word) = (&shard, &word);
        for _ in 0..2 {
            // To before its due, which stays.
            assert!(DeadlineRef { shard, word }.change(Change::ResetFrom(at(0))));
        }
        assert_eq!(shard.counts().spared, 1, "{is_found_by_driver}");
        assert_eq!(word.due(), Some(Tick::new(50_000)));
    }
}

#[test]
fn a_timer_armed_for_the_past_is_late_from_the_turn_set() {
    let shard = shard();
    shard.arm(Tick::new(50), Waker::noop().clone()).unwrap();
    let mut wakers = Vec::new();
    shard.fire_batch(Tick::new(80), at(80), Tick::new(78), &mut wakers);
    assert_eq!((wakers.len(), shard.counts().fired.sum), (1, 2_000_000));
}

/// The driver would not come before the first of them is due, and then move all of them at once.
#[test]
fn a_slot_that_becomes_crowded_brings_the_driver_early() {
    let start = 5 * 4_096;
    for are_deadlines in [false, true] {
        let shard = shard();
        for due in (0..300).map(|number| start + 4 * number) {
            if are_deadlines {
                shard.arm_deadline(at(0), due * MS, MapTag::default());
            } else {
                let waker = Waker::noop().clone();
                shard.arm(Tick::new(due.into()), waker).unwrap();
            }
        }
        let (start, expiry) = (u64::from(start), shard.next_expiry());
        assert!(expiry <= Tick::new(start - 4_096), "{expiry:?}");
        // There it finds out when the slot has to be emptied.
        let mut wakers = Vec::new();
        assert!(shard.fire_batch(expiry, at(0), expiry, &mut wakers));
        let next = shard.next_expiry();
        assert!(expiry < next && next < Tick::new(start) && wakers.is_empty());
    }
}

#[test]
fn a_timer_is_due_by_its_true_due() {
    let shard = shard();
    let arm = |tick| shard.arm(Tick::new(tick), Waker::noop().clone()).unwrap();
    let due_by = |tick| shard.count_due(Tick::new(tick));
    // The first timer of a coarse slot is not the one that is due first.
    let keys = [3, 5, 64, 70, 5_040, 5_000, 600_000].map(arm);
    let counts = [2, 3, 63, 64, 69, 70, 4_999, 5_000, 700_000].map(due_by);
    assert_eq!(counts, [0, 1, 2, 3, 3, 4, 4, 5, 7].map(Some));
    shard.defer(keys[0], Tick::new(100)).unwrap();
    shard.disarm(keys[1]);
    assert_eq!([99, 100].map(due_by), [2, 3].map(Some));
    let many: Vec<_> = (0..10_000).map(|_| arm(50)).collect();
    assert_eq!(due_by(49), Some(0));
    assert_eq!(due_by(50), None, "too many to look at");
    drop(many);
}

/// The drop of a task's last waker drops its timers, which takes the lock.
#[test]
fn a_waker_that_is_replaced_is_dropped_under_no_lock() {
    struct TakesLock(Arc<Shard>);
    impl Wake for TakesLock {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for TakesLock {
        fn drop(&mut self) {
            assert!(try_lock(&self.0.state).is_some());
        }
    }
    let shard = Arc::new(shard());
    let waker = Waker::from(Arc::new(TakesLock(shard.clone())));
    let key = shard.arm(Tick::new(1 << 40), waker).unwrap();
    assert!(shard.register_waker(key, Waker::noop()).is_some());
    assert_eq!(Arc::strong_count(&shard), 1, "it was dropped");
}

#[test]
fn a_timer_that_is_disarmed_holds_its_word_no_longer() {
    let shard = Arc::new(shard());
    let word = shard.arm_deadline(shard.clock().now(), 3_600_000 * MS, MapTag::default());
    let (shard, word) = (&shard, &word);
    DeadlineRef { shard, word }.cancel_unawaited();
    assert_eq!(Arc::strong_count(word), 1);
}
