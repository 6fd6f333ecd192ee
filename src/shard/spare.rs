//! A future's hold on its shard: a counted reference whose count stays untouched while timers come
//! and go.
//!
//! A thread keeps to one shard of a timer. It keeps one reference to that shard, its *spare*, for
//! each of the last few timers that it used. A thread that makes a future takes the spare, and
//! gives it back when it drops the future. Neither touches the count. Two futures count as any
//! `Arc` does: a second one at the same time, and one that is dropped on another thread.
//!
//! ```text
//!                   a future is made                    dropped on that thread
//!   home, in the  --------------------> lent to the  ----------------------------> home
//!   thread's place                      future
//!                                         |  dropped elsewhere, or the place is taken
//!                                         +---------------------------------------> counted off
//! ```
//!
//! A spare at home keeps its shard, and so its driver, in memory. It does nothing else, because a
//! driver with nothing armed does nothing. So nobody has to find out who holds a shard. A timer may
//! have no handle any more, or its runtime may have shut down. Then no thread takes a spare of it
//! home. A thread that looks for a new place lets go all such spares that it has.
//!
//! Each timer has a number, which no other timer ever has. The number gives its spare a place. So a
//! thread looks at one place, and timers that were made after one another do not share one.
//!
//! Invariant: a place that has no timer's number has no spare.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::runtime;

use super::{Identity, Shard};

/// The number of a timer, unique in the process for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerNumber(u64);

impl TimerNumber {
    const NONE: TimerNumber = TimerNumber(0);

    pub(crate) fn next() -> TimerNumber {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: each number is given once, and nothing else hangs on it.
        TimerNumber(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    #[inline]
    fn place(self) -> usize {
        self.0 as usize % PLACES
    }
}

/// A reference to a shard that may still be armed on.
#[derive(Debug)]
pub(crate) struct Hold(
    /// It is taken only in `drop`.
    Option<Arc<Shard>>,
);

impl Hold {
    /// A hold on that one of the timer's `shards` to which the calling thread keeps.
    #[inline]
    pub(crate) fn new(shards: &[Arc<Shard>], timer: TimerNumber) -> Hold {
        match THREAD.try_with(|thread| thread.lend(timer)) {
            Ok(Some(spare)) => Hold(Some(spare)),
            _ => Hold(Some(of_this_thread(shards).clone())),
        }
    }

    /// A hold on this shard, to which another thread may keep.
    pub(crate) fn counted(shard: &Arc<Shard>) -> Hold {
        Hold(Some(shard.clone()))
    }

    /// A hold from the calling thread's spare, if it has a spare of the own timer of that runtime.
    #[inline]
    pub(crate) fn spare_of_own_timer(id: runtime::Id) -> Option<Hold> {
        let lend = |thread: &Thread| thread.lend_of_own_timer(id);
        let spare = THREAD.try_with(lend).ok().flatten()?;
        Some(Hold(Some(spare)))
    }

    /// Makes the calling thread remember this hold's timer as the own timer of its runtime.
    pub(crate) fn remember_as_own_timer(&self) {
        let Identity {
            timer,
            own_timer_of,
            ..
        } = self.identity;
        // A thread that is ending remembers no timer.
        let _ = THREAD.try_with(|thread| thread.own_timer.set((own_timer_of, timer)));
    }
}

impl Deref for Hold {
    type Target = Arc<Shard>;

    #[inline]
    fn deref(&self) -> &Arc<Shard> {
        self.0.as_ref().expect("it is held until it is dropped")
    }
}

impl Clone for Hold {
    fn clone(&self) -> Hold {
        Hold(self.0.clone())
    }
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        // A thread that is ending keeps no spare. What is not kept is counted off here.
        let _ = THREAD.try_with(|thread| thread.keep(&mut self.0));
    }
}

/// The shard that the calling thread keeps to.
#[inline]
pub(crate) fn of_this_thread(shards: &[Arc<Shard>]) -> &Arc<Shard> {
    // A thread that is ending keeps to the first shard.
    let number = THREAD.try_with(Thread::number).unwrap_or(0);
    &shards[number & (shards.len() - 1)]
}

std::thread_local! {
    static THREAD: Thread = const {
        Thread {
            number: Cell::new(usize::MAX),
            places: [const { SparePlace::empty() }; PLACES],
            own_timer: Cell::new((None, TimerNumber::NONE)),
        }
    };
}

/// A thread may use this many timers alternately, if they were made after one another, each as if
/// it were alone.
const PLACES: usize = 8;

struct Thread {
    /// The number that spreads threads over shards. It is `usize::MAX` until it is chosen.
    number: Cell<usize>,
    places: [SparePlace; PLACES],
    /// The runtime whose own timer was used last, and that timer.
    own_timer: Cell<(Option<runtime::Id>, TimerNumber)>,
}

/// The place of one timer's spare.
struct SparePlace {
    timer: Cell<TimerNumber>,
    /// `None` while it is lent.
    spare: Cell<Option<Arc<Shard>>>,
}

impl SparePlace {
    const fn empty() -> SparePlace {
        SparePlace {
            timer: Cell::new(TimerNumber::NONE),
            spare: Cell::new(None),
        }
    }
}

impl Thread {
    /// A worker takes its index in the runtime where it first uses a timer. So no two workers of a
    /// runtime share a shard. Any other thread takes a number of its own.
    #[inline]
    fn number(&self) -> usize {
        let number = self.number.get();
        if number == usize::MAX {
            return self.choose_number();
        }
        number
    }

    #[cold]
    fn choose_number(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: the number spreads threads, and nothing else hangs on it.
        let number =
            runtime::worker_index().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        self.number.set(number);
        number
    }

    /// The spare of a timer, if it is home. A caller that has the timer may use it in any case.
    #[inline]
    fn lend(&self, timer: TimerNumber) -> Option<Arc<Shard>> {
        let place = &self.places[timer.place()];
        if place.timer.get() == timer {
            place.spare.take()
        } else {
            None
        }
    }

    /// The spare of a runtime's own timer, if it is home and can still be used.
    #[inline]
    fn lend_of_own_timer(&self, id: runtime::Id) -> Option<Arc<Shard>> {
        let (own_timer_of, timer) = self.own_timer.get();
        if own_timer_of != Some(id) {
            return None;
        }
        let spare = self.lend(timer)?;
        if spare.is_retired() {
            // The timer ends, and the runtime has another one soon.
            self.own_timer.set((None, TimerNumber::NONE));
            return None;
        }
        Some(spare)
    }

    /// Takes a reference to this thread's own shard as the spare of its timer, if that has none.
    #[inline]
    fn keep(&self, held: &mut Option<Arc<Shard>>) {
        let Some(shard) = held else { return };
        let place = &self.places[shard.identity.timer.place()];
        if shard.is_retired() || !shard.identity.is_of(self.number()) {
            return;
        }
        if place.timer.get() == shard.identity.timer {
            // If a spare is home already, that one is counted off instead.
            *held = place.spare.replace(held.take());
        } else {
            self.keep_in_new_place(held);
        }
    }

    #[cold]
    fn keep_in_new_place(&self, held: &mut Option<Arc<Shard>>) {
        let Some(shard) = held.take() else { return };
        let mut let_go: Vec<_> = self.places.iter().map(SparePlace::take_retired).collect();
        let timer = shard.identity.timer;
        let place = &self.places[timer.place()];
        place.timer.set(timer);
        let_go.push(place.spare.replace(Some(shard)));
        // Letting go of a shard may end its driver. So it comes last, after the places have
        // changed.
        drop(let_go);
    }
}

impl SparePlace {
    /// Takes the spare out if nobody can use its timer any more.
    fn take_retired(&self) -> Option<Arc<Shard>> {
        let spare = self.spare.take()?;
        if spare.is_retired() {
            self.timer.set(TimerNumber::NONE);
            return Some(spare);
        }
        self.spare.set(Some(spare));
        None
    }
}

#[cfg(test)]
mod tests;
