//! The names of what is due in a part, in the order in which they come out.
//!
//! Searches of the wheel find items nearly in order, because they follow time. So a name that comes
//! after all those of the run is appended to that sorted run. Only other names go into a heap.
//!
//! Invariants:
//!
//! - Those names of the run that are not taken are in order.
//! - A name is *stale* once its item was set anew or taken out, and *good* before that. The stale
//!   ones are counted. At most `KEPT` of them are there, or no more than there are good ones. After
//!   `uncover` the first name is good.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::tick::Moment;

/// What tells an item among those that are due, and orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) due_at: Moment,
    pub(super) deadline: Moment,
    pub(super) number: u64,
}

/// A name, and the index of the item that has it or had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) name: Name,
    pub(super) index: u32,
}

pub(super) struct DueQueue {
    run: Vec<Named>,
    /// How many names at the start of the run were taken.
    taken: usize,
    /// The names that were not added in order, with the first one on top.
    heap: BinaryHeap<Reverse<Named>>,
    /// How many names are stale.
    stale: usize,
}

/// The memory of no more names than this is not worth giving back.
const KEPT: usize = 256;

impl DueQueue {
    pub(super) const fn new() -> DueQueue {
        DueQueue {
            run: Vec::new(),
            taken: 0,
            heap: BinaryHeap::new(),
            stale: 0,
        }
    }

    pub(super) fn first(&self) -> Option<&Named> {
        match (self.run.get(self.taken), self.heap.peek()) {
            (Some(run), Some(Reverse(heap))) => Some(run.min(heap)),
            (run, heap) => run.or(heap.map(|Reverse(heap)| heap)),
        }
    }

    /// Takes the first name out. The next one may be stale until `uncover`.
    pub(super) fn take_first(&mut self) -> Option<Named> {
        let first = *self.first()?;
        if self.run.get(self.taken) == Some(&first) {
            self.taken += 1;
            if self.taken > KEPT && 2 * self.taken > self.run.len() {
                self.run.drain(..self.taken);
                self.taken = 0;
                shrink(&mut self.run);
            }
        } else {
            self.heap.pop();
            self.shrink_heap();
        }
        Some(first)
    }

    /// Adds the name of an item that was made due at once.
    pub(super) fn push(&mut self, named: Named) {
        if self.run.last().is_none_or(|last| *last <= named) {
            self.run.push(named);
        } else {
            self.heap.push(Reverse(named));
        }
    }

    /// Where a search begins to add names. To be given to `end_search`.
    pub(super) fn begin_search(&self) -> usize {
        self.run.len()
    }

    /// Adds the name of an item that a search has found.
    pub(super) fn add_found(&mut self, named: Named) {
        self.run.push(named);
    }

    /// Sorts what a search has added.
    pub(super) fn end_search(&mut self, begun: usize) {
        let (before, found) = self.run.split_at_mut(begun);
        found.sort_unstable();
        let Some(last) = before.get(self.taken..).and_then(<[Named]>::last) else {
            return;
        };
        let late = found.partition_point(|named| named < last);
        if late > 0 {
            self.heap
                .extend(self.run.drain(begun..begun + late).map(Reverse));
        }
    }

    /// How many good names there are.
    pub(super) fn len(&self) -> usize {
        self.names() - self.stale
    }

    /// The names of what is due after `now`: all good ones, and perhaps some stale ones.
    pub(super) fn after(&self, now: Moment) -> impl Iterator<Item = &Named> {
        let heap = self.heap.iter().map(|Reverse(named)| named);
        let run = &self.run[self.taken..];
        let first = run.partition_point(|named| named.name.due_at <= now);
        let is_after = move |named: &&Named| named.name.due_at > now;
        run[first..].iter().chain(heap.filter(is_after))
    }

    /// An item has lost its name. To be followed by `uncover`.
    pub(super) fn note_stale(&mut self) {
        self.stale += 1;
    }

    /// Takes stale names from the front, so that the first one is good. Takes all stale ones once
    /// there are more of them than good ones, at an amortised constant cost.
    #[inline]
    pub(super) fn uncover(&mut self, is_good: impl Fn(&Named) -> bool) {
        if self.stale > 0 {
            self.take_stale(is_good);
        }
        if self.names() == 0 && self.run.capacity() + self.heap.capacity() > 2 * KEPT {
            // An empty queue that was long gives its memory back.
            *self = DueQueue::new();
        }
    }

    fn take_stale(&mut self, is_good: impl Fn(&Named) -> bool) {
        if self.stale > KEPT && 2 * self.stale > self.names() {
            self.run.drain(..self.taken);
            self.taken = 0;
            self.run.retain(&is_good);
            self.heap.retain(|Reverse(named)| is_good(named));
            self.stale = 0;
            shrink(&mut self.run);
            self.shrink_heap();
            return;
        }
        while self.first().is_some_and(|named| !is_good(named)) {
            self.take_first();
            self.stale -= 1;
        }
    }

    fn shrink_heap(&mut self) {
        if self.heap.capacity() > KEPT.max(8 * self.heap.len()) {
            self.heap.shrink_to(2 * self.heap.len());
        }
    }

    fn names(&self) -> usize {
        self.run.len() - self.taken + self.heap.len()
    }
}

fn shrink(run: &mut Vec<Named>) {
    if run.capacity() > KEPT.max(8 * run.len()) {
        run.shrink_to(2 * run.len());
    }
}
