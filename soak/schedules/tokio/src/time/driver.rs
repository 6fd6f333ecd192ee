//! The time driver. Its timers have a grid of 1 ms, counted from its start.
//!
//! As in tokio, and `tests/tokio.rs` compares the two:
//!
//! - A timer lies in a slot, which is longer the further ahead it is. The driver wakes up at the
//!   start of a slot, and moves on what is not yet due.
//! - A timer that is moved to later stays in its slot until then.
//! - The driver waits for whole milliseconds, from when it looks at the clock.
//! - A timer that is set to a time which the driver has worked up to fires at once, on the thread
//!   that sets it. Its waker is woken after the lock.
//! - The driver fires what is due one by one and works up to each on the way. It wakes the wakers
//!   after the lock.
//! - A poll registers its waker first, and then looks whether the timer has fired. If that happens
//!   in between, the poll may wake its own thread.
//! - When it ends, it fires all timers. What is set from then on fires at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Instant;

pub(crate) struct TimeDriver {
    start: Instant,
    state: Mutex<State>,
    has_news: Condvar,
}

#[derive(Default)]
struct State {
    /// The millisecond up to which it has worked.
    elapsed: u64,
    /// By the starts of their slots, and by when they were set.
    timers: BTreeMap<(u64, u64), Number>,
    settings: u64,
    entries: HashMap<Number, Entry>,
    made: u64,
    are_tasks_woken: bool,
    /// A turn polls them.
    polls_tasks: bool,
    /// The program wants no more turns.
    ends: bool,
    is_shut_down: bool,
}

/// The number of a timer that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Number(u64);

#[derive(Default)]
struct Entry {
    /// Its place among the timers, if it is set.
    at: Option<(u64, u64)>,
    /// The millisecond for which it is set.
    when: u64,
    /// The one for which it was put there.
    put_for: u64,
    waker: Option<Waker>,
}

/// A timer that is set for this time or later never fires, and the driver does not run to it.
const NEVER: u64 = 365 * 24 * 60 * 60 * 1000;

/// The start of the slot of a timer that is set for `when`, of a driver that has worked up to
/// `elapsed`. There are six levels with 64 slots each. What is further ahead than all of them lies
/// in a slot of the last one, which comes sooner.
fn slot_of(elapsed: u64, when: u64) -> u64 {
    const BITS: u32 = 6;
    const LEVELS: u32 = 6;
    let apart = (elapsed ^ when) | ((1 << BITS) - 1);
    let level = (apart.ilog2() / BITS).min(LEVELS - 1);
    let slots = 1_u64 << (level * BITS);
    let all = slots << BITS;
    let start = elapsed / all * all + when / slots % (all / slots) * slots;
    if start > elapsed { start } else { start + all }
}

impl TimeDriver {
    pub(crate) fn new(start: Instant) -> TimeDriver {
        TimeDriver {
            start,
            state: Mutex::default(),
            has_news: Condvar::new(),
        }
    }

    /// As tokio's, it lets time pass only while no task was woken.
    pub(crate) fn turn(
        &self,
        now: impl Fn() -> Instant,
        poll_tasks: impl Fn(),
        advance: impl FnOnce(Duration),
    ) -> bool {
        let mut state = self.lock();
        let next = loop {
            if state.ends {
                return false;
            }
            if std::mem::take(&mut state.are_tasks_woken) {
                state.polls_tasks = true;
                drop(state);
                poll_tasks();
                state = self.lock();
                state.polls_tasks = false;
                self.has_news.notify_all();
                continue;
            }
            match state.next() {
                Some(at) => break at,
                None => state = self.has_news.wait(state).unwrap(),
            }
        };
        // Under the lock: a thread that sets an earlier timer wakes the driver before that time.
        advance(Duration::from_millis(
            next.saturating_sub(self.worked_to(now())),
        ));
        drop(state);
        self.round(now());
        true
    }

    /// The driver comes round without having waited, as for another reason than a timer.
    pub(crate) fn round(&self, now: Instant) {
        self.work_up_to(self.worked_to(now));
    }

    fn worked_to(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_millis() as u64
    }

    fn work_up_to(&self, now: u64) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        while let Some((&(slot, _), &number)) = state.timers.first_key_value() {
            if slot > now {
                break;
            }
            state.elapsed = state.elapsed.max(slot);
            let when = state.entry(number).when;
            if when > slot && now != u64::MAX {
                state.put(number, when);
            } else {
                wakers.extend(state.take_out(number));
            }
        }
        state.elapsed = state.elapsed.max(now);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.has_news.notify_all();
    }

    /// Whether some task was woken that the next turn polls. Forgets it.
    pub(crate) fn are_tasks_woken(&self) -> bool {
        std::mem::take(&mut self.lock().are_tasks_woken)
    }

    /// The next turn polls the tasks.
    pub(crate) fn wake_tasks(&self) {
        self.lock().are_tasks_woken = true;
        self.has_news.notify_all();
    }

    /// Waits until there is no timer that the driver would run to.
    pub(crate) fn wait_until_idle(&self) {
        let mut state = self.lock();
        while state.next().is_some() || state.are_tasks_woken || state.polls_tasks {
            state = self.has_news.wait(state).unwrap();
        }
    }

    pub(crate) fn end(&self) {
        self.lock().ends = true;
        self.has_news.notify_all();
    }

    pub(crate) fn shut_down(&self) {
        self.lock().is_shut_down = true;
        self.work_up_to(u64::MAX);
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.lock().is_shut_down
    }

    /// Makes a timer, which is not set.
    pub(crate) fn make(&self) -> Number {
        let mut state = self.lock();
        state.made += 1;
        let number = Number(state.made);
        state.entries.insert(number, Entry::default());
        number
    }

    pub(crate) fn set(&self, number: Number, deadline: Instant) {
        let since = deadline.saturating_duration_since(self.start);
        let at = since.as_nanos().div_ceil(1_000_000);
        let at = u64::try_from(at).unwrap_or(u64::MAX - 1);
        let mut state = self.lock();
        let entry = state.entry(number);
        if entry.at.is_some() && at >= entry.when {
            entry.when = at;
            return;
        }
        if state.is_shut_down || at <= state.elapsed {
            let is_fired = state.is_shut_down && state.entry(number).at.is_none();
            let waker = if is_fired {
                None
            } else {
                state.take_out(number)
            };
            drop(state);
            self.has_news.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
            return;
        }
        state.put(number, at);
        drop(state);
        self.has_news.notify_all();
    }

    /// Drops a timer, and wakes no task.
    pub(crate) fn forget(&self, number: Number) {
        let mut state = self.lock();
        let waker = state.take_out(number);
        state.entries.remove(&number);
        drop(state);
        drop(waker);
    }

    pub(crate) fn is_set(&self, number: Number) -> bool {
        self.lock().entry(number).at.is_some()
    }

    pub(crate) fn poll(&self, number: Number, cx: &Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.lock();
        let entry = state.entry(number);
        let was_set = entry.at.is_some();
        // It keeps the waker of one that has fired too, for when it is set again.
        let replaced = entry.waker.replace(waker);
        drop(state);
        drop(replaced);
        // Another thread may fire it here.
        let is_set = self.is_set(number);
        if was_set && !is_set {
            cx.waker().wake_by_ref();
        }
        if is_set {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    /// Ignores poison: where a schedule has failed, its threads unwind one after the other, and a
    /// panic in one of their drops would abort the program before it names the schedule.
    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next timer that anybody comes to.
    fn next(&self) -> Option<u64> {
        let is_awaited = |number: &Number| self.entries[number].put_for < NEVER;
        let mut awaited = self.timers.iter().filter(|(_, number)| is_awaited(number));
        awaited.next().map(|(&(slot, _), _)| slot)
    }

    /// Puts a timer where it lies if it is set for `when`, wherever it was.
    fn put(&mut self, number: Number, when: u64) {
        self.settings += 1;
        let key = (slot_of(self.elapsed, when), self.settings);
        let entry = self.entry(number);
        (entry.when, entry.put_for) = (when, when);
        let before = entry.at.replace(key);
        if let Some(before) = before {
            self.timers.remove(&before);
        }
        self.timers.insert(key, number);
    }

    fn entry(&mut self, number: Number) -> &mut Entry {
        self.entries.get_mut(&number).expect("it was made")
    }

    /// Takes a timer out, as one that has fired.
    fn take_out(&mut self, number: Number) -> Option<Waker> {
        let entry = self.entry(number);
        let (at, waker) = (entry.at.take(), entry.waker.take());
        if let Some(at) = at {
            self.timers.remove(&at);
        }
        waker
    }
}
