//! Where timers lie: the slots of the levels, and how timers are linked and unlinked.
//!
//! - A *list* holds and counts the timers of one slot. It is doubly linked through the nodes by
//!   32-bit indices, so a node carries eight bytes of links and no pointer.
//! - A *rotation* is 64 slots, and a bitmap of the occupied ones. Empty slots cost no time:
//!   counting trailing zeros finds the next occupied slot. Two rotations are a level.
//!
//! Invariants:
//!
//! - A timer is armed at the finest level that reaches its due. From then on it lies at a level
//!   that reaches its due, in the slot of its own digit there. A timer whose due lies before
//!   `elapsed` is overdue, and lies in the list of its due.
//! - A node is in exactly one list, the one that its `position` and its due name. Nodes of the same
//!   due stand in the order of their arming, and after those in a coarser slot.
//! - A bit of the bitmap is set exactly while the list of its slot is not empty.
//!
//! Arming and disarming are the hot path, and each is one flat function. A node is written and read
//! in place. Copying a node just built waits for its own fields, because a core cannot forward
//! several narrow stores to one wide load.

use std::num::NonZeroU64;

use super::segments::{NONE, Segments};
use super::{Key, Wheel};

impl<T> Wheel<T> {
    /// Arms a timer with the value that `make` returns, and lends that value to the caller.
    #[inline(always)]
    pub(crate) fn arm(&mut self, due: u64, make: impl FnOnce() -> T) -> (Key, &mut T) {
        let sequence = self.next_sequence;
        self.next_sequence = sequence.saturating_add(1);
        let index = self.nodes.vacant_index();
        let (links, position) = self.append(index, due);
        let node = self.nodes.put(index, || Node {
            due,
            sequence,
            links,
            position,
            value: make(),
        });
        (Key::new(index, sequence), &mut node.value)
    }

    /// Puts a node behind all others of its due. Returns what the caller has to store in it.
    #[inline(always)]
    fn append(&mut self, index: u32, due: u64) -> (Links, Position) {
        if due < self.elapsed {
            return (self.append_overdue(index, due), Position::OVERDUE);
        }
        let position = self.position_of(due);
        (self.enter(position, index, List::behind_all), position)
    }

    #[cold]
    fn append_overdue(&mut self, index: u32, due: u64) -> Links {
        let list = self.overdue.entry(due).or_insert(List::EMPTY);
        let links = list.behind_all();
        list.insert(index, links, &mut self.nodes);
        links
    }

    /// Puts a node into a slot, where `place` says. Returns its links, for the caller to store.
    #[inline(always)]
    fn enter(
        &mut self,
        position: Position,
        index: u32,
        place: impl FnOnce(&List) -> Links,
    ) -> Links {
        let rotation = match self.rotations.get_mut(position.rotation()) {
            Some(rotation) => rotation,
            None => grow(&mut self.rotations, position),
        };
        let list = &mut rotation.slots[position.slot()];
        let links = place(list);
        list.insert(index, links, &mut self.nodes);
        // Not by `links`: compared there, they make an armed sleep a tenth dearer.
        if list.len == 1 {
            rotation.occupied |= 1 << position.slot();
        } else if list.len() == FEW + 1 {
            self.note_crowd(position);
        }
        links
    }

    /// Disarms a timer and returns what `take` returns. The emptied value is forgotten, so it must
    /// need no drop. Nothing is copied out of the storage.
    #[inline(always)]
    pub(crate) fn disarm<R>(&mut self, key: Key, take: impl FnOnce(&mut T) -> R) -> Option<R> {
        let take = |node: &mut Node<T>| key.is_of(node).then(|| take(&mut node.value));
        let (taken, ()) = self.remove_with(key.index(), take, std::mem::forget)?;
        Some(taken)
    }

    /// The timers of the slots that have begun by `now`, with their dues, in no order.
    pub(crate) fn begun_by(&self, now: u64) -> impl Iterator<Item = (u64, &T)> {
        let has_begun = move |&(number, list): &(usize, &List)| {
            let shift = shift(number / SLOTS);
            list.len > 0 && self.nodes[list.head].due >> shift <= now >> shift
        };
        let slots = self.rotations.iter().flat_map(|rotation| &rotation.slots);
        let slots = slots.enumerate().filter(has_begun).map(|(_, list)| list);
        let overdue = self.overdue.values();
        let lists = overdue.chain(slots);
        lists.flat_map(|list| {
            list.iter(&self.nodes)
                .map(|(_, node)| (node.due, &node.value))
        })
    }

    pub(crate) fn remove_at(&mut self, index: u32) -> T {
        let removed = self.remove_with(index, |_| Some(()), |node| node.value);
        removed.expect("the timer is there").1
    }

    /// Removes a node from its list and from the storage if `take` returns `Some` for it.
    #[inline(always)]
    pub(super) fn remove_with<R, V>(
        &mut self,
        index: u32,
        take: impl FnOnce(&mut Node<T>) -> Option<R>,
        rest: impl FnOnce(Node<T>) -> V,
    ) -> Option<(R, V)> {
        let take = |node: &mut Node<T>| {
            let taken = take(node)?;
            Some((taken, node.due, node.position, node.links))
        };
        let ((taken, due, position, links), rest) = self.nodes.remove_with(index, take, rest)?;
        self.unlink_from(position, links, due);
        Some((taken, rest))
    }

    /// Moves a node behind all others of this due.
    pub(crate) fn relink_at(&mut self, index: u32, due: u64) {
        self.unlink(index);
        let (links, position) = self.append(index, due);
        let node = &mut self.nodes[index];
        (node.due, node.links, node.position) = (due, links, position);
    }

    /// Moves a node from the level `from` to a finer one, before all nodes of its new slot: those
    /// with the same due were armed later.
    ///
    /// If a slot of its due on a level in between is occupied, the node goes there. Otherwise a
    /// timer of that slot with the same due would later cascade in front of the node.
    pub(super) fn cascade_node(&mut self, index: u32, from: usize) {
        self.unlink(index);
        let due = self.nodes[index].due;
        let finest = self.position_of(due);
        let position = (finest.level() + 1..from)
            .rev()
            .map(|level| Position::new(level, due >> shift(level)))
            .find(|&in_between| self.list(in_between).len() > 0)
            .unwrap_or(finest);
        let links = self.enter(position, index, List::before_all);
        let node = &mut self.nodes[index];
        (node.links, node.position) = (links, position);
    }

    /// The slot for a due not before `elapsed`, in the finest level whose present slot and the
    /// slots after it include that of the due.
    #[inline]
    fn position_of(&self, due: u64) -> Position {
        // With this bit set, a distance below two is level 0 too.
        let distance = (due - self.elapsed) | 2;
        let mut level = (distance.ilog2() - 1) / DIGIT_BITS;
        let mut shift = level * DIGIT_BITS;
        if (due >> shift) - (self.elapsed >> shift) >= SLOTS as u64 {
            level += 1;
            shift += DIGIT_BITS;
        }
        Position::new(level as usize, due >> shift)
    }

    /// The list of a slot of a level that exists.
    pub(super) fn list(&self, position: Position) -> &List {
        &self.rotations[position.rotation()].slots[position.slot()]
    }

    /// The lists of all slots, level by level.
    pub(super) fn lists(&self) -> impl Iterator<Item = &List> {
        self.rotations.iter().flat_map(|rotation| &rotation.slots)
    }

    /// Removes a node from its list, but not from the storage.
    fn unlink(&mut self, index: u32) {
        let node = &self.nodes[index];
        let (due, position, links) = (node.due, node.position, node.links);
        self.unlink_from(position, links, due);
    }

    #[inline]
    fn unlink_from(&mut self, position: Position, links: Links, due: u64) {
        let Some(rotation) = self.rotations.get_mut(position.rotation()) else {
            return self.unlink_overdue(due, links);
        };
        if rotation.slots[position.slot()].unlink(links, &mut self.nodes) {
            rotation.occupied &= !(1 << position.slot());
        }
    }

    #[cold]
    fn unlink_overdue(&mut self, due: u64, links: Links) {
        let list = self.overdue.get_mut(&due);
        if list.is_some_and(|list| list.unlink(links, &mut self.nodes)) {
            self.overdue.remove(&due);
        }
    }
}

#[cold]
#[inline(never)]
fn grow(rotations: &mut Vec<Rotation>, position: Position) -> &mut Rotation {
    rotations.resize(2 * (position.level() + 1), Rotation::EMPTY);
    &mut rotations[position.rotation()]
}

/// How many bits wider a slot is than one of the level below.
pub(crate) const DIGIT_BITS: u32 = 6;

/// The slots of a rotation: 64. A level has two rotations, and reaches from its present slot to the
/// 127th after it. So with ticks of a millisecond:
///
/// | level | a slot | the level reaches |
/// |---|---|---|
/// | 0 | 1 ms | 0.13 s |
/// | 1 | 64 ms | 8.2 s |
/// | 2 | 4.1 s | 8.7 min |
/// | 3 | 4.4 min | 9.3 h |
/// | 4 | 4.7 h | 25 days |
/// | 5 | 12 days | 4.4 years |
///
/// Level 6 reaches over 279 years, longer than any clock here. Eleven levels span every `u64`.
const ROTATION: usize = 1 << DIGIT_BITS;

/// The slots of a level: two rotations, so that the next slot of the level above fits in after the
/// present one.
pub(super) const SLOTS: usize = 2 * ROTATION;

/// A coarse slot with at most this many timers is not crowded, and waits for its time.
pub(super) const FEW: usize = if cfg!(test) { 8 } else { 256 };

/// How many levels span every `u64`.
pub(super) const MAX_LEVELS: usize = (u64::BITS - 1).div_ceil(DIGIT_BITS) as usize;

/// How far to shift a tick for the number of its slot in a level, counted from tick 0.
pub(super) fn shift(level: usize) -> u32 {
    level as u32 * DIGIT_BITS
}

/// A rotation of a level: its slots, and which of them hold timers.
#[derive(Clone)]
pub(super) struct Rotation {
    /// A bit for each slot whose list is not empty.
    pub(super) occupied: u64,
    /// The list of each slot.
    slots: [List; ROTATION],
}

impl Rotation {
    const EMPTY: Rotation = Rotation {
        occupied: 0,
        slots: [List::EMPTY; ROTATION],
    };
}

/// The list that a node is in: that of a slot of a level, or that of its due among the overdue. One
/// number holds both the level and the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(u64);

impl Position {
    /// In no rotation that can be.
    pub(super) const OVERDUE: Position = Position(u64::MAX);

    /// The slot of a level with this number, counted from tick 0.
    #[inline]
    pub(super) fn new(level: usize, number: u64) -> Position {
        Position((level * SLOTS) as u64 | (number % SLOTS as u64))
    }

    #[inline]
    pub(super) fn level(self) -> usize {
        self.0 as usize / SLOTS
    }

    #[inline]
    fn rotation(self) -> usize {
        self.0 as usize / ROTATION
    }

    #[inline]
    fn slot(self) -> usize {
        self.0 as usize % ROTATION
    }
}

/// A timer, as the storage holds it.
pub(super) struct Node<T> {
    /// The tick from which it may fire.
    pub(super) due: u64,
    /// Unique in the wheel for ever, unlike the index.
    pub(super) sequence: NonZeroU64,
    /// Its neighbours in its list.
    pub(super) links: Links,
    /// Its list.
    pub(super) position: Position,
    /// What its owner has armed it with.
    pub(super) value: T,
}

/// The neighbours of a node.
#[derive(Clone, Copy)]
pub(super) struct Links {
    /// The index of the node before it, `NONE` for the head.
    pub(super) previous: u32,
    /// The index of the node behind it, `NONE` for the tail.
    pub(super) next: u32,
}

/// The two ends of a list, and its length.
#[derive(Clone, Copy)]
pub(super) struct List {
    /// The index of the first node, or `NONE`.
    pub(super) head: u32,
    /// The index of the last node, or `NONE`.
    pub(super) tail: u32,
    /// How many nodes it has.
    len: u32,
}

impl List {
    const EMPTY: List = List {
        head: NONE,
        tail: NONE,
        len: 0,
    };

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) fn iter<'a, T>(
        &self,
        nodes: &'a Segments<Node<T>>,
    ) -> impl Iterator<Item = (u32, &'a Node<T>)> {
        let mut index = self.head;
        std::iter::from_fn(move || {
            let at = index;
            let node = (at != NONE).then(|| &nodes[at])?;
            index = node.links.next;
            Some((at, node))
        })
    }

    #[inline(always)]
    fn before_all(&self) -> Links {
        Links {
            previous: NONE,
            next: self.head,
        }
    }

    #[inline(always)]
    fn behind_all(&self) -> Links {
        Links {
            previous: self.tail,
            next: NONE,
        }
    }

    /// Puts a node between these two, which are neighbours.
    #[inline(always)]
    fn insert<T>(&mut self, index: u32, links: Links, nodes: &mut Segments<Node<T>>) {
        self.len += 1;
        self.set_neighbours(links, index, index, nodes);
    }

    /// Unlinks a node that had these links. Returns whether the list is now empty.
    #[inline(always)]
    fn unlink<T>(&mut self, links: Links, nodes: &mut Segments<Node<T>>) -> bool {
        self.len -= 1;
        self.set_neighbours(links, links.next, links.previous, nodes);
        self.len == 0
    }

    /// Makes `after` follow the previous one of `links`, and `before` precede the next one.
    #[inline(always)]
    fn set_neighbours<T>(
        &mut self,
        links: Links,
        after: u32,
        before: u32,
        nodes: &mut Segments<Node<T>>,
    ) {
        match links.previous {
            NONE => self.head = after,
            previous => nodes[previous].links.next = after,
        }
        match links.next {
            NONE => self.tail = before,
            next => nodes[next].links.previous = before,
        }
    }
}
