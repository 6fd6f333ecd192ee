//! A future's hold on its shard: a counted reference, whose count is left alone where timers come
//! and go.
//!
//! A thread keeps to one shard of a timer, and keeps one reference to it, its *spare*, for each of
//! the last few timers that it used. Who makes a future takes the spare and who drops one gives it
//! back, without touching the count. Only a second future at the same time, or one that is dropped
//! on another thread, counts as any `Arc` does.
//!
//! ```text
//!   home: in the thread's place --(a future is made)--> lent to the future --(dropped on that thread)--> home
//!                                                             \--(dropped elsewhere, or the place is taken)--> counted off
//! ```
//!
//! A spare at home keeps its shard, and so its driver, in memory, and nothing else: a driver with
//! nothing armed does nothing. So nobody has to find out who holds a shard. Of a timer whose
//! handles have all gone, or whose runtime has, no thread takes a spare home, and each lets go what
//! it has of it when it looks for a place.
//!
//! Each timer has a number, which no other ever has, and its spare a place by that number; so a
//! thread looks at one place, and timers that were made after one another do not share one.
//!
//! Invariant: a place that has no timer's number has no spare.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::runtime;

use super::{Identity, Shard};

/// The number of a timer, unique in the process for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerNumber(u64);

impl TimerNumber {
    const NONE: TimerNumber = TimerNumber(0);

    pub(crate) fn next() -> TimerNumber {
        static NEXT: AtomicU64 = AtomicU64::new(1);
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
    /// Taken in `drop` alone.
    Option<Arc<Shard>>,
);

impl Hold {
    /// A hold on the shard that the calling thread keeps to, of the timer with that number.
    #[inline]
    pub(crate) fn new(shards: &[Arc<Shard>], timer: TimerNumber) -> Hold {
        match THREAD.try_with(|thread| thread.lend(timer)) {
            Ok(Some(spare)) => Hold(Some(spare)),
            _ => Hold(Some(of_this_thread(shards).clone())),
        }
    }

    /// A hold on that very shard, which may be another thread's.
    pub(crate) fn counted(shard: &Arc<Shard>) -> Hold {
        Hold(Some(shard.clone()))
    }

    /// A hold from the calling thread's spare, if it has one of the own timer of a runtime.
    #[inline]
    pub(crate) fn spare_of_own_timer(id: runtime::Id) -> Option<Hold> {
        let lend = |thread: &Thread| thread.lend_of_own_timer(id);
        let spare = THREAD.try_with(lend).ok().flatten()?;
        Some(Hold(Some(spare)))
    }

    /// Has the calling thread remember this one's timer as the own timer of the current runtime.
    pub(crate) fn remember_as_own_timer(&self) {
        let Identity {
            timer,
            own_timer_of,
            ..
        } = self.identity;
        // A thread that is ending remembers none.
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
        // A thread that is ending keeps none. What is not kept is counted off here.
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

thread_local! {
    static THREAD: Thread = const {
        Thread {
            number: Cell::new(usize::MAX),
            places: [const { SparePlace::empty() }; PLACES],
            own_timer: Cell::new((None, TimerNumber::NONE)),
        }
    };
}

/// So many timers that were made after one another may be used by turns on a thread, each as if it
/// were alone.
const PLACES: usize = 8;

struct Thread {
    /// What spreads threads over shards; `usize::MAX` until it is chosen.
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
    /// A worker takes its index in the runtime where it first uses a timer, so that no two workers
    /// of a runtime share a shard; any other thread takes a number of its own.
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
        let number =
            tokio::runtime::worker_index().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        self.number.set(number);
        number
    }

    /// The spare of a timer, if it is home. Whoever has the timer may use it in any case.
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
            // It ends, and the runtime has another timer soon.
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
            // One that is home already is counted off in place of this one.
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
        // Letting go of a shard may end its driver, which is none of this thread's places'
        // business.
        drop(let_go);
    }
}

impl SparePlace {
    /// Takes out the spare of a timer that nobody can use any more.
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
