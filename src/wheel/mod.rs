//! The wheel alone: a hierarchy of timing wheels with no async, no clock and no lock.
//!
//! It is for simulations, other runtimes, and code that advances a wheel by hand. A [`Wheel`] knows
//! only *ticks*, and its owner decides what a tick is: the owner passes the current tick, and the
//! wheel returns the timers that are due.
//!
//! ```
//! use tickwheel::wheel::Wheel;
//!
//! let mut wheel = Wheel::new();
//! let keepalive = wheel.insert(300, "keepalive");
//! let request = wheel.insert(20, "request");
//! wheel.insert(20, "another request");
//!
//! assert_eq!(wheel.next_turn(), Some(20));
//! assert_eq!(wheel.remove(request), Some("request")); // it completed in time
//! assert!(wheel.reset(keepalive, 1_000)); // a heartbeat came
//! assert_eq!(wheel.advance(500).collect::<Vec<_>>(), [(20, "another request")]);
//! assert_eq!(wheel.advance(1_000).collect::<Vec<_>>(), [(1_000, "keepalive")]);
//! ```
//!
//! # Usage
//!
//! | to | call |
//! |---|---|
//! | arm a timer, take it out, move it | [`insert`](Wheel::insert), [`remove`](Wheel::remove), [`reset`](Wheel::reset) |
//! | fire what is due | [`advance`](Wheel::advance), or [`pop_due`](Wheel::pop_due) where the key is needed or the wheel changes meanwhile |
//! | know how far to jump or to sleep | [`next_turn`](Wheel::next_turn) |
//! | look | [`get`](Wheel::get), [`now`](Wheel::now), [`len`](Wheel::len), [`is_empty`](Wheel::is_empty), [`levels`](Wheel::levels) |
//! | start again | [`clear`](Wheel::clear) |
//!
//! # What is stable
//!
//! The calls of the table, in what order timers fire, and that no timer is due before `next_turn`.
//! How many levels and slots there are, and which ticks `next_turn` names beyond that, may change
//! in any version. A call that is not on this page is for `DelayQueue` of `tickwheel-util`. It
//! stays for the releases of that crate which need it, and is no promise to others.
//!
//! # How it works
//!
//! This is scheme 7 of Varghese and Lauck (*Hashed and hierarchical timing wheels*, 1987). Overflow
//! levels are made on demand, as in Kafka's purgatory. A slot of level 0 is one tick wide, and a
//! slot of each further level 64 times as wide as one of the level before. A level has 128 slots:
//! two rotations, each as long as one slot of the level above.
//!
//! ```text
//!   elapsed = 69_500   timer due at 84_000, which is 14_500 ticks ahead
//!   level 2   [ . . . . X . . . ]   4096 ticks a slot: slot 20, which starts at 81_920
//!   level 1   [ . . . . . X . . ]   64 ticks a slot: from 77_824 on, when slot 20 is the next one,
//!                                   or at 81_920 it cascades to slot 1_312, which starts at 83_968
//!   level 0   [ . . . X . . . . ]   one tick a slot: and on to slot 84_000, its exact tick
//! ```
//!
//! The wheel has worked up to the tick `elapsed`. A timer is armed in the finest level that reaches
//! its due. A level reaches over its present slot and the 127 after it. So the distance at which a
//! timer was armed decides whether it cascades, not the boundaries of the levels. A timer that is
//! armed at most 127 ticks ahead of `elapsed` never cascades. The code rests on two consequences:
//!
//! 1. `elapsed` may jump to any tick up to the start of the earliest slot, and every timer still
//!    lies in its right slot. Advancing over a century is one step if no occupied slot starts in
//!    it.
//! 2. Of two timers with the same due, the one armed first lies in the same level or in a coarser
//!    one. So a cascade links each timer before all others of its due, and ties fire in insertion
//!    order.
//!
//! A crowded coarse slot is emptied before its time, some timers each turn; see `turn`.
//!
//! To insert and cancel costs less than in `nexus-timer`, a wheel with unsafe code: see
//! [the comparison](crate::docs::compare).
//!
//! Eleven levels span every `u64`, so there is no largest delay. Nodes lie in segments of 8 to 512
//! places, and are linked by `u32` indices. A [`Key`] is an index and an insertion number.

// Invariants:
//
// - No timer of a level is due before `elapsed`, and `elapsed` is never later than `now`.
// - No two timers of a wheel have the same key, whenever they are armed.

mod debug;
mod key;
mod segment;
mod segments;
mod slots;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::BTreeMap;
use std::iter::FusedIterator;
use std::num::NonZeroU64;

pub(crate) use debug::SlotCounts;
pub use key::Key;
pub(crate) use key::PackedKey;
use segments::Segments;
pub(crate) use slots::DIGIT_BITS;
use slots::{List, Node, Rotation};
use turn::Early;
pub(crate) use turn::Found;

/// A hierarchy of timing wheels over `u64` ticks. Each timer carries a `T`.
///
/// | operation | cost |
/// |---|---|
/// | [`insert`](Wheel::insert) | O(1) |
/// | [`remove`](Wheel::remove), [`reset`](Wheel::reset) | O(1) |
/// | [`advance`](Wheel::advance) | the timers that fire or cascade and the slots that hold them; not the ticks passed. Advancing by one tick cascades at most 1,024 timers of each level ahead of their time, or a 32nd of those due in the next 64 ticks if that is more |
/// | [`pop_due`](Wheel::pop_due) | as [`advance`](Wheel::advance), up to the timer that it returns |
/// | [`next_turn`](Wheel::next_turn) | O(1) |
/// | [`get`](Wheel::get), [`len`](Wheel::len), [`levels`](Wheel::levels) | O(1) |
/// | [`clear`](Wheel::clear) | every place of the storage, used or not |
///
/// Timers inserted after their due wait in an ordered map, at O(log n) of their number.
///
/// A timer takes `size_of::<T>()` and about 32 bytes more. The storage is segments of some 16 to 32
/// KiB, or of eight timers if those need more. It grows by one segment at a time, and a segment is
/// freed with its last timer, in whatever order the timers go. One empty segment of at most 32 KiB
/// is kept. So no call moves the timers of a large wheel, and a timer that stays keeps one segment.
/// See the [module](self) for an example.
// What each call writes in the wheel itself comes first: the sequence, and how far a segment is
// filled. An owner that writes its lock before, on the same cache line, asks another core for that
// line alone.
#[repr(C)]
pub struct Wheel<T> {
    /// That of the next key. It never comes again.
    next_sequence: NonZeroU64,
    /// The storage of all timers.
    nodes: Segments<Node<T>>,
    /// Two for each level that may hold a timer.
    rotations: Vec<Rotation>,
    /// The tick that the wheel has worked up to. No timer in the levels is due before it.
    elapsed: u64,
    /// The earliest tick at which a slot crowded since the last turn fits into the finer level.
    crowded: u64,
    /// The tick that the owner passed. Ahead of `elapsed` only while an advance is unfinished.
    now: u64,
    /// What is left to cascade ahead of time at the present tick.
    early: Early,
    /// Timers in no level, by due: their due lay before `elapsed` when they were linked.
    overdue: BTreeMap<u64, List>,
}

/// How many bytes of it, the first ones, an insert and a removal write while it has one segment.
#[cfg(test)]
pub(crate) const WRITTEN: usize = 16;

impl<T> Wheel<T> {
    /// Makes an empty wheel at tick 0.
    ///
    /// It allocates nothing. An owner that does not count from 0 advances the empty wheel to its
    /// first tick, which takes one step however far that is.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// assert_eq!(wheel.pop_due(1_735_689_600), None); // seconds since 1970, for example
    /// assert_eq!(wheel.now(), 1_735_689_600);
    ///
    /// wheel.insert(1_735_689_620, "request");
    /// assert_eq!(wheel.next_turn(), Some(1_735_689_620));
    /// ```
    pub fn new() -> Self {
        Wheel {
            nodes: Segments::new(),
            rotations: Vec::new(),
            elapsed: 0,
            now: 0,
            overdue: BTreeMap::new(),
            crowded: u64::MAX,
            early: Early::default(),
            next_sequence: NonZeroU64::MIN,
        }
    }

    /// Arms a timer for tick `due`, and returns its key.
    ///
    /// A timer whose due has passed fires at the next [`advance`](Wheel::advance). Timers of the
    /// same due fire in the order in which they were inserted.
    ///
    /// # Panics
    ///
    /// If the wheel would hold about four billion timers, which need at least 137 GB of memory.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(20, "request");
    /// wheel.insert(u64::MAX, "there is no largest delay");
    /// assert_eq!(wheel.advance(1_000).next(), Some((20, "request")));
    ///
    /// wheel.insert(7, "due long ago");
    /// assert_eq!(wheel.advance(1_000).next(), Some((7, "due long ago")));
    /// ```
    #[inline]
    pub fn insert(&mut self, due: u64, value: T) -> Key {
        self.arm(due, || value).0
    }

    /// Disarms a timer and returns its value, or `None` if it has fired or was removed.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let [answered, late] = [wheel.insert(20, "answered"), wheel.insert(20, "late")];
    /// assert_eq!(wheel.remove(answered), Some("answered"));
    /// assert_eq!(wheel.remove(answered), None);
    ///
    /// assert_eq!(wheel.advance(20).next(), Some((20, "late")));
    /// assert_eq!(wheel.remove(late), None, "it has fired");
    /// ```
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let is_it = |node: &mut Node<T>| key.is_of(node).then_some(());
        let ((), value) = self.remove_with(key.index(), is_it, |node| node.value)?;
        Some(value)
    }

    /// Moves a timer to `due`, earlier or later. Returns `false` if it has fired or was removed.
    ///
    /// The key stays the same. Among timers of the same due, the timer now comes last, as if it had
    /// just been inserted. As there, a due that has passed fires at the next advance.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let keepalive = wheel.insert(300, "keepalive");
    /// wheel.insert(400, "inserted before the heartbeat");
    /// assert!(wheel.reset(keepalive, 400), "a heartbeat in time");
    ///
    /// let fired: Vec<_> = wheel.advance(400).map(|(_due, name)| name).collect();
    /// assert_eq!(fired, ["inserted before the heartbeat", "keepalive"]);
    /// assert!(!wheel.reset(keepalive, 700), "too late");
    /// ```
    pub fn reset(&mut self, key: Key, due: u64) -> bool {
        if self.get(key).is_none() {
            return false;
        }
        self.relink_at(key.index(), due);
        true
    }

    /// Moves the wheel to tick `now`, and yields the due timers in order of due, ties in insertion
    /// order.
    ///
    /// Each item is a due and a value. If you drop the iterator early, the next advance yields the
    /// rest. A `now` before [`Wheel::now`] counts as [`Wheel::now`].
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// for due in [3, 1, 2] {
    ///     wheel.insert(due, ());
    /// }
    /// assert_eq!(wheel.advance(9).next(), Some((1, ())));
    /// assert_eq!(wheel.advance(9).map(|(due, ())| due).collect::<Vec<_>>(), [2, 3]);
    /// ```
    pub fn advance(&mut self, now: u64) -> Advance<'_, T> {
        self.now = self.now.max(now);
        Advance(self)
    }

    /// Moves the wheel to tick `now`, and removes the first timer that is due by then. Returns its
    /// key, the due that it was armed for, and its value, or `None` if nothing is due.
    ///
    /// This is [`advance`](Wheel::advance) by one timer, and includes its key.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let late = wheel.insert(20, "late");
    /// let early = wheel.insert(10, "early");
    /// assert_eq!(wheel.pop_due(15), Some((early, 10, "early")));
    /// assert_eq!(wheel.pop_due(15), None);
    /// assert_eq!(wheel.pop_due(20), Some((late, 20, "late")));
    /// ```
    pub fn pop_due(&mut self, now: u64) -> Option<(Key, u64, T)> {
        let mut budget = usize::MAX;
        let Found::Due(index) = self.find_due(now, &mut budget) else {
            return None;
        };
        let Node { due, sequence, .. } = self.nodes[index];
        Some((Key::new(index, sequence), due, self.remove_at(index)))
    }

    /// Returns the tick of the next turn with work to do, or `None` if the wheel is empty. No timer
    /// is due earlier.
    ///
    /// This is the earliest due, with two exceptions. If a coarse slot of more than a few timers
    /// starts before the earliest due, it is the start of that slot. If a crowded coarse slot has
    /// to be emptied ahead of its time, it is the tick at which that begins. After that it is the
    /// next tick. So an [`advance`](Wheel::advance) by a tick fires what is due, and cascades no
    /// more than the table above says.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.extend([(5_000, "keepalive"), (20, "request"), (9_000, "session")]);
    ///
    /// // A simulation jumps from one turn to the next. The ticks between them cost nothing.
    /// let mut events = Vec::new();
    /// while let Some(tick) = wheel.next_turn() {
    ///     events.extend(wheel.advance(tick));
    /// }
    /// assert_eq!(events, [(20, "request"), (5_000, "keepalive"), (9_000, "session")]);
    /// ```
    pub fn next_turn(&self) -> Option<u64> {
        self.next_due().map(|due| self.early_before(due))
    }

    /// Returns the value of a timer, or `None` if it has fired or was removed. O(1).
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, "request");
    /// assert_eq!(wheel.get(key), Some(&"request"));
    /// wheel.remove(key);
    /// assert_eq!(wheel.get(key), None);
    /// ```
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.node(key).map(|node| &node.value)
    }

    /// Returns the tick that the wheel was last advanced to.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns how many timers are armed.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns how many levels there are: 1 when fresh, more on overflow, fewer once the top is
    /// empty.
    ///
    /// A timer more than 127 ticks ahead lies above the first level, and cascades at least once
    /// before it fires. If most timers do, ticks of a longer time save work.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(127, "near");
    /// assert_eq!(wheel.levels(), 1);
    /// let far = wheel.insert(128, "a tick too far for the first level");
    /// assert_eq!(wheel.levels(), 2);
    /// wheel.remove(far);
    /// assert_eq!(wheel.levels(), 1);
    /// ```
    pub fn levels(&self) -> usize {
        let is_occupied = |rotation: &Rotation| rotation.occupied != 0;
        let last = self.rotations.iter().rposition(is_occupied);
        last.map_or(1, |last| last / 2 + 1)
    }

    /// Drops every timer without firing it, and frees the memory.
    ///
    /// [`now`](Wheel::now) stays, and no earlier key ever finds a later timer. If dropping a value
    /// panics, the wheel is still empty and usable.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// assert_eq!(wheel.pop_due(500), None);
    /// let key = wheel.insert(520, ());
    /// wheel.clear();
    /// assert!(wheel.is_empty() && wheel.get(key).is_none());
    /// assert_eq!(wheel.now(), 500);
    /// ```
    pub fn clear(&mut self) {
        drop(self.take_all());
    }
}

/// Calls for `DelayQueue` of `tickwheel-util`. The head of the [module](self) says what is stable.
#[doc(hidden)]
impl<T> Wheel<T> {
    /// Returns the tick of the next turn for a timer that was just armed at `due`: that tick, or an
    /// earlier one if a coarse slot has become crowded since the last turn. O(1).
    ///
    /// An owner that sleeps until [`next_turn`](Wheel::next_turn) asks this after each insert and
    /// reset, in place of finding the next turn again. If it is earlier, the owner wakes earlier.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(5_000, "keepalive");
    /// let sleeps_until = wheel.next_turn().unwrap();
    /// wheel.insert(20, "request");
    /// assert!(wheel.turn_for(20) < sleeps_until, "set the alarm earlier");
    /// ```
    #[inline]
    pub fn turn_for(&self, due: u64) -> u64 {
        due.min(self.crowded)
    }

    /// Returns the key of the timer that fires first, due or not, or `None` if the wheel is empty.
    ///
    /// O(1) if no coarse slot begins before it is due, else the timers of such slots, which may be
    /// very many.
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// wheel.insert(5_000, "late");
    /// let early = wheel.insert(4_500, "early");
    /// wheel.insert(4_500, "early, but armed later");
    /// assert_eq!(wheel.first(), Some(early));
    /// ```
    pub fn first(&self) -> Option<Key> {
        let index = self.earliest(usize::MAX)?.index;
        Some(Key::new(index, self.nodes[index].sequence))
    }

    /// Returns the tick at which a timer is due, or `None` if it has fired or was removed. O(1).
    ///
    /// This is the due given to [`insert`](Wheel::insert) or to the last [`reset`](Wheel::reset),
    /// even if it lies before [`now`](Wheel::now).
    ///
    /// ```
    /// # use tickwheel::wheel::Wheel;
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(20, ());
    /// assert_eq!(wheel.due(key), Some(20));
    /// wheel.reset(key, 300);
    /// assert_eq!(wheel.due(key), Some(300));
    /// ```
    #[inline]
    pub fn due(&self, key: Key) -> Option<u64> {
        self.node(key).map(|node| node.due)
    }
}

impl<T> Wheel<T> {
    /// Empties the wheel, at the same tick. The returned iterator owns the memory.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        let empty = Wheel {
            next_sequence: self.next_sequence,
            elapsed: self.now,
            now: self.now,
            ..Wheel::new()
        };
        let Wheel { nodes, overdue, .. } = std::mem::replace(self, empty);
        nodes.into_nodes().map(move |node| {
            // Freed with the nodes, because the map may be as large.
            let _ = &overdue;
            node.value
        })
    }

    /// The value of a timer, to be changed. The due stays as it is.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let node = self.nodes.get_mut(key.index())?;
        key.is_of(node).then_some(&mut node.value)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().map(|node| &mut node.value)
    }

    pub(crate) fn inserted(&self) -> u64 {
        self.next_sequence.get() - 1
    }
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Arms a timer for each due and value, as [`Wheel::insert`] does, for timers that need no key. So
/// one wheel can take over the timers that [`Wheel::advance`] of another yields.
///
/// ```
/// # use tickwheel::wheel::Wheel;
/// let mut wheel = Wheel::new();
/// wheel.extend([(20, "late"), (10, "early")]);
/// assert_eq!(wheel.advance(15).next(), Some((10, "early")));
/// ```
impl<T> Extend<(u64, T)> for Wheel<T> {
    fn extend<I: IntoIterator<Item = (u64, T)>>(&mut self, timers: I) {
        for (due, value) in timers {
            self.insert(due, value);
        }
    }
}

/// Removes and yields due timers: [`Wheel::advance`]. A type of its own without a `Drop`, so a loop
/// that takes one timer at a time may arm others.
///
/// ```
/// use tickwheel::wheel::Wheel;
///
/// let mut wheel = Wheel::new();
/// wheel.insert(1, "each three ticks");
/// while let Some((due, name)) = wheel.advance(10).next() {
///     println!("{name}: {due}");
///     wheel.insert(due + 3, name);
/// }
/// assert_eq!(wheel.next_turn(), Some(13));
/// ```
#[derive(Debug)]
#[must_use = "due timers stay in the wheel until the iterator takes them out"]
pub struct Advance<'a, T>(&'a mut Wheel<T>);

impl<T> Iterator for Advance<'_, T> {
    type Item = (u64, T);

    fn next(&mut self) -> Option<(u64, T)> {
        let (_, due, value) = self.0.pop_due(self.0.now)?;
        Some((due, value))
    }
}

impl<T> FusedIterator for Advance<'_, T> {}
