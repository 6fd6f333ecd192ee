//! The runtime's own timer: one for each runtime, made on first use and found again without a
//! global lock. And the process's timer, which is on a thread of its own, under no runtime.
//!
//! A thread remembers the timers that it used last, with the ids of their runtimes. So the hot path
//! compares ids. Otherwise the thread asks the registry of all runtimes, under a lock.
//!
//! Invariant: the registry keeps no timer. A runtime's own timer lives as long as a thread
//! remembers it, or anybody holds it or waits on it. A use after that makes a new one. Of the
//! process's timer there is at most one. A start of its thread that failed leaves nothing behind,
//! and the next use tries again.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *An id is used again.* tokio may give a new runtime the id of one that has shut down. If
//!   anything was armed on the timer of the old runtime, that timer is marked as ended by then.
//!   Such a timer is taken neither from what the thread remembers nor from the registry. So far
//!   tokio counts its ids, and uses none again.
//! - *Two threads make the timer at once.* Each makes one outside the lock. Only the first to come
//!   is registered, and the other thread takes that one. A timer that is not used does nothing.
//! - *The runtime shuts down, or has shut down, while its timer is made.* A thread that arms on the
//!   timer finds that out (see `driver`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};

use super::{Builder, Timer, WeakTimer};
use crate::runtime;
use crate::runtime::{Handle, TryCurrentError};
use crate::shard::Shard;
use crate::sync::lock;

thread_local! {
    /// The timer that was used last comes last.
    static LAST_USED: RefCell<Vec<(runtime::Id, Timer)>> = const { RefCell::new(Vec::new()) };
}

std::thread_local! {
    /// Whether the last look-up of this thread was on a worker.
    static HAS_FOUND: Cell<bool> = const { Cell::new(false) };
}

/// A thread remembers the timers of at most this many runtimes of several workers.
const REMEMBERED: usize = 8;

/// A thread remembers the timers of at most this many current-thread runtimes. Nobody tells when
/// such a runtime shuts down. Usually a thread runs one at a time.
const REMEMBERED_OF_ONE_THREAD: usize = 1;

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Registry {
    timers: HashMap<runtime::Id, WeakTimer>,
    /// With more entries than this, the entries of timers that were dropped are taken out.
    sweep_at: usize,
}

/// The current runtime's own timer.
#[track_caller]
pub(crate) fn timer() -> Timer {
    match last_used(current_id(), Timer::clone) {
        Some(timer) => timer,
        None => look_up(),
    }
}

/// This thread's shard of the current runtime's own timer.
#[track_caller]
#[inline]
pub(crate) fn shard() -> Arc<Shard> {
    match last_used(current_id(), |timer| timer.shard().clone()) {
        Some(shard) => shard,
        None => look_up().shard().clone(),
    }
}

/// The current runtime's id. tokio gives it by way of a handle, whose reference count all threads
/// share. The handle is dropped at once, while this core still has the count.
#[inline]
#[track_caller]
fn current_id() -> runtime::Id {
    match Handle::try_current() {
        Ok(handle) => handle.id(),
        Err(error) => panic_outside(&error),
    }
}

/// Applies `take` to the timer that this thread remembers for the runtime with that id.
fn last_used<R>(id: runtime::Id, take: impl FnOnce(&Timer) -> R) -> Option<R> {
    let find = |last_used: &RefCell<Vec<(runtime::Id, Timer)>>| {
        let last_used = last_used.borrow();
        let mut latest_first = last_used.iter().rev();
        let (_, timer) = latest_first.find(|(of, timer)| *of == id && !timer.has_ended())?;
        Some(take(timer))
    };
    LAST_USED.try_with(find).ok().flatten()
}

/// Remembers a timer, and returns those that are forgotten for it. They are to be dropped when
/// nothing is borrowed any more.
fn remember(id: runtime::Id, timer: &Timer) -> Vec<(runtime::Id, Timer)> {
    let remember = |last_used: &RefCell<Vec<(runtime::Id, Timer)>>| {
        let mut last_used = last_used.borrow_mut();
        let (mut forgotten, mut kept): (Vec<_>, Vec<_>) = std::mem::take(&mut *last_used)
            .into_iter()
            .partition(|(of, timer)| *of == id || timer.has_ended());
        let is_alike =
            |(_, other): &(_, Timer)| other.is_of_one_thread() == timer.is_of_one_thread();
        let most = if timer.is_of_one_thread() {
            REMEMBERED_OF_ONE_THREAD
        } else {
            REMEMBERED
        };
        if kept.iter().filter(|kept| is_alike(kept)).count() == most {
            let oldest = kept.iter().position(is_alike);
            forgotten.extend(oldest.map(|oldest| kept.remove(oldest)));
        }
        *last_used = kept;
        last_used.push((id, timer.clone()));
        forgotten
    };
    // A thread that ends remembers none.
    LAST_USED.try_with(remember).unwrap_or_default()
}

/// Whether this thread drives a runtime, and has found the timer of one there before. So its
/// runtime surely has a time driver, unless it drives another one by now.
#[inline]
pub(crate) fn is_on_known_worker() -> bool {
    HAS_FOUND.with(Cell::get) && runtime::worker_index().is_some()
}

/// The shard for a timeout that is armed by the calling thread: of the current runtime's own timer,
/// or of the process's timer where there is no runtime.
pub(crate) fn shard_of_poller() -> Arc<Shard> {
    match Handle::try_current() {
        Ok(handle) => match last_used(handle.id(), |timer| timer.shard().clone()) {
            Some(shard) => shard,
            None => look_up().shard().clone(),
        },
        Err(_) => global_shard(),
    }
}

#[cold]
#[track_caller]
fn look_up() -> Timer {
    let handle = match Handle::try_current() {
        Ok(handle) => handle,
        Err(error) => panic_outside(&error),
    };
    let timer = match registered(handle.id()) {
        Some(timer) => timer,
        None => make(&handle),
    };
    drop(remember(handle.id(), &timer));
    HAS_FOUND.with(|found| found.set(runtime::worker_index().is_some()));
    timer
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
    // The lock is free again, so a timer that has ended is dropped under no lock.
    timer.filter(|timer| !timer.has_ended())
}

#[track_caller]
fn make(handle: &Handle) -> Timer {
    let id = handle.id();
    let timer = match Timer::builder().build_on(handle) {
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
    timer
}

impl Registry {
    /// Takes out the entries of timers that were dropped, at an amortised constant cost.
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

/// No longer than the 15 bytes that Linux shows.
const THREAD: &str = "tickwheel-timer";

static GLOBAL: OnceLock<Timer> = OnceLock::new();

/// The process's timer. The first call starts it.
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

/// This thread's shard of the process's timer.
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
         `tickwheel::global::timer()` early, before the process uses up its threads"
    )
}
