//! The runtime's own timer: one for each runtime, made on first use and found again without a
//! global lock. And the process's timer, on a thread of its own, under no runtime.
//!
//! A thread remembers the shard that it used last, with the id of the runtime and the thread's
//! worker index, and the hot path compares these two. Otherwise the thread searches the timers that
//! it used before, and then the registry of all runtimes, under a lock.
//!
//! A timer that learns of the end of its runtime releases the runtime's resources.
//!
//! Invariant: the registry keeps no timer alive. A runtime's own timer lives while a thread
//! remembers it, or a caller holds it or waits on it; a later use makes a new one. At most one
//! timer of the process exists. After a failed start of its thread, the next use tries again.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *An id is used again.* tokio may give a new runtime the id of one that has shut down. If
//!   anything was armed on the old runtime's timer, that timer is marked as ended by then, and is
//!   never found again. So far tokio reuses no id.
//! - *Two threads make the timer at once.* Each makes one outside the lock. The first to come is
//!   registered, and the other thread takes that one. An unused timer does nothing.
//! - *The runtime shuts down while its timer is made, or before.* Arming on it finds that out.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};

use super::thread_shard::note_driven;
use super::{Builder, Timer, WeakTimer};
use crate::runtime;
use crate::runtime::{Handle, TryCurrentError};
use crate::shard::Shard;
use crate::sync::lock;

thread_local! {
    static LATEST: RefCell<Option<Latest>> = const { RefCell::new(None) };

    /// The timer used last comes last.
    static REMEMBERED: RefCell<Vec<(runtime::Id, Timer)>> = const { RefCell::new(Vec::new()) };
}

std::thread_local! {
    /// Whether this thread has found a timer as a worker.
    static HAS_FOUND: Cell<bool> = const { Cell::new(false) };
}

struct Latest {
    runtime: runtime::Id,
    worker: Option<usize>,
    shard: Arc<Shard>,
}

const MOST_REMEMBERED: usize = 8;

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Registry {
    timers: HashMap<runtime::Id, WeakTimer>,
    /// Above this length, the entries of dropped timers are removed.
    sweep_at: usize,
}

#[track_caller]
pub(crate) fn timer() -> Timer {
    look_up(&current_runtime())
}

#[track_caller]
#[inline]
pub(crate) fn shard() -> Arc<Shard> {
    let runtime = current_runtime();
    match latest(runtime.id()) {
        Some(shard) => shard,
        None => look_up(&runtime).shard().clone(),
    }
}

/// The shard on which the calling thread arms: of the current runtime's own timer, or of the
/// process's timer outside of a runtime.
pub(crate) fn shard_of_poller() -> Arc<Shard> {
    match Handle::try_current() {
        Ok(runtime) => match latest(runtime.id()) {
            Some(shard) => shard,
            None => look_up(&runtime).shard().clone(),
        },
        Err(_) => global_shard(),
    }
}

/// Whether this thread drives a runtime. A thread that has found no timer yet finds the runtime's
/// now, so that the call panics where the runtime has no time driver. On another runtime later, the
/// poll panics.
#[inline]
#[track_caller]
pub(crate) fn ensure_worker_timer() -> bool {
    runtime::worker_index().is_some() && (HAS_FOUND.with(Cell::get) || find_first())
}

#[cold]
#[track_caller]
fn find_first() -> bool {
    drop(look_up(&current_runtime()));
    true
}

/// A handle of the current runtime. Cloning and dropping it write a count that all threads share.
/// tokio offers the runtime's id in no other way.
#[inline]
#[track_caller]
fn current_runtime() -> Handle {
    match Handle::try_current() {
        Ok(runtime) => runtime,
        Err(error) => panic_outside(&error),
    }
}

/// This thread's last shard, if the runtime and the worker are still the same.
#[inline]
fn latest(runtime: runtime::Id) -> Option<Arc<Shard>> {
    let find = |latest: &RefCell<Option<Latest>>| {
        let latest = latest.borrow();
        let found = latest.as_ref().filter(|latest| {
            latest.runtime == runtime
                && latest.worker == runtime::worker_index()
                && !latest.shard.clock().has_ended()
        });
        found.map(|latest| latest.shard.clone())
    };
    LATEST.try_with(find).ok().flatten()
}

#[cold]
#[inline(never)]
#[track_caller]
fn look_up(runtime: &Handle) -> Timer {
    let id = runtime.id();
    let timer = match remembered(id).or_else(|| registered(id)) {
        Some(timer) => timer,
        None => make(runtime),
    };
    if runtime::worker_index().is_some() {
        note_driven(id);
        HAS_FOUND.with(|found| found.set(true));
    }
    remember(id, &timer);
    timer
}

fn remembered(id: runtime::Id) -> Option<Timer> {
    let find = |remembered: &RefCell<Vec<(runtime::Id, Timer)>>| {
        let remembered = remembered.borrow();
        let found = remembered.iter().find(|(of, _)| *of == id);
        found.map(|(_, timer)| timer.clone())
    };
    let timer = REMEMBERED.try_with(find).ok().flatten();
    timer.filter(|timer| !timer.has_ended())
}

fn remember(id: runtime::Id, timer: &Timer) {
    let take_its_place = |remembered: &RefCell<Vec<(runtime::Id, Timer)>>| {
        let mut remembered = remembered.borrow_mut();
        let (mut forgotten, mut kept): (Vec<_>, Vec<_>) = std::mem::take(&mut *remembered)
            .into_iter()
            .partition(|(of, timer)| *of == id || timer.has_ended());
        if kept.len() == MOST_REMEMBERED {
            forgotten.push(kept.remove(0));
        }
        kept.push((id, timer.clone()));
        *remembered = kept;
        forgotten
    };
    let latest = Latest {
        runtime: id,
        worker: runtime::worker_index(),
        shard: timer.shard().clone(),
    };
    // Drop the evicted timers after the borrow ends.
    drop(LATEST.try_with(|place| place.replace(Some(latest))));
    drop(REMEMBERED.try_with(take_its_place));
}

#[cold]
#[track_caller]
fn panic_outside(error: &TryCurrentError) -> ! {
    panic!(
        "{error}. Call this from within a tokio runtime, \
         or make a timer with `Timer::builder().build_on(&handle)` and use its methods"
    )
}

fn registered(id: runtime::Id) -> Option<Timer> {
    let timer = registry().timers.get(&id).and_then(WeakTimer::upgrade);
    // The lock is released, so a timer that has ended is dropped under no lock.
    timer.filter(|timer| !timer.has_ended())
}

#[track_caller]
fn make(handle: &Handle) -> Timer {
    let id = handle.id();
    let timer = match Timer::builder().named_as(handle).build_on(handle) {
        Ok(timer) => timer,
        Err(error) => panic!("{error}"),
    };
    let mut registry = registry();
    let first = registry.timers.get(&id).and_then(WeakTimer::upgrade);
    if let Some(first) = first.filter(|first| !first.has_ended()) {
        drop(registry);
        return first;
    }
    registry.timers.insert(id, timer.downgrade());
    registry.sweep_if_due();
    drop(registry);
    timer
}

impl Registry {
    /// Removes the entries of dropped timers, at an amortised constant cost.
    fn sweep_if_due(&mut self) {
        if self.timers.len() > self.sweep_at {
            self.timers.retain(|_, timer| timer.is_held());
            self.timers.shrink_to(2 * self.timers.len());
            self.sweep_at = 2 * self.timers.len() + 16;
        }
    }
}

fn registry() -> MutexGuard<'static, Registry> {
    lock(&REGISTRY)
}

/// At most 15 bytes, as Linux shows. The timer is named after its thread.
const THREAD: &str = "tickwheel-timer";

static GLOBAL: OnceLock<Timer> = OnceLock::new();

#[inline]
#[track_caller]
pub(crate) fn global_timer() -> &'static Timer {
    match GLOBAL.get() {
        Some(timer) => timer,
        None => match started() {
            Ok(timer) => timer,
            Err(error) => panic_without_thread(&error),
        },
    }
}

#[inline(never)]
#[track_caller]
pub(crate) fn global_shard() -> Arc<Shard> {
    global_timer().shard().clone()
}

#[cold]
fn started() -> io::Result<&'static Timer> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = lock(&STARTING);
    if let Some(timer) = GLOBAL.get() {
        return Ok(timer);
    }
    let timer = Builder::build_on_thread(THREAD)?;
    Ok(GLOBAL.get_or_init(|| timer))
}

#[cold]
#[track_caller]
fn panic_without_thread(error: &io::Error) -> ! {
    panic!(
        "tickwheel's global timer cannot start its thread: {error}. Call \
         `Timer::global()` early, before the process uses up its threads"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_timers_of_runtimes_that_have_shut_down_are_forgotten() {
        let remembered = || REMEMBERED.with(|timers| timers.borrow().len());
        for _ in 0..100 {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_time()
                .build()
                .unwrap();
            let deadline = {
                let _context = runtime.enter();
                Timer::current().deadline(Duration::from_secs(60))
            };
            drop(runtime);
            drop(deadline);
            assert_eq!(remembered(), 1, "by this thread");
        }
        // Other tests have runtimes too.
        assert!(registry().timers.len() < 80, "by the registry");
    }
}
