//! The state word of a deadline under loom: every interleaving of resets with expiry, cancel and the others.
//!
//! The crate's own files are compiled here against loom's atomics. A loom mutex stands for the shard's lock.

#![allow(dead_code, unreachable_pub)] // Not every part of the two files is used here.

#[path = "../src/tick.rs"]
mod tick;
#[path = "../src/word.rs"]
mod word;

mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

use std::time::Duration;

use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use tick::{Moment, Span};
use word::{Expiry, Outcome, Reset, Status, Word};

fn span(ticks: u64) -> Span {
    Duration::from_nanos(ticks).into()
}

fn at(tick: u64) -> Moment {
    Moment::after_epoch(Duration::from_nanos(tick))
}

/// A word with a timeout of 10 that counts from 0, and its shard's lock.
#[derive(Clone)]
struct Shared {
    word: Arc<Word>,
    lock: Arc<Mutex<()>>,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            word: Arc::new(Word::new(at(0), span(10))),
            lock: Arc::new(Mutex::new(())),
        }
    }

    fn reset(&self, now: u64) -> JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || match shared.word.reset(at(now)) {
            Reset::Moved => true,
            Reset::TooLate => false,
            Reset::NeedsLock => shared.locked(|word| {
                let pending = matches!(word.expire_if(|due| due <= at(now)), Expiry::Later(_));
                word.reset_locked(at(now));
                pending
            }),
        })
    }

    fn locked<R>(&self, act: impl FnOnce(&Word) -> R) -> R {
        let _guard = self.lock.lock().unwrap();
        act(&self.word)
    }

    /// A turn of the driver at `now`: whether the deadline expired in it.
    fn turn(&self, now: u64) -> bool {
        self.locked(|word| word.expire_if(|due| due <= at(now))) == Expiry::Expired
    }
}

#[test]
fn of_a_reset_and_the_expiry_exactly_one_wins() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(9);
        let expired = shared.turn(10);
        let moved = reset.join().unwrap();
        assert!(moved != expired, "moved: {moved}, expired: {expired}");
        let due = shared.locked(|word| word.due());
        assert_eq!(due, moved.then_some(at(19)));
    });
}

#[test]
fn a_reset_after_the_deadline_comes_too_late_whether_or_not_the_driver_was_there() {
    loom::model(|| {
        let shared = Shared::new();
        let late = shared.reset(10);
        let expired = shared.turn(10);
        assert!(!late.join().unwrap());
        assert!(expired || shared.word.status() == Status::Settled(Outcome::Expired));
    });
}

#[test]
fn of_two_resets_the_later_moment_counts() {
    loom::model(|| {
        let shared = Shared::new();
        let (one, other) = (shared.reset(5), shared.reset(8));
        assert!(!shared.turn(9), "it is due at 10 at the earliest");
        assert!(one.join().unwrap() && other.join().unwrap());
        assert_eq!(shared.locked(|word| word.due()), Some(at(18)));
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
            thread::spawn(move || shared.locked(|word| word.settle(Outcome::Cancelled).is_some()))
        };
        let expired = shared.turn(10);
        let (moved, cancelled) = (reset.join().unwrap(), cancel.join().unwrap());
        assert!(
            cancelled != expired,
            "the reset leaves it pending, so the cancel comes to it"
        );
        assert!(!(moved && expired));
        let outcome = if cancelled {
            Outcome::Cancelled
        } else {
            Outcome::Expired
        };
        assert_eq!(shared.word.status(), Status::Settled(outcome));
    });
}

#[test]
fn a_reset_beside_set_timeout_takes_no_stale_timeout_with_it() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| word.set_timeout(span(8)));
        assert!(reset.join().unwrap());
        assert_eq!(shared.locked(|word| word.due()), Some(at(14)));
    });
}

#[test]
fn a_reset_beside_reset_after_leaves_one_of_the_two_dues() {
    loom::model(|| {
        let shared = Shared::new();
        let reset = shared.reset(6);
        shared.locked(|word| word.reset_once(at(6), at(100)));
        assert!(reset.join().unwrap());
        let due = shared.locked(|word| word.due()).unwrap();
        assert!(due == at(16) || due == at(100), "{due:?}");
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
        assert_eq!(shared.locked(|word| word.due()), Some(at(22)));
    });
}
