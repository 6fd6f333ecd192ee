//! The clock of one current-thread runtime, for a caller on any thread.
//!
//! Invariant: time is what that runtime says. Once the clock was stopped, it stands still.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::thread;

use crate::runtime::{self, Handle};
use tokio::time::Instant;

use crate::time::tick::Moment;

/// The clock of a current-thread runtime.
#[derive(Debug)]
pub(super) struct RuntimeClock {
    runtime: runtime::Id,
    epoch: Instant,
    /// The latest reading, as a moment's bits.
    last_reading: AtomicU64,
    /// Whether the clock was seen to be paused, or to have been paused.
    was_virtual: AtomicBool,
    /// When the clock stopped, once the runtime has shut down.
    stopped: OnceLock<Instant>,
    /// `None` once the clock has stopped. Nothing panics under this lock, and its content is whole
    /// at any time. So poison is ignored.
    handle: RwLock<Option<Handle>>,
}

impl RuntimeClock {
    pub(super) fn new(handle: &Handle, epoch: Instant) -> RuntimeClock {
        RuntimeClock {
            runtime: handle.id(),
            epoch,
            last_reading: AtomicU64::new(0),
            was_virtual: AtomicBool::new(false),
            stopped: OnceLock::new(),
            handle: RwLock::new(Some(handle.clone())),
        }
    }

    /// The present reading. `None` if the calling thread cannot read the clock.
    pub(super) fn read(&self) -> Option<Instant> {
        if let Some(stopped) = self.stopped.get() {
            return Some(*stopped);
        }
        let now = match Handle::try_current() {
            Ok(current) if current.id() == self.runtime => Instant::now(),
            Err(error) if error.is_thread_local_destroyed() => self.read_on_another_thread()?,
            // Where tokio drops a future that it refuses to spawn, no code can enter another
            // context. The only sign of it is that this looks like a task outside of any runtime.
            _ if runtime::try_id().is_some() && runtime::worker_index().is_none() => {
                self.read_on_another_thread()?
            }
            _ => self.read_from_outside(),
        };
        let since = now.saturating_duration_since(self.epoch);
        let reading = Moment::after_epoch(since).to_bits();
        // AcqRel: pairs with the Acquire in `last_reading`. Nothing but the number counts.
        self.last_reading.fetch_max(reading, Ordering::AcqRel);
        Some(now)
    }

    /// Whether it is the clock of that runtime, and runs.
    pub(super) fn is_of(&self, runtime: &Handle) -> bool {
        runtime.id() == self.runtime && self.stopped.get().is_none()
    }

    /// The latest reading.
    pub(super) fn last_reading(&self) -> Moment {
        // Acquire: pairs with the AcqRel in `read`.
        Moment::from_bits(self.last_reading.load(Ordering::Acquire))
    }

    /// Notes that the clock was seen to be paused, or to have been paused.
    pub(super) fn note_virtual(&self) {
        // Relaxed, here and below: a thread that sees it late counts some readings for nothing.
        self.was_virtual.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn was_virtual(&self) -> bool {
        self.was_virtual.load(Ordering::Relaxed)
    }

    fn read_from_outside(&self) -> Instant {
        let handle = self.handle.read().unwrap_or_else(PoisonError::into_inner);
        match (&*handle, self.stopped.get()) {
            (Some(handle), _) => {
                let _context = handle.enter();
                Instant::now()
            }
            (None, Some(stopped)) => *stopped,
            (None, None) => self.epoch,
        }
    }

    fn read_on_another_thread(&self) -> Option<Instant> {
        thread::scope(|scope| {
            let reading = thread::Builder::new().spawn_scoped(scope, || self.read_from_outside());
            reading.ok()?.join().ok()
        })
    }

    /// Stops the clock and forgets the runtime, so that its timers keep nothing of it in memory.
    /// Gives when the clock stopped.
    pub(super) fn stop(&self) -> Option<Instant> {
        let now = self.read()?;
        let at = *self.stopped.get_or_init(|| now);
        let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
        let forgotten = handle.take();
        drop(handle);
        drop(forgotten);
        Some(at)
    }
}
