//! Under loom: the state word of a deadline, every interleaving of resets with expiry, cancel and
//! the others; and the bell of the driver, every interleaving of arms with a turn and with who
//! attends; and the lookout of a map's stream.
//!
//! The crate's own files are compiled here against loom's atomics. A loom mutex stands for the
//! shard's lock.

#![allow(dead_code, unreachable_pub)] // Not every part of the files is used here.

#[path = "../../src/driver/bell.rs"]
mod bell;
#[path = "../../src/keyed/delay_map/lookout.rs"]
mod lookout;
mod shard;
mod sync;
mod time;

use std::time::Duration;

use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};

use bell::{Bell, NEVER, Request};
use lookout::Lookout;
use shard::deadline_state::Once;
use shard::word::{Expiry, Outcome, Reset, Status, Word};
use sync::{AtomicU64, Ordering, fence};
use time::due::{Due, Start, WINDOW};
use time::tick::{Moment, TickLength};

fn span(ticks: u64) -> Duration {
    Duration::from_nanos(ticks)
}

fn nanosecond() -> TickLength {
    TickLength::new(Duration::from_nanos(1)).unwrap()
}

fn stamp_of(start: Start) -> Option<u64> {
    match start {
        Start::At(_) => None,
        Start::Stamp(stamp) => Some(stamp),
    }
}

/// Whether a due has passed at a tick; the window of a stamp has ended in time.
fn has_passed(due: Due, tick: u64) -> bool {
    due.placed(nanosecond()) <= tick
}

fn due_tick(word: &Word) -> Option<u64> {
    word.due().map(|due| due.placed(nanosecond()))
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
        let linked = due_tick(&word).unwrap();
        Shared {
            word,
            lock: Arc::new(Mutex::new(linked)),
        }
    }

    /// A reset as a handle does it; a stamp is taken at the beginning of its tick. If the start
    /// cannot be compared with what the word holds, `fresh` is what the driver says by then.
    fn reset_with(&self, start: Start, fresh: Start) -> JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || {
            if let Start::Stamp(stamp) = start {
                if shared.word.reset_to_later_stamp(stamp) {
                    return true;
                }
            }
            let published = move || stamp_of(fresh);
            match shared.word.reset(start, || fresh, published, nanosecond()) {
                Reset::Moved => true,
                Reset::MovedUnlinked => shared.locked(|_| true),
                Reset::TooLate => false,
                Reset::NeedsLock => shared.locked(|word| {
                    let now = match fresh {
                        Start::At(moment) => nanosecond().current(moment),
                        Start::Stamp(stamp) => stamp,
                    };
                    let looked = word.expire_if(|due| has_passed(due, now));
                    word.reset_locked(|| fresh);
                    matches!(looked, Expiry::Later(_))
                }),
            }
        })
    }

    fn reset(&self, start: Start) -> JoinHandle<bool> {
        self.reset_with(start, start)
    }

    /// Sets the due for once, as a handle does it.
    fn reset_once(&self, start: Start, once: Once) -> JoinHandle<bool> {
        let shared = self.clone();
        thread::spawn(move || {
            let published = move || stamp_of(start);
            match shared.word.reset_once(start, once, published, nanosecond()) {
                Reset::Moved => true,
                Reset::MovedUnlinked => shared.locked(|_| true),
                Reset::TooLate => false,
                Reset::NeedsLock => shared.locked(|word| {
                    let now = match start {
                        Start::At(moment) => nanosecond().current(moment),
                        Start::Stamp(stamp) => stamp,
                    };
                    let looked = word.expire_if(|due| has_passed(due, now));
                    word.reset_once_locked(start, once, || start);
                    matches!(looked, Expiry::Later(_))
                }),
            }
        })
    }

    /// With the lock held. Whatever was done, the timer is then linked at the due.
    fn locked<R>(&self, act: impl FnOnce(&Word) -> R) -> R {
        let mut linked = self.lock.lock().unwrap();
        let done = act(&self.word);
        if let Some(due) = due_tick(&self.word) {
            *linked = due;
        }
        done
    }

    fn assert_linked_in_time(&self) {
        let linked = *self.lock.lock().unwrap();
        let due = due_tick(&self.word).unwrap();
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
    loom::model(move || model(Start::Stamp, WINDOW));
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
        let shared = Shared::new(Start::Stamp(1));
        let old = shared.reset_with(Start::Stamp(3), Start::At(at(8)));
        let new = shared.reset_with(Start::At(at(8)), Start::At(at(8)));
        assert!(old.join().unwrap() && new.join().unwrap());
        assert_eq!(shared.locked(due_tick), Some(18));
    });
    // Resting at moment 3, then ticking: the newer reset is at stamp 8.
    loom::model(|| {
        let shared = Shared::new(Start::At(at(1)));
        let old = shared.reset_with(Start::At(at(3)), Start::Stamp(8));
        let new = shared.reset_with(Start::Stamp(8), Start::Stamp(8));
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
        shared.locked(|word| word.reset_once_locked(start(6), Once::At(at(100)), || start(6)));
        assert!(reset.join().unwrap());
        let due = shared.locked(due_tick).unwrap();
        assert!(due == 16 + later || due == 100, "{due}");
    });
}

/// So many ticks after a start, for once.
fn once(start: Start, ticks: u64) -> Once {
    match start {
        Start::At(moment) => Once::At(moment.after(span(ticks).into())),
        Start::Stamp(stamp) => Once::stamped(stamp, ticks).unwrap(),
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

/// Fails when `reset_once` notes the reset after the exchange.
#[test]
fn a_timeout_that_is_set_beside_a_reset_after_counts_from_it_or_comes_before_it() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(1));
        let reset = shared.reset_once(start(6), once(start(6), 30));
        shared.locked(|word| word.set_timeout(span(20), nanosecond()));
        assert!(reset.join().unwrap());
        shared.assert_linked_in_time();
        let due = shared.locked(due_tick).unwrap();
        assert!([26, 36].map(|due| due + later).contains(&due), "{due}");
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

/// Fails when `note_reset` leaves out the reset that the word says.
#[test]
fn a_timeout_counts_from_a_reset_that_came_in_beside_an_older_reset_after() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(1));
        let older = shared.reset_once(start(3), once(start(3), 40));
        let newer = shared.reset(start(9));
        assert!(older.join().unwrap() && newer.join().unwrap());
        shared.locked(|word| word.set_timeout(span(20), nanosecond()));
        assert!(shared.locked(due_tick) >= Some(29 + later));
    });
}

/// Fails when `move_later` does not read the stamp again.
#[test]
fn a_reset_at_by_an_old_stamp_beside_a_late_turn_leaves_the_timer_linked_in_time() {
    loom::model(|| {
        let shared = Shared::new(Start::Stamp(6));
        let published = Arc::new(AtomicU64::new(6));
        let (of_reset, stamp) = (shared.clone(), published.clone());
        let reset = thread::spawn(move || {
            let published = || Some(stamp.load(Ordering::SeqCst));
            let (start, once) = (Start::Stamp(6), Once::At(at(103)));
            match of_reset
                .word
                .reset_once(start, once, published, nanosecond())
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
        *linked = match shared.word.due().unwrap() {
            Due::Stamped(_) => 110,
            Due::At(due) => nanosecond().due(due),
        };
        drop(linked);
        reset.join().unwrap();
        shared.assert_linked_in_time();
    });
}

/// Fails when `note_reset` stores whatever comes last.
#[test]
fn of_two_resets_for_once_the_later_one_is_what_a_timeout_counts_from() {
    in_both_modes(|start, later| {
        let shared = Shared::new(start(1));
        let first = shared.reset_once(start(4), once(start(4), 30));
        let second = shared.reset_once(start(6), once(start(6), 40));
        assert!(first.join().unwrap() && second.join().unwrap());
        shared.locked(|word| word.set_timeout(span(20), nanosecond()));
        assert_eq!(shared.locked(due_tick), Some(26 + later));
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

/// A driver with two shards of which only the plans are left, and an alarm that is only a number.
struct Driven {
    bell: Bell,
    plans: [AtomicU64; 2],
    /// Under a lock only to be seen by all; nobody but the attendant has it.
    alarm: Mutex<u64>,
    turns: AtomicU64,
}

impl Driven {
    /// Its alarm has just fired, at tick 1.
    fn new() -> Arc<Driven> {
        let driven = Driven {
            bell: Bell::new(),
            plans: [AtomicU64::new(NEVER), AtomicU64::new(NEVER)],
            alarm: Mutex::new(NEVER),
            turns: AtomicU64::new(0),
        };
        driven.bell.set_for(1);
        Arc::new(driven)
    }

    fn arm(&self, shard: usize, tick: u64) {
        if tick < self.plans[shard].load(Ordering::Relaxed) {
            self.plans[shard].store(tick, Ordering::Release);
            if !self.bell.is_set_by(tick) {
                self.bell.ask_for(tick);
                self.attend(Request::Plan);
            }
        }
    }

    fn attend(&self, request: Request) {
        if !self.bell.ring(request) {
            return;
        }
        loop {
            let requests = self.bell.take_requests();
            let mut alarm = self.alarm.try_lock().expect("one attends at a time");
            if requests.has(Request::Fired) {
                *alarm = NEVER;
                self.turns.fetch_add(1, Ordering::Relaxed);
                self.bell.begin_to_read_plans();
                for plan in &self.plans {
                    *alarm = plan.load(Ordering::Acquire).min(*alarm);
                }
            } else {
                *alarm = self.bell.take_asked_for().min(*alarm);
            }
            self.bell.set_for(*alarm);
            drop(alarm);
            if self.bell.leave() {
                return;
            }
        }
    }
}

/// Three threads at the bell interleave in too many ways for all of them; a lost request shows with
/// few preemptions.
fn with_few_preemptions(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn no_arm_is_lost_between_a_turn_and_who_attends() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let arms = [(0, 7), (1, 5)].map(|(shard, tick)| {
            let driven = driven.clone();
            thread::spawn(move || driven.arm(shard, tick))
        });
        driven.attend(Request::Fired);
        for arm in arms {
            arm.join().unwrap();
        }
        assert_eq!(*driven.alarm.lock().unwrap(), 5);
        assert_eq!(driven.turns.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn what_is_requested_of_an_attendant_that_leaves_is_done() {
    with_few_preemptions(|| {
        let driven = Driven::new();
        let fire = {
            let driven = driven.clone();
            thread::spawn(move || driven.attend(Request::Fired))
        };
        driven.attend(Request::Fired);
        driven.attend(Request::Fired);
        fire.join().unwrap();
        let turns = driven.turns.load(Ordering::Relaxed);
        assert!((1..=3).contains(&turns), "{turns} turns");
        assert!(driven.bell.ring(Request::Plan), "nobody is left attending");
    });
}

/// A map with two parts of which only the ticks are left, at which something is due in them.
struct Watched {
    lookout: Lookout,
    parts: [AtomicU64; 2],
    /// The tick at which the stream is woken.
    alarm: Mutex<u64>,
}

/// Counts how often it is woken; loom need not know of it.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Watched {
    fn new() -> Arc<Watched> {
        Arc::new(Watched {
            lookout: Lookout::new(),
            parts: [AtomicU64::new(NEVER), AtomicU64::new(NEVER)],
            alarm: Mutex::new(NEVER),
        })
    }

    fn earliest(&self) -> u64 {
        let ticks = self.parts.iter().map(|part| part.load(Ordering::Acquire));
        ticks.min().unwrap()
    }

    /// Sets something for a tick.
    fn set(&self, part: usize, tick: u64) {
        self.parts[part].store(tick, Ordering::Release);
        if self.lookout.is_called_for(tick) {
            if let Some(waker) = self.lookout.call() {
                waker.wake();
            }
        }
    }

    /// The earliest has gone: the stream is put off to what is left.
    fn take_out(&self, part: usize) {
        self.parts[part].store(NEVER, Ordering::Release);
        let mut alarm = self.alarm.lock().unwrap();
        let waits = self.lookout.is_put_off();
        *alarm = self.earliest();
        if waits {
            self.lookout.waits_on_until(*alarm);
        }
    }

    /// The stream is polled, and gives the tick until which it waits.
    fn poll(&self, waker: &std::task::Waker) -> u64 {
        self.lookout.stops_waiting();
        drop(self.lookout.leave(waker.clone()));
        let mut alarm = self.alarm.lock().unwrap();
        self.lookout.begins_to_wait();
        *alarm = self.earliest();
        self.lookout.waits_until(*alarm);
        *alarm
    }
}

#[test]
fn a_stream_that_waits_too_long_is_called() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(woken.clone());
        let sets = [(0, 0), (1, 5)].map(|(part, tick)| {
            let watched = watched.clone();
            thread::spawn(move || watched.set(part, tick))
        });
        let waits_until = watched.poll(&waker);
        for set in sets {
            set.join().unwrap();
        }
        let was_called = woken.0.load(std::sync::atomic::Ordering::Relaxed) > 0;
        assert!(
            was_called || waits_until == 0,
            "it waits until {waits_until}"
        );
    });
}

#[test]
fn a_stream_that_was_put_off_is_called_for_what_comes_in_between() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(woken.clone());
        watched.set(0, 3);
        assert_eq!(watched.poll(&waker), 3);
        let set = {
            let watched = watched.clone();
            thread::spawn(move || watched.set(1, 5))
        };
        watched.take_out(0);
        set.join().unwrap();
        let was_called = woken.0.load(std::sync::atomic::Ordering::Relaxed) > 0;
        assert!(was_called || *watched.alarm.lock().unwrap() <= 5);
    });
}
