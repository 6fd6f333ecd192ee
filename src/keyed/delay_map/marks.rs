//! The marks of a part: each makes all items due that were set before it, without a look at any of
//! them.
//!
//! The items go on waiting in the wheel until a *round* comes by them, a few for each call. It goes
//! through the indices of all items, again and again. A mark is done when no item waits for which
//! it was set.
//!
//! Invariants:
//!
//! - The marks are in the order in which they were set, so `up_to` and `at` never fall.
//! - Each has some item that waits and that no earlier one made due. So there are no more marks
//!   than items.

use std::collections::VecDeque;
use std::ops::Range;

use crate::time::tick::Moment;

#[derive(Default)]
pub(super) struct Marks {
    marks: VecDeque<Mark>,
    /// How many items wait though a mark makes them due.
    covered: usize,
    /// The index to which the round has come.
    next: u32,
}

/// All items with a number up to this are due since then.
#[derive(Clone, Copy, Debug)]
struct Mark {
    up_to: u64,
    at: Moment,
    /// The tick in which that lies.
    tick: u64,
    /// So many items wait that this one makes due, and no earlier one.
    items: usize,
}

impl Marks {
    /// Sets a mark for all items that wait, of which some are covered already. Gives how many are
    /// not.
    pub(super) fn set(&mut self, waiting: usize, up_to: u64, at: Moment, tick: u64) -> usize {
        let uncovered = waiting - self.covered;
        if uncovered > 0 {
            self.marks.push_back(Mark {
                up_to,
                at,
                tick,
                items: uncovered,
            });
            self.covered = waiting;
        }
        uncovered
    }

    /// The moment at which a mark has made the item with this number due, if one has.
    #[inline]
    pub(super) fn at(&self, number: u64) -> Option<Moment> {
        if self.marks.is_empty() {
            return None;
        }
        let first = self.marks.partition_point(|mark| mark.up_to < number);
        self.marks.get(first).map(|mark| mark.at)
    }

    /// An item that waited does so no more, or has another number.
    #[inline]
    pub(super) fn forget(&mut self, number: u64) {
        if self.marks.is_empty() {
            return;
        }
        let first = self.marks.partition_point(|mark| mark.up_to < number);
        let Some(mark) = self.marks.get_mut(first) else {
            return;
        };
        self.covered -= 1;
        mark.items -= 1;
        if self.covered == 0 {
            *self = Marks::default();
        } else if mark.items == 0 {
            self.marks.remove(first);
        }
    }

    /// The tick of the first mark that is not done.
    #[inline]
    pub(super) fn earliest(&self) -> Option<u64> {
        self.marks.front().map(|mark| mark.tick)
    }

    /// Has the round begin anew, because the items have other indices now.
    pub(super) fn begin_round(&mut self) {
        self.next = 0;
    }

    /// The next indices of the round, at most so many of those before `end`.
    pub(super) fn next_of_round(&self, most: u32, end: u32) -> Range<u32> {
        let from = self.next.min(end);
        from..from.saturating_add(most).min(end)
    }

    /// The round has come to `next`, where `end` is the end of the indices.
    pub(super) fn came_to(&mut self, next: u32, end: u32) {
        self.next = if next >= end { 0 } else { next };
    }
}
