//! The earliest tick of each part of a [`DelayMap`](super::DelayMap), which any thread reads
//! without a lock, and which part comes first.
//!
//! Invariant: whenever the lock of a part is free, nothing in the part is due before its tick here,
//! which may be too early. Only a thread with the part's lock writes the tick.
//!
//! The stream remembers which part is first, and up to which tick ([`First`]). What is set later is
//! due at the present tick or after it, so it does not come before that. But a thread may have read
//! the clock before the stream did, so each tick that is lowered makes the stream compare all parts
//! again.

use crate::clock::tick::{AtomicTick, Tick};
use crate::sync::{AtomicBool, Ordering};

pub(crate) struct Earliest {
    parts: Box<[AtomicTick]>,
    /// Set after a tick was lowered, cleared before the parts are compared.
    was_lowered: AtomicBool,
}

/// A part of which the caller holds the lock. So no call compiles that writes a tick after it.
pub(crate) trait HeldPart {
    fn index(&self) -> usize;
}

/// The part that comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) part: usize,
    /// Up to this tick nothing in another part comes before what is in this one.
    pub(crate) limit: Tick,
}

impl Earliest {
    pub(crate) fn new(parts: usize) -> Earliest {
        let never = || AtomicTick::new(Tick::NEVER);
        Earliest {
            parts: (0..parts).map(|_| never()).collect(),
            was_lowered: AtomicBool::new(false),
        }
    }

    /// The tick before which nothing is due in a part.
    pub(crate) fn of(&self, part: usize) -> Tick {
        // The reader's next reading of the clock is no earlier than the writer's. The fences of
        // `clock::next_check` make the stream see the tick in time.
        self.parts[part].get()
    }

    pub(crate) fn of_all(&self) -> Tick {
        let all = (0..self.parts.len()).map(|part| self.of(part));
        all.min().unwrap_or(Tick::NEVER)
    }

    /// Writes the tick of a part. Returns the one before it.
    pub(crate) fn write(&self, part: &impl HeldPart, tick: Tick) -> Tick {
        let written = &self.parts[part.index()];
        let before = written.about();
        if tick != before {
            written.set(tick);
        }
        if tick < before {
            self.lowered();
        }
        before
    }

    /// As `write`, but leaves a tick that is earlier. Returns whether it has lowered the tick.
    #[inline]
    pub(crate) fn lower(&self, part: &impl HeldPart, tick: Tick) -> bool {
        let written = &self.parts[part.index()];
        let is_earlier = tick < written.about();
        if is_earlier {
            written.set(tick);
            self.lowered();
        }
        is_earlier
    }

    fn lowered(&self) {
        // Release: pairs with the swap in `first`, and carries the tick. A swap, and not a store,
        // because that would hide the tick of another thread.
        self.was_lowered.swap(true, Ordering::Release);
    }

    /// The part whose earliest tick is the smallest, the lowest number on ties, if that tick is no
    /// later than `by`. That tick may be too early. `remembered` is the answer of another call with
    /// no later `by`.
    pub(crate) fn first(&self, by: Tick, remembered: Option<First>) -> Option<First> {
        if self.was_lowered.load(Ordering::Relaxed) {
            // Acquire: as said in `lowered`.
            self.was_lowered.swap(false, Ordering::Acquire);
        } else if remembered.is_some() {
            return remembered;
        }
        let (mut first, mut number) = (Tick::NEVER, 0);
        let mut limit = by;
        for part in 0..self.parts.len() {
            let tick = self.of(part);
            if tick < first {
                // Of two parts with one tick, this one comes later.
                limit = limit.min(first.before().unwrap_or(Tick::FIRST));
                (first, number) = (tick, part);
            } else {
                limit = limit.min(tick);
            }
        }
        (first <= by).then_some(First {
            part: number,
            limit,
        })
    }
}
