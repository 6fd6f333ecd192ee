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
//! Invariant: a place that has no timer's name has no spare.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime;

use super::Shard;
use crate::clock::Clock;

/// A reference to a shard that may still be armed on.
#[derive(Debug)]
pub(crate) struct Hold(
    /// Taken in `drop` alone.
    Option<Arc<Shard>>,
);

impl Hold {
    /// A hold on the shard that the calling thread keeps to, of the timer with that clock.
    #[inline]
    pub(crate) fn new(shards: &[Arc<Shard>], clock: &Arc<Clock>) -> Hold {
        let name = name_of(clock);
        let spare = THREAD.try_with(|thread| thread.lend(|place| place.timer.get() == name));
        match spare.ok().flatten() {
            Some(spare) => Hold(Some(spare)),
            None => Hold(Some(of_this_thread(shards).clone())),
        }
    }

    /// A hold on that very shard, which may be another thread's.
    pub(crate) fn counted(shard: &Arc<Shard>) -> Hold {
        Hold(Some(shard.clone()))
    }

    /// A hold from the calling thread's spare, if it has one of the own timer of a runtime.
    #[inline]
    pub(crate) fn spare_of_own_timer(id: runtime::Id) -> Option<Hold> {
        let lend = |thread: &Thread| thread.lend(|place| place.own_timer_of.get() == Some(id));
        let spare = THREAD.try_with(lend).ok().flatten()?;
        // While it was lent another timer may have got its place's name.
        (spare.place.own_timer_of == Some(id)).then(|| Hold(Some(spare)))
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
            places: [const { Place::empty() }; PLACES],
            next_to_go: Cell::new(0),
        }
    };
}

/// So many timers may be used by turns on a thread, each as if it were alone.
const PLACES: usize = 4;

struct Thread {
    /// What spreads threads over shards; `usize::MAX` until it is chosen.
    number: Cell<usize>,
    places: [Place; PLACES],
    /// Which place is taken from its timer next.
    next_to_go: Cell<usize>,
}

/// The place of one timer's spare.
struct Place {
    /// The timer's name; zero for none.
    timer: Cell<usize>,
    /// The runtime whose own timer that is.
    own_timer_of: Cell<Option<runtime::Id>>,
    /// `None` while it is lent.
    spare: Cell<Option<Arc<Shard>>>,
}

impl Place {
    const fn empty() -> Place {
        Place {
            timer: Cell::new(0),
            own_timer_of: Cell::new(None),
            spare: Cell::new(None),
        }
    }

    /// Gives up the place. What was in it is the caller's to drop, when no place is being looked at
    /// any more.
    fn clear(&self) -> Option<Arc<Shard>> {
        self.timer.set(0);
        self.own_timer_of.set(None);
        self.spare.take()
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

    /// The spare in the place that `is_wanted`, if it is home and can still be used.
    #[inline]
    fn lend(&self, is_wanted: impl Fn(&Place) -> bool) -> Option<Arc<Shard>> {
        let place = self.places.iter().find(|place| is_wanted(place))?;
        let spare = place.spare.take()?;
        if spare.is_retired() {
            place.clear();
            return None;
        }
        Some(spare)
    }

    /// Takes a reference to this thread's own shard as the spare of its timer, if that has none.
    #[inline]
    fn keep(&self, held: &mut Option<Arc<Shard>>) {
        let Some(shard) = held else { return };
        if shard.is_retired() || !shard.place.is_of(self.number()) {
            return;
        }
        let name = name_of(&shard.clock);
        match self.places.iter().find(|place| place.timer.get() == name) {
            // One that is home already is counted off in place of this one.
            Some(place) => *held = place.spare.replace(held.take()),
            None => self.keep_in_new_place(held),
        }
    }

    #[cold]
    fn keep_in_new_place(&self, held: &mut Option<Arc<Shard>>) {
        let Some(shard) = held.take() else { return };
        let mut free = None;
        let mut let_go = Vec::new();
        for place in &self.places {
            let spare = place.spare.take();
            if spare.as_ref().is_some_and(|spare| spare.is_retired()) {
                let_go.push(spare);
                place.clear();
            } else {
                place.spare.set(spare);
            }
            if place.timer.get() == 0 {
                free = Some(place);
            }
        }
        let place = free.unwrap_or_else(|| {
            let next = self.next_to_go.get();
            self.next_to_go.set((next + 1) % PLACES);
            &self.places[next]
        });
        let_go.push(place.clear());
        place.timer.set(name_of(&shard.clock));
        place.own_timer_of.set(shard.place.own_timer_of);
        let_go.push(place.spare.replace(Some(shard)));
        // Letting go of a shard may end its driver, which is none of this thread's places'
        // business.
        drop(let_go);
    }
}

/// What a timer is known by on its threads. It is not given to another while a spare of it is home,
/// as that keeps the clock.
fn name_of(clock: &Arc<Clock>) -> usize {
    Arc::as_ptr(clock).addr()
}
