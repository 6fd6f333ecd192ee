//! The state word of a deadline: every interleaving of resets with expiry, cancel and the others.
//!
//! The shard's lock guards the tick at which the timer is linked.

use std::task::Poll;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use crate::clock::tick::{Moment, TickLength};
use crate::error::Cancelled;
use crate::shard::lock::ShardLock;
use crate::shard::word::{EXPIRED, Expiry, LockedWord, MapTag, Word};

fn span(ticks: u64) -> Duration {
    Duration::from_nanos(ticks)
}

fn nanosecond() -> TickLength {
    TickLength::new(Duration::from_nanos(1)).unwrap()
}

fn at(tick: u64) -> Moment {
    Moment::after_epoch(span(tick))
}

fn due_tick(word: LockedWord<'_>) -> Option<u64> {
    word.due().map(|due| nanosecond().due(due).get())
}

/// A word with a timeout of 10 that counts from 0, and its shard's lock.
#[derive(Clone)]
struct Shared {
    word: Arc<Word>,
    /// What it holds is the tick at which the timer is linked.
    lock: Arc<ShardLock<u64>>,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            word: Arc::new(Word::new(at(0), span(10), MapTag::default())),
            lock: Arc::new(ShardLock::new(10)),
        }
    }

    /// A reset as a handle does it.
    fn reset(&self, now: u64) -> JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || {
            let by_lock = |word: LockedWord<'_>| {
                let expiry = word.expire_if(|due| due <= at(now));
                word.restart_from(at(now));
                matches!(expiry, Expiry::Later(_))
            };
            shared.word.reset(at(now), at(now)) || shared.locked(by_lock)
        })
    }

    /// With the lock held. Whatever was done, the timer is then linked at the due.
    fn locked<R>(&self, act: impl FnOnce(LockedWord<'_>) -> R) -> R {
        let mut guard = self.lock.lock();
        let (linked, held) = guard.split();
        let word = self.word.locked(held);
        let done = act(word);
        if let Some(due) = due_tick(word) {
            *linked = due;
        }
        done
    }

    fn assert_linked_in_time(&self) {
        let guard = self.lock.lock();
        let due = due_tick(self.word.locked(guard.held())).unwrap();
        let linked = *guard;
        assert!(linked <= due, "linked at {linked}, due at {due}");
    }

    /// A turn of the driver: whether the deadline expired in it.
    fn turn(&self, now: u64) -> bool {
        let expiry = self.locked(|word| word.expire_if(|due| due <= at(now)));
        matches!(expiry, Expiry::Expired(_))
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
        assert_eq!(shared.locked(due_tick), moved.then_some(19));
    });
}

#[test]
fn a_reset_after_the_deadline_comes_too_late_whether_or_not_the_driver_was_there() {
    loom::model(|| {
        let shared = Shared::new();
        let late = shared.reset(10);
        let expired = shared.turn(10);
        assert!(!late.join().unwrap());
        assert!(expired || shared.word.outcome() == Poll::Ready(EXPIRED));
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
        assert_eq!(shared.locked(due_tick), Some(18));
        assert!(!shared.turn(17));
        assert!(shared.turn(18));
    });
}

#[test]
fn of_a_cancel_and_the_expiry_exactly_one_wins_whatever_a_reset_does() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(9);
        let cancel = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.locked(|word| word.settle(at(9), Err(Cancelled::BY_HANDLE)).is_some())
            })
        };
        let expired = shared.turn(10);
        let (moved, cancelled) = (reset.join().unwrap(), cancel.join().unwrap());
        assert!(
            cancelled != expired,
            "the reset leaves it pending, so the cancel comes to it"
        );
        assert!(!(moved && expired));
        let outcome = if cancelled {
            Err(Cancelled::BY_HANDLE)
        } else {
            EXPIRED
        };
        assert_eq!(shared.word.outcome(), Poll::Ready(outcome));
    });
}

#[test]
fn a_reset_beside_set_timeout_takes_no_stale_timeout_with_it() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| word.set_timeout(span(8)));
        assert!(reset.join().unwrap());
        assert_eq!(shared.locked(due_tick), Some(14));
    });
}

#[test]
fn a_reset_beside_reset_after_leaves_one_of_the_two_dues() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| word.set_once(|_| at(100)));
        assert!(reset.join().unwrap());
        let due = shared.locked(due_tick).unwrap();
        assert!(due == 16 || due == 100, "{due}");
    });
}

/// Fails when `set_once` stores the word in place of the exchange.
#[test]
fn an_extension_beside_a_reset_extends_the_due_before_or_after_it() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| word.set_once(|due| due.after(span(100))));
        assert!(reset.join().unwrap());
        // The reset comes last, or the extension, of either due.
        let due = shared.locked(due_tick).unwrap();
        assert!([16, 116].contains(&due), "{due}");
        shared.assert_linked_in_time();
    });
}

#[test]
fn a_reset_beside_a_restart_never_moves_it_back() {
    loom::model(|| {
        let shared = Shared::new();
        assert!(shared.turn(10));
        let reset = shared.reset(11);
        shared.locked(|word| word.restart(at(12)));
        reset.join().unwrap();
        assert_eq!(shared.locked(due_tick), Some(22));
    });
}
