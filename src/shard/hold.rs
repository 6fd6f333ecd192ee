//! A future's hold on its shard: a counted reference, whose count is left alone where timers come and go.
//!
//! A thread keeps to one shard of a timer, and keeps one reference to the shard that it used last, its *spare*. Who
//! makes a future takes the spare and who drops one gives it back, without touching the count. Only a second future
//! at the same time, or one that is dropped on another thread, counts as any `Arc` does.
//!
//! ```text
//!   home: in the thread's slot --(a future is made)--> lent to the future --(dropped on that thread)--> home
//!                                                             \--(dropped elsewhere, or the slot is taken)--> counted off
//! ```
//!
//! **When is a shard not needed any more?** When the last [`Timer`](crate::Timer) has gone, which *retires* its shards, and
//! nobody holds them but spares that are home: a spare is lent only to who makes a future, and for that it takes a `Timer`.
//! So the driver compares the count of references with the number of spares that are home. Each thread has a note of which
//! shard its spare is home with, which it alone writes and the driver reads.
//!
//! The driver must not take a reference that may still arm for one that is home. It reads the notes first and counts the
//! references then, so a spare that is let go in between would be missed in the count and make room for a future. A spare that
//! was home is let go only when its thread turns to another timer, or ends. That is rare, so all threads count it
//! together, in this order: the note is cleared, the turn counted, the reference counted off. The driver reads the count of turns
//! before and after. If it counted the references after one was counted off, it reads that turn in the end; if it read
//! it in the beginning too, it has found the note cleared. So when the count of turns has not moved, all that the notes
//! say is home was home when the references were counted; if those are as many, there was none besides, and nobody
//! who could make one.
//!
//! It may find too many: who gives back a spare or drops a reference in the moment in which the timer is retired may not
//! see that, and then does not tell the driver, which stays parked until the next of them comes, or the runtime ends.

use std::cell::{Cell, OnceCell};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

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
        let is_of = |spare: &Shard| Arc::ptr_eq(&spare.clock, clock);
        let spare = THREAD.try_with(|thread| thread.lend(is_of)).ok().flatten();
        Hold(Some(
            spare.unwrap_or_else(|| of_this_thread(shards).clone()),
        ))
    }

    /// A hold from the calling thread's spare, if that is of the own timer of a runtime which has not ended.
    #[inline]
    pub(crate) fn spare_of_own_timer(id: runtime::Id) -> Option<Hold> {
        let is_of = |spare: &Shard| spare.place.own_timer_of == Some(id) && !spare.is_retired();
        let spare = THREAD.try_with(|thread| thread.lend(is_of)).ok().flatten();
        spare.map(|spare| Hold(Some(spare)))
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
        // A thread that is ending keeps none.
        let _ = THREAD.try_with(|thread| thread.keep(&mut self.0));
        if let Some(shard) = self.0.take() {
            count_off(shard);
        }
    }
}

/// The shard that the calling thread keeps to.
#[inline]
pub(crate) fn of_this_thread(shards: &[Arc<Shard>]) -> &Arc<Shard> {
    // A thread that is ending keeps to the first shard.
    let number = THREAD.try_with(Thread::number).unwrap_or(0);
    &shards[number & (shards.len() - 1)]
}

/// Whether nobody holds a retired shard, to which the caller has this one reference, but spares that are home.
pub(crate) fn is_abandoned(shard: &Arc<Shard>) -> bool {
    let name = name_of(shard);
    loop {
        let turns = TURNS_TO_ANOTHER.load(Ordering::SeqCst);
        let home = notes()
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|note| note.load(Ordering::SeqCst) == name)
            .count();
        let references = Arc::strong_count(shard) - 1;
        // What those did who counted a reference off comes before what is read from here on.
        fence(Ordering::SeqCst);
        if TURNS_TO_ANOTHER.load(Ordering::SeqCst) == turns {
            return references == home;
        }
    }
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            number: Cell::new(usize::MAX),
            spare: Cell::new(None),
            note: OnceCell::new(),
        }
    };
}

struct Thread {
    /// What spreads threads over shards; `usize::MAX` until it is chosen.
    number: Cell<usize>,
    spare: Cell<Option<Arc<Shard>>>,
    note: OnceCell<Arc<Note>>,
}

/// The name of the shard that a thread's spare is home with, or `NONE`.
type Note = AtomicUsize;

const NONE: usize = 0;

/// The notes of all threads that ever gave back a spare.
static NOTES: Mutex<Vec<Weak<Note>>> = Mutex::new(Vec::new());

/// How often a spare was let go for one of another timer's, or because its thread has ended.
static TURNS_TO_ANOTHER: AtomicU64 = AtomicU64::new(0);

impl Thread {
    /// A worker takes its index in the runtime where it first uses a timer, so that no two workers of a runtime share a
    /// shard; any other thread takes a number of its own.
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

    /// The spare, if it is home and `is_wanted`.
    #[inline]
    fn lend(&self, is_wanted: impl FnOnce(&Shard) -> bool) -> Option<Arc<Shard>> {
        let spare = self.spare.take()?;
        if !is_wanted(&spare) {
            std::mem::forget(self.spare.replace(Some(spare)));
            return None;
        }
        if let Some(note) = self.note.get() {
            note.store(NONE, Ordering::Release);
        }
        Some(spare)
    }

    /// Takes a reference to this thread's own shard as the spare, if there is none. One that is home stays unless its timer
    /// has gone, so that a thread that uses two timers by turns does not turn its spare each time.
    #[inline]
    fn keep(&self, held: &mut Option<Arc<Shard>>) {
        let Some(shard) = held else { return };
        if shard.is_retired() || !shard.place.is_of(self.number()) {
            return;
        }
        if let Some(spare) = self.spare.take() {
            return self.keep_instead_of(spare, held);
        }
        let note = self.note.get_or_init(new_note);
        note.store(name_of(shard), Ordering::Release);
        // Nothing is there that would have to be dropped.
        std::mem::forget(self.spare.replace(held.take()));
    }

    fn keep_instead_of(&self, spare: Arc<Shard>, held: &mut Option<Arc<Shard>>) {
        if spare.is_retired() {
            self.turn_from(spare);
            self.keep(held);
        } else {
            self.spare.set(Some(spare));
        }
    }

    /// Lets go a spare that was home. In this order: see the head of the file.
    #[cold]
    fn turn_from(&self, spare: Arc<Shard>) {
        if let Some(note) = self.note.get() {
            note.store(NONE, Ordering::SeqCst);
        }
        TURNS_TO_ANOTHER.fetch_add(1, Ordering::SeqCst);
        count_off(spare);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(spare) = self.spare.take() {
            self.turn_from(spare);
        }
    }
}

/// Drops a reference, and has the driver see whether any is left that matters.
fn count_off(shard: Arc<Shard>) {
    if shard.is_retired() {
        let signal = shard.signal.clone();
        drop(shard);
        signal.wake_driver();
    }
}

/// The last `Timer` has gone: its shards are not needed any more once nobody holds them.
pub(crate) fn retire(shards: Box<[Arc<Shard>]>) {
    let signal = shards[0].signal.clone();
    for shard in &shards {
        shard.retire();
    }
    drop(shards);
    signal.wake_driver();
}

fn name_of(shard: &Arc<Shard>) -> usize {
    Arc::as_ptr(shard).addr()
}

#[cold]
fn new_note() -> Arc<Note> {
    let note = Arc::new(Note::new(NONE));
    let mut notes = notes();
    if notes.len() == notes.capacity() {
        notes.retain(|note| note.strong_count() > 0);
    }
    notes.push(Arc::downgrade(&note));
    note.clone()
}

fn notes() -> MutexGuard<'static, Vec<Weak<Note>>> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}
