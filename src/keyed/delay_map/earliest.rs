//! The earliest tick of each part of a [`DelayMap`](super::DelayMap), and which part comes first.
//!
//! Invariant: whenever the lock of a part is free, nothing in the part is due before its tick here,
//! which may be too early. Only a thread with the part's lock writes the tick.
//!
//! The stream remembers which part is first ([`First`]). It compares all parts again after each
//! lowered tick: a thread that sets an item later may have read the clock earlier.

use crate::clock::tick::{AtomicTick, Tick};
use crate::sync::{AtomicBool, Ordering};

pub(crate) struct Earliest {
    pub(super) parts: Box<[AtomicTick]>,
    pub(super) was_lowered: Flag,
}

/// Set after a tick was lowered, cleared before the parts are compared. On a cache line of its own,
/// because each call that sets a due reads where the ticks are.
#[repr(align(64))]
pub(super) struct Flag(AtomicBool);

#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) part: usize,
    /// Up to this tick no item of another part comes before this part's.
    pub(crate) up_to: Tick,
}

impl Earliest {
    pub(crate) fn new(parts: usize) -> Earliest {
        let never = || AtomicTick::new(Tick::NEVER);
        Earliest {
            parts: (0..parts).map(|_| never()).collect(),
            was_lowered: Flag(AtomicBool::new(false)),
        }
    }

    /// The tick of each part. The reader's next reading of the clock is no earlier than the
    /// writer's. The fences of `clock::next_check` make the stream see a tick in time.
    fn all(&self) -> impl Iterator<Item = Tick> {
        self.parts.iter().map(AtomicTick::get)
    }

    pub(crate) fn of_all(&self) -> Tick {
        self.all().min().unwrap_or(Tick::NEVER)
    }

    /// Writes the tick of a locked part. Returns the previous one.
    #[inline]
    pub(crate) fn write(&self, part: usize, tick: Tick) -> Tick {
        let written = &self.parts[part];
        let before = written.get_relaxed();
        if tick != before {
            written.set(tick);
        }
        if tick < before {
            // Release: pairs with the swap in `first`, and carries the tick. A store in place of
            // the swap would hide the tick of another thread.
            self.was_lowered.0.swap(true, Ordering::Release);
        }
        before
    }

    /// Like `write`, but keeps an earlier tick. Returns whether it has lowered the tick.
    #[inline]
    pub(crate) fn lower(&self, part: usize, tick: Tick) -> bool {
        let is_earlier = tick < self.parts[part].get_relaxed();
        if is_earlier {
            self.write(part, tick);
        }
        is_earlier
    }

    /// The part with the smallest earliest tick, the lowest number on ties. `None` if that tick,
    /// which may be too early, is later than `by`. `remembered` is a result for this `by` or an
    /// earlier one.
    pub(crate) fn first(&self, by: Tick, remembered: Option<First>) -> Option<First> {
        if self.was_lowered.0.load(Ordering::Relaxed) {
            // Acquire: see `write`.
            self.was_lowered.0.swap(false, Ordering::Acquire);
        } else if remembered.is_some() {
            return remembered;
        }
        let (mut first, mut number) = (Tick::NEVER, 0);
        let mut up_to = by;
        for (part, tick) in self.all().enumerate() {
            if tick < first {
                // Of two parts with one tick, this one comes later.
                up_to = up_to.min(first.before().unwrap_or(Tick::FIRST));
                (first, number) = (tick, part);
            } else {
                up_to = up_to.min(tick);
            }
        }
        (first <= by).then_some(First {
            part: number,
            up_to,
        })
    }
}
