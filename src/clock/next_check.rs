//! A Dekker handshake: one party publishes its next check, and a thread whose change is due earlier
//! notifies it.
//!
//! The driver checks the next expiries of its shards, and the stream of a map its parts. A change
//! that the next check finds in time costs its thread a fence and a load.
//!
//! ```text
//!   the thread that makes a change             the party that checks
//!   ------------------------------             ---------------------
//!   C1  write the change                       L1  write Tick::NEVER                (`begin`)
//!       fence, sequentially consistent             fence, sequentially consistent
//!   C2  read when the next check is            L2  read all changes
//!       it is later than the change: notify    L3  write the tick of the next check (`set`)
//! ```
//!
//! **No change is lost.** Of two sequentially consistent fences one comes first. If the
//! change's fence does, L2 reads what C1 wrote. If the check's does, C2 reads the value of L1 or a
//! later one. If that is `NEVER`, the thread notifies. Otherwise it is the tick that L3 or a later
//! check wrote: either that check finds the change, or it is too late and the thread notifies.
//!
//! Invariant: only the checking party writes the tick. For the driver this is the thread that holds
//! the alarm's lock, or closes the timer.
//!
//! The loads and stores are `Acquire` and `Release`, so a thread whose C2 reads the tick of L3 also
//! sees what the party did before L3. The fences alone order C1 and C2, and L1 and L2.

use super::tick::{AtomicTick, Tick};
use crate::sync::{Ordering, fence};

/// The tick of a party's next check.
#[derive(Debug)]
pub(crate) struct NextCheck(AtomicTick);

impl NextCheck {
    /// The first check is at `tick`: by itself for `FIRST`, only if notified for `NEVER`.
    pub(crate) fn new(tick: Tick) -> NextCheck {
        NextCheck(AtomicTick::new(tick))
    }

    /// Whether the next check is in time for a change that is due at `tick`. The changing thread
    /// calls this after the change, and must notify the party if it returns `false`.
    #[inline]
    pub(crate) fn comes_by(&self, tick: Tick) -> bool {
        // Between C1 and C2: pairs with the fence between L1 and L2.
        fence(Ordering::SeqCst);
        // C2.
        self.0.get() <= tick
    }

    /// Like `comes_by`: whether the next check comes after one tick, and before another.
    pub(crate) fn lies_between(&self, after: Tick, before: Tick) -> bool {
        fence(Ordering::SeqCst);
        // C2.
        let tick = self.0.get();
        after < tick && tick < before
    }

    /// The tick that was set last, for the party itself.
    pub(crate) fn tick(&self) -> Tick {
        self.0.get_relaxed()
    }

    /// Reads all changes with `read`. A thread whose change comes after the start of this notifies.
    pub(crate) fn begin<R>(&self, read: impl FnOnce() -> R) -> R {
        // L1.
        self.set(Tick::NEVER);
        // Between L1 and L2: pairs with the fence in `comes_by`.
        fence(Ordering::SeqCst);
        // L2.
        read()
    }

    /// Sets the next check to this tick, unless a thread notifies.
    pub(crate) fn set(&self, tick: Tick) {
        // L3.
        self.0.set(tick);
    }
}
