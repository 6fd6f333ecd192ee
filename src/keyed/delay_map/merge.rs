//! How the stream knows which part has the first of all that is due. It does not look at all parts
//! for each value.
//!
//! Several parts may have something that was due at one moment. The names tell which of it comes
//! first, and only the parts know the names. So the stream asks for their first names once, and
//! keeps them.
//!
//! Invariant: while the states' count of changes is `as_of`, no part has anything that comes before
//! what its entry says. An entry may be too early, because calls take items out. So the stream
//! takes a value only if that was due when the entry says.

use super::due_queue::Name;
use super::states::States;
use crate::time::tick::{Moment, NEVER};

/// A tournament: each entry above the leaves is the earlier one of the two below it.
#[derive(Default)]
pub(super) struct Merge {
    /// The entry at `1` is the winner, and the last half are the leaves. The leaf of a part has the
    /// bits of the moment at which the first of what is due in the part was due.
    firsts: Vec<u64>,
    /// The first names of the parts, as far as they were asked for.
    names: Vec<Asked>,
    /// The count of changes when the states were read.
    as_of: Option<u64>,
}

/// Whether a part was asked for its first name, and the answer.
#[derive(Clone, Copy)]
enum Asked {
    Not,
    /// `None` if nothing was due in the part any more.
    Name(Option<Name>),
}

/// The first of all that is due.
pub(super) struct First {
    /// The bits of the moment at which it was due.
    pub(super) due: u64,
    pub(super) part: usize,
    /// Whether another part has something that was due at the same moment.
    pub(super) is_tied: bool,
}

impl Merge {
    /// Reads the states if something in them has become earlier.
    #[inline]
    pub(super) fn refresh(&mut self, states: &States) {
        // The count is read before the states, as `States` asks for.
        let changes = states.changes();
        if self.as_of != Some(changes) {
            self.read(states);
            self.as_of = Some(changes);
        }
    }

    fn read(&mut self, states: &States) {
        let parts = states.len();
        self.names.clear();
        self.names.resize(parts, Asked::Not);
        self.firsts.clear();
        self.firsts.resize(parts, NEVER);
        self.firsts.extend(states.first_dues());
        for entry in (1..parts).rev() {
            self.firsts[entry] = self.firsts[2 * entry].min(self.firsts[2 * entry + 1]);
        }
    }

    /// The first of all entries, if it was due by that moment.
    pub(super) fn first_by(&self, by: Moment) -> Option<First> {
        let due = self.firsts[1];
        if due == NEVER || Moment::from_bits(due) > by {
            return None;
        }
        let parts = self.firsts.len() / 2;
        let (mut entry, mut is_tied) = (1, false);
        while entry < parts {
            let (one, other) = (self.firsts[2 * entry], self.firsts[2 * entry + 1]);
            is_tied |= one == other;
            entry = 2 * entry + usize::from(one != due);
        }
        Some(First {
            due,
            part: entry - parts,
            is_tied,
        })
    }

    /// The part that has the first of all that was due at this moment.
    pub(super) fn first_of_ties(
        &mut self,
        due: u64,
        ask: impl Fn(usize) -> Option<Name>,
    ) -> Option<usize> {
        let parts = self.names.len();
        let tied = (0..parts).filter(|part| self.firsts[parts + part] == due);
        let named = tied.map(|part| {
            let name = match self.names[part] {
                Asked::Name(name) => name,
                Asked::Not => ask(part),
            };
            self.names[part] = Asked::Name(name);
            ((name.is_none(), name), part)
        });
        named.min().map(|(_, part)| part)
    }

    /// Says what is due first in a part now.
    pub(super) fn set(&mut self, part: usize, first: Option<Name>) {
        self.names[part] = Asked::Name(first);
        let due = first.map_or(NEVER, |name| name.due_at.to_bits());
        let mut entry = self.firsts.len() / 2 + part;
        self.firsts[entry] = due;
        while entry > 1 {
            let earlier = self.firsts[entry].min(self.firsts[entry ^ 1]);
            entry /= 2;
            self.firsts[entry] = earlier;
        }
    }
}
