//! The marks of a part: each makes all items due that were set before it, without a look at any of
//! them.
//!
//! The items go on waiting in the wheel until a *round* comes by them, a few for each call. It goes
//! through the indices of all items, again and again. A mark is done when the round has come to
//! where it was when the mark was set.
//!
//! Invariants:
//!
//! - The marks are in the order in which they were set, so `up_to` and `at` never fall.
//! - Each was set for some item that no other made due, and none is left when nothing is covered.
//!   So there are no more marks than items.

use std::collections::VecDeque;
use std::ops::Range;

use crate::tick::Moment;

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
    /// Where the round was.
    from: u32,
    /// Whether the round has come to its end since.
    wrapped: bool,
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
                from: self.next,
                wrapped: false,
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
        if self.at(number).is_some() {
            self.covered -= 1;
            if self.covered == 0 {
                *self = Marks::default();
            }
        }
    }

    /// The tick of the first mark that is not done.
    #[inline]
    pub(super) fn earliest(&self) -> Option<u64> {
        self.marks.front().map(|mark| mark.tick)
    }

    /// The next indices of the round, at most so many of those before `end`.
    pub(super) fn next_of_round(&self, most: u32, end: u32) -> Range<u32> {
        let from = self.next.min(end);
        from..from.saturating_add(most).min(end)
    }

    /// The round has come by all items before `next`, where `end` is the end of the indices.
    pub(super) fn came_to(&mut self, next: u32, end: u32) {
        self.next = next;
        let comes_to_the_end = next >= end;
        if comes_to_the_end {
            self.next = 0;
        }
        for mark in &mut self.marks {
            // A second end: the place from where it began has gone since.
            if comes_to_the_end {
                mark.from = if mark.wrapped { 0 } else { mark.from };
                mark.wrapped = true;
            }
        }
        while self
            .marks
            .front()
            .is_some_and(|mark| mark.wrapped && self.next >= mark.from)
        {
            self.marks.pop_front();
        }
    }
}
