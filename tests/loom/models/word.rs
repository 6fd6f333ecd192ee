//! The state word of a deadline: every interleaving of resets with expiry, cancel and the others.
//!
//! A loom mutex stands for the shard's lock. It holds the tick at which the timer is linked.

use std::time::Duration;

use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use crate::shard::lock_held;
use crate::shard::locked_word::LockedWord;
use crate::shard::word::{Expiry, Outcome, Reset, Status, Word};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::stamp::{Due, Stamp, StampedDue, Start, WINDOW};
use crate::time::tick::{Moment, TickLength};

fn span(ticks: u64) -> Duration {
    Duration::from_nanos(ticks)
}

fn nanosecond() -> TickLength {
    TickLength::new(Duration::from_nanos(1)).unwrap()
}

fn stamp_of(start: Start) -> Option<Stamp> {
    match start {
        Start::At(_) => None,
        Start::Stamp(stamp) => Some(stamp),
    }
}

/// Whether a due has passed at a tick; the window of a stamp has ended in time.
fn has_passed(due: Due, tick: u64) -> bool {
    due.scheduled_tick(nanosecond()) <= tick
}

fn due_tick(word: LockedWord<'_>) -> Option<u64> {
    word.due().map(|due| due.scheduled_tick(nanosecond()))
}

fn at(tick: u64) -> Moment {
    Moment::after_epoch(Duration::from_nanos(tick))
}

/// A word with a timeout of 10 that counts from 0, and its shard's lock.
#[derive(Clone)]
struct Shared {
    word: Arc<Word>,
    /// What it holds is the tick at which the timer is linked.
    lock: Arc<Mutex<u64>>,
}

impl Shared {
    fn new(start: Start) -> Shared {
        let word = Arc::new(Word::new(start, span(10), nanosecond()));
        let linked = due_tick(word.locked(&lock_held())).unwrap();
        Shared {
            word,
            lock: Arc::new(Mutex::new(linked)),
        }
    }

    /// A reset as a handle does it; a stamp is taken at the beginning of its tick. If the start
    /// cannot be compared with what the word holds, `fresh` is what the driver says by then.
    fn reset_with(&self, start: Start, fresh: Start) -> JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(
            move || match shared.word.reset(start, || fresh, nanosecond()) {
                Reset::Moved => true,
                Reset::TooLate => false,
                Reset::MovedUnlinked => panic!("only one that is set once is linked anew"),
                Reset::NeedsLock => shared.locked(|word| {
                    let now = match fresh {
                        Start::At(moment) => nanosecond().current(moment),
                        Start::Stamp(stamp) => stamp.tick(),
                    };
                    let looked = word.expire_if(|due| has_passed(due, now));
                    word.reset(|| fresh);
                    matches!(looked, Expiry::Later(_))
                }),
            },
        )
    }

    fn reset(&self, start: Start) -> JoinHandle<bool> {
        self.reset_with(start, start)
    }

    /// Sets the due for once, as a handle does it.
    fn reset_once(&self, start: Start, due: Due) -> JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || {
            let published = move || stamp_of(start);
            match shared.word.reset_once(start, due, published, nanosecond()) {
                Reset::Moved => true,
                Reset::MovedUnlinked => shared.locked(|_| true),
                Reset::TooLate => false,
                Reset::NeedsLock => shared.locked(|word| {
                    let now = match start {
                        Start::At(moment) => nanosecond().current(moment),
                        Start::Stamp(stamp) => stamp.tick(),
                    };
                    let looked = word.expire_if(|due| has_passed(due, now));
                    word.reset_once(due);
                    matches!(looked, Expiry::Later(_))
                }),
            }
        })
    }

    /// With the lock held. Whatever was done, the timer is then linked at the due.
    fn locked<R>(&self, act: impl FnOnce(LockedWord<'_>) -> R) -> R {
        let mut linked = self.lock.lock().unwrap();
        let held = lock_held();
        let word = self.word.locked(&held);
        let done = act(word);
        if let Some(due) = due_tick(word) {
            *linked = due;
        }
        done
    }

    fn assert_linked_in_time(&self) {
        let linked = self.lock.lock().unwrap();
        let due = due_tick(self.word.locked(&lock_held())).unwrap();
        let linked = *linked;
        assert!(linked <= due, "linked at {linked}, due at {due}");
    }

    /// A turn of the driver: whether the deadline expired in it.
    fn turn(&self, now: u64) -> bool {
        self.locked(|word| word.expire_if(|due| has_passed(due, now))) == Expiry::Expired
    }
}

/// Runs a model for a driver that rests, whose callers read the clock, and for one that ticks. A
/// deadline that counts from tick 0 is due `due` at 10 or, by a stamp, two ticks later.
fn in_both_modes(model: impl Fn(fn(u64) -> Start, u64) + Sync + Send + Copy + 'static) {
    loom::model(move || model(|tick| Start::At(at(tick)), 0));
    loom::model(move || model(|tick| Start::Stamp(Stamp::of(tick)), WINDOW));
}

#[test]
fn of_a_reset_and_the_expiry_exactly_one_wins() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(0));
        let reset = shared.reset(start(9));
        let expired = shared.turn(10 + later);
        let moved = reset.join().unwrap();
        assert!(moved != expired, "moved: {moved}, expired: {expired}");
        assert_eq!(shared.locked(due_tick), moved.then_some(19 + later));
    });
}

#[test]
fn a_reset_after_the_deadline_comes_too_late_whether_or_not_the_driver_was_there() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(0));
        let late = shared.reset(start(10 + later));
        let expired = shared.turn(10 + later);
        assert!(!late.join().unwrap());
        assert!(expired || shared.word.status() == Status::Settled(Outcome::Expired));
    });
}

#[test]
fn of_two_resets_the_later_one_counts() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(0));
        let (one, other) = (shared.reset(start(5)), shared.reset(start(8)));
        assert!(!shared.turn(9 + later), "it is due at 10 at the earliest");
        assert!(one.join().unwrap() && other.join().unwrap());
        assert_eq!(shared.locked(due_tick), Some(18 + later));
        assert!(!shared.turn(17 + later));
        assert!(shared.turn(18 + later));
    });
}

/// The driver goes to rest, or to tick, while one reset is on its way with an old start and another
/// comes with a new one. The old one must not undo the new one.
#[test]
fn a_reset_that_was_overtaken_by_a_change_of_mode_does_not_undo_a_newer_one() {
    // Ticking at 3, then resting: the newer reset is at moment 8, and a fresh start is no earlier.
    loom::model(|| {
        let shared = Shared::new(Start::Stamp(Stamp::of(1)));
        let old = shared.reset_with(Start::Stamp(Stamp::of(3)), Start::At(at(8)));
        let new = shared.reset_with(Start::At(at(8)), Start::At(at(8)));
        assert!(old.join().unwrap() && new.join().unwrap());
        assert_eq!(shared.locked(due_tick), Some(18));
    });
    // Resting at moment 3, then ticking: the newer reset is at stamp 8.
    loom::model(|| {
        let shared = Shared::new(Start::At(at(1)));
        let old = shared.reset_with(Start::At(at(3)), Start::Stamp(Stamp::of(8)));
        let new = shared.reset_with(Start::Stamp(Stamp::of(8)), Start::Stamp(Stamp::of(8)));
        assert!(old.join().unwrap() && new.join().unwrap());
        assert_eq!(shared.locked(due_tick), Some(20));
    });
}

#[test]
fn of_a_cancel_and_the_expiry_exactly_one_wins_whatever_a_reset_does() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(0));
        let reset = shared.reset(start(9));
        let cancel = {
            let shared = shared.clone();
            thread::spawn(move || shared.locked(|word| word.settle(Outcome::Cancelled).is_some()))
        };
        let expired = shared.turn(10 + later);
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
    in_both_modes(|start, later| {
        let shared = Shared::new(start(0));
        let reset = shared.reset(start(6));
        shared.locked(|word| word.set_timeout(span(8), nanosecond()));
        assert!(reset.join().unwrap());
        assert_eq!(shared.locked(due_tick), Some(14 + later));
    });
}

#[test]
fn a_reset_beside_reset_after_leaves_one_of_the_two_dues() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(0));
        let reset = shared.reset(start(6));
        shared.locked(|word| word.reset_once(Due::At(at(100))));
        assert!(reset.join().unwrap());
        let due = shared.locked(due_tick).unwrap();
        assert!(due == 16 + later || due == 100, "{due}");
    });
}

/// Fails when `extend` stores the word in place of the exchange.
#[test]
fn an_extension_beside_a_reset_extends_the_due_before_or_after_it() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(0));
        let reset = shared.reset(start(6));
        let by = Duration::from_nanos(100);
        shared.locked(|word| word.extend(by, |stamp| at(stamp.window_end()), nanosecond()));
        assert!(reset.join().unwrap());
        // The reset comes last, or the extension, of either due.
        let due = shared.locked(due_tick).unwrap();
        assert!([16, 116].map(|due| due + later).contains(&due), "{due}");
        shared.assert_linked_in_time();
    });
}

/// So many ticks after a start, for once.
fn once(start: Start, ticks: u64) -> Due {
    match start {
        Start::At(moment) => Due::At(moment.after(span(ticks).into())),
        Start::Stamp(stamp) => Due::Stamped(StampedDue::new(stamp, ticks)),
    }
}

/// Fails when `reset_once` stores the word in place of the exchange.
#[test]
fn of_a_reset_after_and_the_expiry_exactly_one_wins() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(1));
        let reset = shared.reset_once(start(9), once(start(9), 30));
        let expired = shared.turn(11 + later);
        let moved = reset.join().unwrap();
        assert!(moved != expired, "moved: {moved}, expired: {expired}");
        assert_eq!(shared.locked(due_tick), moved.then_some(39 + later));
    });
}

/// Fails when `set_timeout` makes a deadline that was set for once count its timeout.
#[test]
fn a_timeout_that_is_set_beside_a_reset_after_leaves_its_due() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(1));
        let reset = shared.reset_once(start(6), once(start(6), 30));
        shared.locked(|word| word.set_timeout(span(20), nanosecond()));
        assert!(reset.join().unwrap());
        shared.assert_linked_in_time();
        assert_eq!(shared.locked(due_tick), Some(36 + later));
    });
}

/// Fails when `move_later` does not read the timeout again.
#[test]
fn a_longer_timeout_beside_a_reset_after_leaves_the_timer_linked_in_time() {
    in_both_modes(|start, _| {
        let shared = Shared::new(start(1));
        let reset = shared.reset_once(start(6), once(start(6), 30));
        shared.locked(|word| word.set_timeout(span(1_000), nanosecond()));
        assert!(reset.join().unwrap());
        shared.assert_linked_in_time();
    });
}

/// Fails when `move_later` does not read the stamp again.
#[test]
fn a_reset_at_by_an_old_stamp_beside_a_late_turn_leaves_the_timer_linked_in_time() {
    loom::model(|| {
        let shared = Shared::new(Start::Stamp(Stamp::of(6)));
        let published = Arc::new(AtomicU64::new(6));
        let (of_reset, stamp) = (shared.clone(), published.clone());
        let reset = thread::spawn(move || {
            let published = || Some(Stamp::of(stamp.load(Ordering::SeqCst)));
            let (start, due) = (Start::Stamp(Stamp::of(6)), Due::At(at(103)));
            match of_reset
                .word
                .reset_once(start, due, published, nanosecond())
            {
                Reset::Moved => {}
                Reset::MovedUnlinked => of_reset.locked(|_| {}),
                other => panic!("{other:?}"),
            }
        });
        // The turn at 100: the window of stamp 6 has ended there, and so late.
        published.store(100, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut linked = shared.lock.lock().unwrap();
        *linked = match shared.word.locked(&lock_held()).due().unwrap() {
            Due::Stamped(_) => 110,
            Due::At(due) => nanosecond().due(due),
        };
        drop(linked);
        reset.join().unwrap();
        shared.assert_linked_in_time();
    });
}

#[test]
fn a_reset_beside_a_restart_never_moves_it_back() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(0));
        assert!(shared.turn(10 + later));
        let reset = shared.reset(start(11));
        shared.locked(|word| word.restart(|| start(12)));
        reset.join().unwrap();
        assert_eq!(shared.locked(due_tick), Some(22 + later));
    });
}
