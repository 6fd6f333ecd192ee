//! What the handles of a [`DelayMap`](super::DelayMap) and its stream share, and how one wakes the other.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::part::{Due, DueItem, Item, Part};
use crate::clock::Clock;
use crate::places::Places;
use crate::shard::{NEVER, Shard};
use crate::table::Table;
use crate::tick::Span;
use crate::timer::Timer;
use crate::waking::wake;

pub(super) struct Inner<K, V> {
    pub(super) timer: Timer,
    /// The shard of the stream's alarm; its clock is the map's.
    pub(super) shard: Arc<Shard>,
    pub(super) table: Table<Part<K, V>>,
    pub(super) places: Places,
    /// How many handles of the map there are.
    pub(super) handles: AtomicUsize,
    closed: AtomicBool,
    /// For each part: nothing that waits in it is due before this tick. Written under the part's lock.
    earliest: Box<[AtomicU64]>,
    /// The tick at which the stream looks next; zero while it is not waiting.
    planned: AtomicU64,
    /// Who waits for the stream.
    waiting: Mutex<Option<Waker>>,
}

/// A locked part, and which it is.
pub(super) struct Locked<'a, K, V> {
    part: MutexGuard<'a, Part<K, V>>,
    number: usize,
}

impl<K, V> std::ops::Deref for Locked<'_, K, V> {
    type Target = Part<K, V>;

    fn deref(&self) -> &Part<K, V> {
        &self.part
    }
}

impl<K, V> std::ops::DerefMut for Locked<'_, K, V> {
    fn deref_mut(&mut self) -> &mut Part<K, V> {
        &mut self.part
    }
}

impl<K, V> Inner<K, V> {
    pub(super) fn new(timer: &Timer, limit: usize) -> Inner<K, V> {
        let table = Table::new(Part::new);
        Inner {
            timer: timer.clone(),
            shard: timer.shard().clone(),
            earliest: (0..table.parts()).map(|_| AtomicU64::new(NEVER)).collect(),
            table,
            places: Places::new(limit),
            handles: AtomicUsize::new(1),
            closed: AtomicBool::new(false),
            planned: AtomicU64::new(0),
            waiting: Mutex::new(None),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.shard.clock()
    }

    /// When something is due that is set now. What is due at once waits for no tick to begin.
    pub(super) fn due_after(&self, delay: Duration) -> Due {
        let now = self.clock().now();
        let deadline = now.after(Span::from(delay));
        let tick = if deadline <= now {
            0
        } else {
            self.clock().tick().due(deadline)
        };
        Due { deadline, tick }
    }

    pub(super) fn lock(&self, hash: u64) -> Locked<'_, K, V> {
        self.lock_part(self.table.part_of(hash))
    }

    fn lock_part(&self, number: usize) -> Locked<'_, K, V> {
        Locked {
            part: self.table.lock_part(number),
            number,
        }
    }

    /// To be called after a part was changed: lets the part go, and wakes the stream if it must plan again.
    pub(super) fn plan_again(&self, part: Locked<'_, K, V>) {
        let earliest = part.earliest().unwrap_or(NEVER);
        let before = self.earliest[part.number].swap(earliest, Ordering::SeqCst);
        drop(part);
        let planned = self.planned.load(Ordering::SeqCst);
        let too_late = earliest < planned;
        // On the system's clock one look too early is cheaper than waking the stream.
        let too_early = before <= planned && earliest > planned && self.clock().is_pausable();
        if too_late || too_early {
            self.wake_stream();
        }
    }

    pub(super) fn expire_all(&self) -> usize {
        let now = self.clock().now();
        let mut pending = 0;
        {
            let mut parts = self.table.lock_all();
            for (part, earliest) in parts.iter_mut().zip(&self.earliest) {
                pending += part.expire_all(now);
                earliest.store(part.earliest().unwrap_or(NEVER), Ordering::SeqCst);
            }
        }
        self.wake_stream();
        pending
    }

    pub(super) fn take_all(&self, close: bool) -> Vec<(K, V)> {
        let mut taken = Vec::new();
        {
            let mut parts = self.table.lock_all();
            for (part, earliest) in parts.iter_mut().zip(&self.earliest) {
                part.closed |= close;
                let items = part.take_all();
                self.places.give_back(items.len());
                taken.extend(items.into_iter().map(|(_, item)| (item.key, item.value)));
                earliest.store(NEVER, Ordering::SeqCst);
            }
            if close {
                self.closed.store(true, Ordering::SeqCst);
            }
        }
        self.wake_stream();
        taken
    }

    /// Has whoever waits for the stream poll it.
    pub(super) fn wake_stream(&self) {
        let waiting = self.waiting().take();
        if let Some(waker) = waiting {
            wake(waker);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For the stream.
impl<K, V> Inner<K, V> {
    /// Finds what is due at tick `now`, in the order of the deadlines.
    pub(super) fn find_due(&self, now: u64, due: &mut Vec<DueItem>) {
        for number in 0..self.table.parts() {
            if self.earliest[number].load(Ordering::SeqCst) <= now {
                let mut part = self.lock_part(number);
                part.advance(now, number, due);
                self.earliest[number].store(part.earliest().unwrap_or(NEVER), Ordering::SeqCst);
            }
        }
        due.sort_unstable();
    }

    /// Takes out an item that was found due, unless somebody was faster.
    pub(super) fn take_due(&self, due: DueItem) -> Option<Item<K, V>> {
        let item = self.lock_part(due.part).take_due(due)?;
        self.places.give_back(1);
        Some(item)
    }

    /// The stream is not waiting: nobody needs to wake it.
    pub(super) fn stop_waiting(&self) {
        self.planned.store(0, Ordering::SeqCst);
    }

    /// The stream is going to wait, with this waker. Gives the tick until which it may.
    pub(super) fn start_waiting(&self, waker: &Waker) -> u64 {
        let replaced = {
            let mut waiting = self.waiting();
            match &*waiting {
                Some(current) if current.will_wake(waker) => None,
                _ => waiting.replace(waker.clone()),
            }
        };
        drop(replaced);
        loop {
            let earliest = self.earliest_of_all();
            self.planned.store(earliest, Ordering::SeqCst);
            // Something earlier may have come between the two lines, when nobody could see this plan yet.
            if self.earliest_of_all() >= earliest {
                return earliest;
            }
        }
    }

    /// Whether nothing will come any more. To be asked after `start_waiting`, or a wake-up may be lost.
    pub(super) fn is_finished(&self) -> bool {
        let nothing_comes =
            self.closed.load(Ordering::SeqCst) || self.handles.load(Ordering::SeqCst) == 0;
        nothing_comes && self.places.taken() == 0 || self.timer.has_ended()
    }

    fn earliest_of_all(&self) -> u64 {
        self.earliest
            .iter()
            .map(|earliest| earliest.load(Ordering::SeqCst))
            .min()
            .unwrap_or(NEVER)
    }
}
