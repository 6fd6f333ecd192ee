//! When somebody looks next at what many others change, and who has to tell it to look earlier.
//!
//! One party *looks*: the driver at the plans of its shards, the stream of a map at its parts. It
//! says at which tick it looks next. Many others make *changes*: each is due at a tick. A change
//! that is due before the next look has to be told; all others cost the one who makes it a load.
//!
//! ```text
//!   who makes a change                         who looks
//!   ------------------                         ---------
//!   C1  write the change                       L1  write: I look at NEVER       (`begin`)
//!       fence, sequentially consistent             fence, sequentially consistent
//!   C2  read when the next look is             L2  read all changes
//!       it is later than the change: tell      L3  write: I look at that tick   (`at`)
//! ```
//!
//! **No change is lost.** Of two sequentially consistent fences one comes first. If that of the
//! change does, L2 reads what C1 wrote, and the look counts it. If that of the look does, C2 reads
//! what L1 wrote or something later. That may be `NEVER`: then the change is told. Or it is what L3
//! or a later look wrote: if that is early enough, the look at that tick finds the change; else it
//! is told.
//!
//! Invariant: only the party that looks writes the tick, but for `put_off`, which its user orders.
//!
//! The loads and stores are `Acquire` and `Release` because what C2 reads at L3 has to come with
//! what the look did before it. The order of C1 and C2, and of L1 and L2, comes from the fences
//! alone.

use super::tick::NEVER;
use crate::sync::{AtomicU64, Ordering, fence};

/// Before every tick: it looks by itself, and need not be told of anything.
const BY_ITSELF: u64 = 0;

#[derive(Debug)]
pub(crate) struct NextLook(AtomicU64);

impl NextLook {
    /// Nobody looks before it is told to.
    pub(crate) fn never() -> NextLook {
        NextLook(AtomicU64::new(NEVER))
    }

    /// Somebody looks by itself first.
    pub(crate) fn by_itself() -> NextLook {
        NextLook(AtomicU64::new(BY_ITSELF))
    }

    /// Whether a change that is due at `tick` is looked at in time. To be called after the change
    /// was made; if not, the one who made it has to tell.
    #[inline]
    pub(crate) fn comes_by(&self, tick: u64) -> bool {
        // Between C1 and C2.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Acquire) <= tick
    }

    /// From here on all changes are read; who makes one after that tells.
    pub(crate) fn begin(&self) {
        self.0.store(NEVER, Ordering::Release);
        // Between L1 and L2.
        fence(Ordering::SeqCst);
    }

    /// The next look is at that tick, if nobody tells.
    pub(crate) fn at(&self, tick: u64) {
        self.0.store(tick, Ordering::Release);
    }

    /// It looks by itself from here on.
    pub(crate) fn is_by_itself(&self) {
        self.at(BY_ITSELF);
    }

    /// For who reads all changes in the place of the party that looks: as `begin`, unless that
    /// looks by itself. Then nothing is to be done, and this is `false`.
    pub(crate) fn begin_for_another(&self) -> bool {
        let put_off = |at| (at != BY_ITSELF).then_some(NEVER);
        let before = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, put_off);
        // As in `begin`.
        fence(Ordering::SeqCst);
        before.is_ok()
    }

    /// After `begin_for_another`: the next look is at that tick, unless the party that looks has
    /// said something else.
    pub(crate) fn at_for_another(&self, tick: u64) {
        let _ = self
            .0
            .compare_exchange(NEVER, tick, Ordering::AcqRel, Ordering::Acquire);
    }
}
