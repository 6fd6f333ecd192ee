//! The state word of a deadline: every interleaving of resets with expiry, cancel and the others.
//!
//! The shard's lock guards the tick at which the timer is linked.

use std::task::Poll;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use crate::clock::tick::{Moment, Tick, TickLength};
use crate::error::Cancelled;
use crate::shard::decision::{Change, Decision};
use crate::shard::lock::LockHeld;
use crate::shard::word::{EXPIRED, LockedWord, MapTag, Word};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// All times are whole ticks.
fn span(ticks: u64) -> Duration {
    Duration::from_millis(ticks)
}

fn at(tick: u64) -> Moment {
    Moment::after_epoch(span(tick))
}

fn due(word: LockedWord<'_>) -> Option<u64> {
    word.due().map(Tick::get)
}

fn tick() -> TickLength {
    TickLength::new(span(1)).unwrap()
}

/// A call as `DeadlineRef::change` makes it, without a stall. Returns whether it is in time.
fn change(word: LockedWord<'_>, change: Change, now: u64) -> bool {
    let timeout = word.timeout();
    let changed = word.change(change.timeout(), |due| {
        change.decide(due, timeout, at(now), tick(), |_, _| None)
    });
    changed.is_some_and(|changed| !matches!(changed.found, Decision::Fire(_)))
}

/// A word that is due at 10 and has a timeout of 10, and its shard's lock.
#[derive(Clone)]
struct Shared {
    word: Arc<Word>,
    /// Guards the tick at which the timer is linked.
    lock: Arc<Mutex<u64>>,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            word: Arc::new(Word::new(Tick::new(10), span(10), MapTag::default())),
            lock: Arc::new(Mutex::new(10)),
        }
    }

    /// A reset as a handle does it.
    fn reset(&self, now: u64) -> JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || {
            let by_lock = |word: LockedWord<'_>| change(word, Change::ResetFrom(at(now)), now);
            shared.word.reset(tick(), at(now), at(now)) || shared.locked(by_lock)
        })
    }

    /// A move to a later tick as a handle does it.
    fn postpone(&self, now: u64, to: u64) -> JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || {
            let by_lock = |word: LockedWord<'_>| change(word, Change::MoveTo(at(to)), now);
            shared.word.postpone_to(tick(), at(now), at(to)) || shared.locked(by_lock)
        })
    }

    /// With the lock held. Whatever was done, the timer is then linked at the due.
    fn locked<R>(&self, act: impl FnOnce(LockedWord<'_>) -> R) -> R {
        let mut guard = lock(&self.lock);
        let (linked, held) = LockHeld::split(&mut guard);
        let word = self.word.locked(held);
        let done = act(word);
        if let Some(due) = due(word) {
            *linked = due;
        }
        done
    }

    fn assert_linked_in_time(&self) {
        let guard = lock(&self.lock);
        let due = due(self.word.locked(LockHeld::by(&guard))).unwrap();
        let linked = *guard;
        assert!(linked <= due, "linked at {linked}, due at {due}");
    }

    /// A turn of the driver: whether the deadline expired in it.
    fn turn(&self, now: u64) -> bool {
        let decision = self.locked(|word| word.expire_if(|due| due.get() <= now));
        matches!(decision, Some(Decision::Fire(_)))
    }
}

/// Fails when a reset stores the word in place of the exchange.
#[test]
fn of_a_reset_and_the_expiry_exactly_one_wins() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(9);
        let expired = shared.turn(10);
        let moved = reset.join().unwrap();
        assert!(moved != expired, "moved: {moved}, expired: {expired}");
        assert_eq!(shared.locked(due), moved.then_some(19));
    });
}

/// W3. Fails when a reset does not look whether the deadline is due.
#[test]
fn a_reset_after_the_deadline_fails_though_the_driver_comes_later() {
    loom::model(|| {
        let shared = Shared::new();
        let [reset, postponed] = [shared.reset(10), shared.postpone(10, 30)];
        shared.turn(10);
        assert!(!reset.join().unwrap() && !postponed.join().unwrap());
        assert_eq!(shared.locked(due), None);
    });
}

/// Fails when a move to later stores the word in place of the exchange.
#[test]
fn of_a_move_to_later_and_the_expiry_exactly_one_wins() {
    loom::model(|| {
        let shared = Shared::new();
        let moved = shared.postpone(9, 30);
        let expired = shared.turn(10);
        let moved = moved.join().unwrap();
        assert!(moved != expired, "moved: {moved}, expired: {expired}");
        assert_eq!(shared.locked(due), moved.then_some(30));
    });
}

/// Fails when a move answers `true` and leaves a due that lies beyond it.
#[test]
fn a_move_beside_a_reset_takes_effect_before_it_or_after_it() {
    loom::model(|| {
        let shared = Shared::new();
        let (moved, reset) = (shared.postpone(5, 15), shared.reset(8));
        assert!(moved.join().unwrap() && reset.join().unwrap());
        let due = shared.locked(due).unwrap();
        assert!([15, 18].contains(&due), "{due}");
        shared.assert_linked_in_time();
    });
}

/// Fails when a reset replaces a later moment by an earlier one.
#[test]
fn of_two_resets_the_later_one_counts() {
    loom::model(|| {
        let shared = Shared::new();
        let (one, other) = (shared.reset(5), shared.reset(8));
        assert!(!shared.turn(9), "it is due at 10 at the earliest");
        assert!(one.join().unwrap() && other.join().unwrap());
        assert_eq!(shared.locked(due), Some(18));
        assert!(!shared.turn(17));
        assert!(shared.turn(18));
    });
}

/// Fails when `change` leaves the version as it is, when it writes the timeout after that, or when
/// a reset reads the timeout before the word.
#[test]
fn a_reset_beside_set_timeout_takes_no_stale_timeout_with_it() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| change(word, Change::SetTimeout(span(3)), 7));
        assert!(reset.join().unwrap());
        // The reset came after the change, or the change made its due earlier again.
        let after = shared.locked(due).unwrap();
        assert!(after <= 10, "{after}: no later reset makes it earlier");
        shared.assert_linked_in_time();
    });
}

/// The state is the same in the end, but for its version. Fails when a restart does not keep that.
#[test]
fn a_stale_timeout_does_not_outlive_a_cancel_and_a_restart() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| {
            word.end(EXPIRED);
            change(word, Change::SetTimeout(span(3)), 7);
            word.restart(Tick::new(10));
        });
        reset.join().unwrap();
        let due = shared.locked(due).unwrap();
        assert_eq!(due, 10);
    });
}

/// Fails when a reset that moves nothing does not load the word again, or when the timeout is read
/// or written with `Relaxed`.
#[test]
fn a_timeout_set_after_the_end_makes_no_reset_succeed() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(9);
        let expired = shared.turn(10);
        shared.locked(|word| change(word, Change::SetTimeout(span(1)), 10));
        let moved = reset.join().unwrap();
        assert!(moved != expired, "moved: {moved}, expired: {expired}");
    });
}

/// Fails when `change` sets the timeout before a deadline that is due fires.
#[test]
fn a_timeout_that_comes_too_late_makes_no_reset_succeed() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| change(word, Change::SetTimeout(span(1)), 10));
        let (moved, due) = (reset.join().unwrap(), shared.locked(due));
        // A reset that was in time has moved it, and then the change came in time, too.
        assert_eq!(moved, due.is_some(), "moved: {moved}, due: {due:?}");
    });
}

/// Fails when `change` stores the word in place of the exchange.
#[test]
fn an_extension_beside_a_reset_extends_either_due() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| change(word, Change::Extend(span(3)), 6));
        assert!(reset.join().unwrap());
        // The reset comes first, or it moves what was extended to 13.
        let due = shared.locked(due).unwrap();
        assert!([16, 19].contains(&due), "{due}");
        shared.assert_linked_in_time();
    });
}

/// W4. Fails when a reset replaces a later due by an earlier one.
#[test]
fn a_reset_beside_a_restart_never_moves_it_back() {
    loom::model(|| {
        let shared = Shared::new();
        assert!(shared.turn(10));
        let reset = shared.reset(11);
        shared.locked(|word| word.restart(Tick::new(22)));
        reset.join().unwrap();
        assert_eq!(shared.locked(due), Some(22));
    });
}

/// Fails when the task looks at the due before it registers, or asks for the wake-up after that.
#[test]
fn a_move_to_earlier_is_seen_or_wakes_the_task() {
    loom::model(|| {
        let shared = Shared::new();
        // Read and written under the lock.
        let is_registered = Arc::new(AtomicBool::new(false));
        let (moved, registered) = (shared.clone(), is_registered.clone());
        let moves = thread::spawn(move || {
            moved.locked(|word| {
                change(word, Change::MoveTo(at(5)), 0);
                word.wakes_if_earlier() && registered.load(Ordering::Relaxed)
            })
        });
        shared.word.wake_if_earlier();
        shared.locked(|_| is_registered.store(true, Ordering::Relaxed));
        let seen = shared.locked(due);
        let is_woken = moves.join().unwrap();
        assert!(
            is_woken || seen == Some(5),
            "woken: {is_woken}, seen: {seen:?}"
        );
    });
}
