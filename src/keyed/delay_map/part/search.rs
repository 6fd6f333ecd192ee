//! How a part finds what is due in it, and how all of it is made due.
//!
//! An item is found in one of two ways. Its tick comes, and the wheel gives it. Or a mark has made
//! it due, and the round of the [marks](crate::keyed::delay_map::marks) comes by it.
//!
//! Invariant: a search looks at no more items than its budget allows. `expire_all` looks only at
//! what the wheel gives, and at what was found before.

use super::{Part, is_good};
use crate::keyed::delay_map::due_queue::Named;
use crate::keyed::delay_map::marks::Marks;
use crate::time::tick::Moment;

impl<K, V> Part<K, V> {
    /// Moves on towards a tick, and takes each item that it looks at from the budget. Gives whether
    /// all that is due by that tick was found.
    pub(in crate::keyed::delay_map) fn advance(&mut self, now: u64, budget: &mut usize) -> bool {
        self.find_expired(now, budget) && self.find_due(now, budget)
    }

    /// Makes everything due, and gives how many items were not due at `now`. `now` lies in the tick
    /// `present`, and `tick` is the first one that has not begun before `now`.
    pub(in crate::keyed::delay_map) fn expire_all(
        &mut self,
        now: Moment,
        tick: u64,
        present: u64,
    ) -> usize {
        let mut all = usize::MAX;
        self.find_due(tick, &mut all);
        // What is found, though it lies ahead by a fraction of a tick.
        let items = &self.items;
        let ahead = self.due.after(now).filter(|named| is_good(items, named));
        let ahead: Vec<u32> = ahead.map(|named| named.index).collect();
        let pending = ahead.len();
        for index in ahead {
            self.make_due(index, now);
        }
        self.uncover();
        let waiting = self.items.len() - self.due.len();
        pending + self.marks.set(waiting, self.settings, now, present)
    }

    /// Finds some of what is due by a tick. Gives whether all of it was found.
    fn find_due(&mut self, now: u64, budget: &mut usize) -> bool {
        let (due, marks) = (&mut self.due, &mut self.marks);
        let begun = due.begin_search();
        let is_all = self.items.detach_due(now, budget, |index, item| {
            item.due_at = item.told_deadline(marks);
            marks.forget(item.number);
            let name = item.name();
            due.add_found(Named { name, index });
        });
        due.end_search(begun);
        is_all
    }

    /// Finds some of what was made due by marks that were set up to a tick. Gives whether all of it
    /// was found.
    fn find_expired(&mut self, now: u64, budget: &mut usize) -> bool {
        let is_unfinished = |marks: &Marks| marks.earliest().is_some_and(|tick| tick <= now);
        if !is_unfinished(&self.marks) {
            return true;
        }
        let end = self.items.end_of_indices();
        let most = u32::try_from(*budget).unwrap_or(u32::MAX);
        let round = self.marks.next_of_round(most, end);
        *budget -= round.len();
        let next = round.end;
        let waits = |&index: &u32| !self.items.is_detached(index);
        let waiting: Vec<u32> = self.items.indices(round).filter(waits).collect();
        for index in waiting {
            if let Some(at) = self.marks.at(self.items.at(index).number) {
                self.make_due(index, at);
            }
        }
        self.marks.came_to(next, end);
        !is_unfinished(&self.marks)
    }
}
