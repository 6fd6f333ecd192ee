//! The marks of a part: each makes all items due that were set before it, without a look at any of
//! them.
//!
//! The items wait on in the wheel until a *round* comes by them, a few in each call. The round goes
//! through the indices of all items, again and again. A mark is done when none of the items that it
//! made due waits any more.
//!
//! Invariants:
//!
//! - The marks are in the order in which they were set, so `up_to` and `at` never fall.
//! - For each mark, some item waits that this mark made due, and no earlier mark did. So there are
//!   no more marks than items.

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

/// Makes all items due since `at` that have a number up to `up_to`.
#[derive(Clone, Copy, Debug)]
struct Mark {
    up_to: u64,
    at: Moment,
    /// The tick in which `at` lies.
    tick: u64,
    /// How many items wait that this mark makes due, and no earlier mark does.
    items: usize,
}

impl Marks {
    /// Sets a mark for all items that wait. Earlier marks cover some of them. Gives how many they
    /// do not cover.
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

    /// To be called when an item with this number waits no more, or before it gets another number.
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

    /// Begins the round anew, because the items have other indices now.
    pub(super) fn begin_round(&mut self) {
        self.next = 0;
    }

    /// The next indices of the round, at most `most` of those before `end`.
    pub(super) fn next_of_round(&self, most: u32, end: u32) -> Range<u32> {
        let from = self.next.min(end);
        from..from.saturating_add(most).min(end)
    }

    /// The round has come to `next`, where `end` is the end of the indices.
    pub(super) fn came_to(&mut self, next: u32, end: u32) {
        self.next = if next >= end { 0 } else { next };
    }
}
