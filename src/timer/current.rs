//! The runtime's own timer: one for each runtime, made on first use and found again without a global lock.
//!
//! A thread remembers the timer that it used last with its runtime's id, and its spare hold on a shard (`shard::hold`)
//! tells the same, so the hot path compares ids. Otherwise the registry of all runtimes is asked, under a lock.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *An id is used again.* tokio may give a new runtime the id of one that has ended. The old one's driver was
//!   dropped with it, which marked the old timer as ended and its shards as retired; those are never taken from any of
//!   the three places.
//! - *Two threads make the timer at once.* It is made outside the lock, and only the first to come is registered
//!   and spawned; the other takes that one.
//! - *The runtime ends, or has ended, while its timer is made.* The timer is registered before its driver is spawned,
//!   and the driver, whenever it is dropped, marks the timer as ended and then takes it out of the registry. A
//!   thread that finds it in between goes by the mark.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{self, Handle, TryCurrentError};

use super::Timer;
use crate::shard::Hold;

thread_local! {
    static LAST_USED: RefCell<Option<(runtime::Id, Timer)>> = const { RefCell::new(None) };
}

static REGISTRY: LazyLock<Mutex<HashMap<runtime::Id, Timer>>> = LazyLock::new(Mutex::default);

/// The current runtime's own timer.
#[track_caller]
pub(crate) fn timer() -> Timer {
    match last_used(current_id(), Timer::clone) {
        Some(timer) => timer,
        None => look_up(),
    }
}

/// A hold on this thread's shard of the current runtime's own timer.
#[track_caller]
#[inline]
pub(crate) fn hold() -> Hold {
    let id = current_id();
    match Hold::spare_of_own_timer(id) {
        Some(hold) => hold,
        None => hold_without_spare(id),
    }
}

#[track_caller]
fn hold_without_spare(id: runtime::Id) -> Hold {
    match last_used(id, Timer::hold) {
        Some(hold) => hold,
        None => look_up().hold(),
    }
}

/// The current runtime's id. tokio gives it by way of a handle, a count that all threads share; that is let go at once,
/// while this core still has it.
#[inline]
#[track_caller]
fn current_id() -> runtime::Id {
    match Handle::try_current() {
        Ok(handle) => handle.id(),
        Err(error) => panic_outside(&error),
    }
}

/// What `take` takes of the timer that this thread used last, if that is the timer of the runtime with that id.
fn last_used<R>(id: runtime::Id, take: impl FnOnce(&Timer) -> R) -> Option<R> {
    LAST_USED
        .try_with(|last| match &*last.borrow() {
            Some((last, timer)) if *last == id && !timer.has_ended() => Some(take(timer)),
            _ => None,
        })
        .ok()
        .flatten()
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
    // The timer remembered before is dropped after the borrow; a thread that is ending remembers none.
    let remembered = Some((handle.id(), timer.clone()));
    let _before = LAST_USED.try_with(|last| last.replace(remembered));
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
    registry()
        .get(&id)
        .filter(|timer| !timer.has_ended())
        .cloned()
}

#[track_caller]
fn make(handle: &Handle) -> Timer {
    let id = handle.id();
    let (timer, mut driver) = match Timer::builder().prepare(handle, Some(id)) {
        Ok(made) => made,
        Err(error) => panic!("{error}"),
    };
    let replaced = {
        let mut registry = registry();
        if let Some(first) = registry.get(&id).filter(|timer| !timer.has_ended()) {
            return first.clone();
        }
        registry.insert(id, timer.clone())
    };
    drop(replaced);
    driver.at_end(move || forget_ended(id));
    driver.spawn_on(handle);
    timer
}

/// Takes the timer of a runtime that has ended out of the registry.
fn forget_ended(id: runtime::Id) {
    let mut registry = registry();
    let ended = match registry.get(&id) {
        Some(timer) if timer.has_ended() => registry.remove(&id),
        _ => None,
    };
    drop(registry);
    // Dropping a timer wakes its driver, which takes locks of tokio's.
    drop(ended);
}

fn registry() -> MutexGuard<'static, HashMap<runtime::Id, Timer>> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}
