//! When one party looks next at what many others change, and which of them must tell it to look
//! earlier.
//!
//! One party *checks*: the driver looks at the next expiries of its shards, and the stream of a map
//! looks at its parts. It says at which tick it looks next. Many others make *changes*. Each change
//! is due at a tick. A thread that makes a change before the next check must tell it. Every other
//! change costs its thread a load.
//!
//! ```text
//!   the thread that makes a change             the party that looks
//!   ------------------------------             --------------------
//!   C1  write the change                       L1  write: I look at Tick::NEVER       (`begin`)
//!       fence, sequentially consistent             fence, sequentially consistent
//!   C2  read when the next check is             L2  read all changes
//!       it is later than the change: tell      L3  write: I look at that tick   (`at`)
//! ```
//!
//! **No change is lost.** Of two sequentially consistent fences one comes first. If the fence of
//! the change comes first, L2 reads what C1 wrote, and the look counts it. If the fence of the look
//! comes first, C2 reads what L1 wrote, or something later. That may be `NEVER`, and then the
//! change is told. Or it is the tick that L3 or a later look wrote. If that tick is early enough,
//! the look at it finds the change. If it is not, the change is told.
//!
//! Invariant: only the party that looks writes the tick.
//!
//! The loads and stores are `Acquire` and `Release`. So a thread whose C2 reads the tick of L3 also
//! sees what the look did before L3. The order of C1 and C2, and of L1 and L2, comes from the
//! fences alone.

use super::tick::Tick;
use crate::sync::{AtomicU64, Ordering, fence};

/// A tick before every other one. The party looks by itself, and nobody need tell it anything.
const BY_ITSELF: Tick = Tick::FIRST;

#[derive(Debug)]
pub(crate) struct NextCheck(AtomicU64);

impl NextCheck {
    /// The party does not look before it is told.
    pub(crate) fn never() -> NextCheck {
        NextCheck(AtomicU64::new(Tick::NEVER.get()))
    }

    /// The party looks by itself first.
    pub(crate) fn by_itself() -> NextCheck {
        NextCheck(AtomicU64::new(BY_ITSELF.get()))
    }

    /// Whether the party looks in time at a change that is due at `tick`. The thread that made the
    /// change calls this after it. If this is `false`, that thread must tell.
    #[inline]
    pub(crate) fn comes_by(&self, tick: Tick) -> bool {
        // Between C1 and C2: pairs with the fence between L1 and L2.
        fence(Ordering::SeqCst);
        // C2. Acquire: pairs with the Release in `at`.
        self.0.load(Ordering::Acquire) <= tick.get()
    }

    /// The party reads all changes with `read`. A thread that makes one after it has begun tells.
    pub(crate) fn begin<R>(&self, read: impl FnOnce() -> R) -> R {
        // L1.
        self.0.store(Tick::NEVER.get(), Ordering::Release);
        // Between L1 and L2: pairs with the fence in `comes_by`.
        fence(Ordering::SeqCst);
        // L2.
        read()
    }

    /// The next check is at that tick, if nobody tells.
    pub(crate) fn at(&self, tick: Tick) {
        // L3. Release: pairs with the Acquire in `comes_by`.
        self.0.store(tick.get(), Ordering::Release);
    }

    /// From now on the party looks by itself.
    pub(crate) fn look_by_itself(&self) {
        self.at(BY_ITSELF);
    }
}
