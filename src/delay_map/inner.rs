//! What the handles of a [`DelayMap`](super::DelayMap) and its stream share, and how one wakes the other.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::alarm::Alarm;
use super::part::{DueItem, Item, Part, Setting};
use crate::clock::Clock;
use crate::driver::Watch;
use crate::due::Due;
use crate::places::Places;
use crate::shard::{Hold, NEVER, NotArmed, Polled};
use crate::table::Table;
use crate::tick::Moment;
use crate::timer::Timer;
use crate::waking::wake;
use crate::wheel::Key;

pub(super) struct Inner<K, V> {
    pub(super) timer: Timer,
    /// The shard of the stream's alarm; its clock is the map's.
    shard: Hold,
    /// The stream ends with the runtime, though it may wait with nothing armed.
    _watch: Option<Watch>,
    pub(super) table: Table<Part<K, V>>,
    pub(super) places: Places,
    /// How many handles of the map there are.
    pub(super) handles: AtomicUsize,
    closed: AtomicBool,
    /// The number of the next setting of an item, on a clock that can be paused.
    next_number: AtomicU64,
    /// For each part: nothing that waits in it is due before this tick. Written under the part's lock.
    earliest: Box<[AtomicU64]>,
    /// The tick at which the stream looks next; zero while it is not waiting.
    planned: AtomicU64,
    /// What wakes the stream then.
    alarm: Mutex<Alarm>,
    /// Who waits for the stream.
    waiting: Mutex<Option<Waker>>,
}

/// The timer's runtime has gone.
#[derive(Debug)]
pub(super) struct Closed;

/// A locked part, and which it is.
pub(super) struct Locked<'a, K, V> {
    pub(super) part: MutexGuard<'a, Part<K, V>>,
    number: usize,
}

impl<K, V> Inner<K, V> {
    pub(super) fn new(timer: &Timer, limit: usize) -> Inner<K, V> {
        let shard = timer.hold();
        let table = Table::new(shard.clock(), Part::new);
        Inner {
            timer: timer.clone(),
            _watch: timer.watch(),
            earliest: (0..table.parts()).map(|_| AtomicU64::new(NEVER)).collect(),
            alarm: Mutex::new(Alarm::default()),
            shard,
            table,
            places: Places::new(limit),
            handles: AtomicUsize::new(1),
            closed: AtomicBool::new(false),
            next_number: AtomicU64::new(0),
            planned: AtomicU64::new(0),
            waiting: Mutex::new(None),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.shard.clock()
    }

    /// How something is set now that is due at `deadline` of now. What is due already waits for no tick to begin.
    ///
    /// To be called with the part locked: of two resets of a key, the one that sets it last has then read the clock last.
    pub(super) fn due_now(&self, deadline: impl FnOnce(Moment) -> Moment) -> Setting {
        let now = self.clock().now();
        let deadline = deadline(now);
        let tick = if deadline <= now {
            0
        } else {
            self.clock().tick().due(deadline)
        };
        // One count for all keys would be one cache line for all cores. Where there is but one core to use it, it makes
        // ties come out in the order in which they were set.
        let one_count = self.clock().is_pausable();
        let number = one_count.then(|| self.next_number.fetch_add(1, Ordering::Relaxed));
        Setting {
            deadline,
            tick,
            number,
        }
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

    /// To be called after a part was changed: lets the part go, and sees to it that the stream looks in time, and on a
    /// clock that can be paused not too early.
    pub(super) fn plan_again(&self, Locked { part, number }: Locked<'_, K, V>) {
        let earliest = part.earliest().unwrap_or(NEVER);
        let before = self.earliest[number].swap(earliest, Ordering::SeqCst);
        drop(part);
        if earliest < self.planned.load(Ordering::SeqCst) {
            self.wake_stream();
        }
        if before < earliest {
            self.put_alarm_off();
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
        if close {
            self.wake_stream();
        }
        self.put_alarm_off();
        taken
    }

    /// Has whoever waits for the stream poll it.
    pub(super) fn wake_stream(&self) {
        let waiting = self.waiting().take();
        if let Some(waker) = waiting {
            wake(waker);
        }
    }

    /// On a clock that can be paused: moves the alarm to the earliest due, or it would pull virtual time along. Whether or
    /// not anybody polls the stream now, so it is not left to the stream. On the system's clock one look too early
    /// is cheaper.
    fn put_alarm_off(&self) {
        if self.clock().is_pausable() {
            let mut alarm = self.alarm();
            let earliest = loop {
                let earliest = self.earliest_of_all();
                // Only ever raised here: one that is too late wakes the stream for nothing, one that is too early would
                // not wake it for what is due between the two.
                let raise = |planned| (planned != 0 && planned < earliest).then_some(earliest);
                let _ = self
                    .planned
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, raise);
                if self.earliest_of_all() == earliest {
                    break earliest;
                }
            };
            alarm.put_off_to(&self.shard, earliest);
        }
    }

    fn earliest_of_all(&self) -> u64 {
        self.earliest
            .iter()
            .map(|earliest| earliest.load(Ordering::SeqCst))
            .min()
            .unwrap_or(NEVER)
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alarm(&self) -> MutexGuard<'_, Alarm> {
        self.alarm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For the stream.
impl<K, V> Inner<K, V> {
    /// Finds at most about so many items that are due at tick `now`. Gives the tick before which nothing is due that was
    /// not found.
    pub(super) fn find_due(&self, now: u64, budget: usize, mut found: impl FnMut(DueItem)) -> u64 {
        let budget = budget.div_ceil(self.table.parts());
        for number in 0..self.table.parts() {
            if self.earliest[number].load(Ordering::SeqCst) <= now {
                let Locked { mut part, .. } = self.lock_part(number);
                part.advance(now, budget, number, &mut found);
                self.earliest[number].store(part.earliest().unwrap_or(NEVER), Ordering::SeqCst);
            }
        }
        self.earliest_of_all()
    }

    /// The tick before which nothing is due that was not found.
    pub(super) fn found_until(&self) -> u64 {
        self.earliest_of_all()
    }

    /// Takes out an item that was found due, unless somebody was faster.
    pub(super) fn take_due(&self, due: DueItem) -> Option<Item<K, V>> {
        let Locked { mut part, .. } = self.lock_part(due.part);
        let item = part.take_due(due)?;
        self.places.give_back(1);
        Some(item)
    }

    /// The stream is not waiting: nobody needs to wake it.
    pub(super) fn stop_waiting(&self) {
        self.planned.store(0, Ordering::SeqCst);
    }

    /// The stream is going to wait, with this waker.
    pub(super) fn start_waiting(&self, waker: &Waker) {
        if self
            .waiting()
            .as_ref()
            .is_some_and(|current| current.will_wake(waker))
        {
            return;
        }
        // Wakers are cloned and dropped under no lock.
        let clone = waker.clone();
        let replaced = self.waiting().replace(clone);
        drop(replaced);
    }

    /// Sets the alarm to the earliest due and polls it. To be called after `start_waiting`.
    pub(super) fn poll_alarm(&self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        loop {
            let Some(key) = self.set_alarm_to_earliest() else {
                // Armed for no time at first, so that a removal which comes before it is set is not overlooked.
                match self.shard.arm_for_never(cx.waker().clone()) {
                    Ok(key) => self.alarm().armed(key, NEVER),
                    Err(NotArmed::Fired) => {}
                    Err(NotArmed::Closed) => return Poll::Ready(Err(Closed)),
                }
                continue;
            };
            // The alarm's lock is let go: a waker is cloned and dropped here.
            return match self.shard.poll_armed(key, Due::At(Moment::MAX), cx.waker()) {
                Polled::Pending => Poll::Pending,
                Polled::Closed => Poll::Ready(Err(Closed)),
                Polled::Fired => {
                    self.alarm().take();
                    Poll::Ready(Ok(()))
                }
            };
        }
    }

    fn set_alarm_to_earliest(&self) -> Option<Key> {
        let mut alarm = self.alarm();
        loop {
            let earliest = self.earliest_of_all();
            self.planned.store(earliest, Ordering::SeqCst);
            // Another due may have become the earliest between the two lines, when nobody could see this plan yet.
            if self.earliest_of_all() == earliest {
                return alarm.move_to(&self.shard, earliest);
            }
        }
    }

    /// The stream has ended: nothing of it stays armed.
    pub(super) fn stop_alarm(&self) {
        let armed = self.alarm().take();
        if let Some(key) = armed {
            self.shard.disarm(key);
        }
        let waiting = self.waiting().take();
        drop(waiting);
    }

    /// Whether nothing will come any more. To be asked after `start_waiting`, or a wake-up may be lost.
    pub(super) fn is_finished(&self) -> bool {
        let nothing_comes =
            self.closed.load(Ordering::SeqCst) || self.handles.load(Ordering::SeqCst) == 0;
        nothing_comes && self.places.taken() == 0
    }
}
