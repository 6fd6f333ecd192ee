//! The calls on a handle and the outcomes as the model knows them. The random schedules have this
//! file too.

use tickwheel::error::Cancelled;
use tickwheel::{Instant, ResetHandle};
use tickwheel_soak_model::{Act, Due, Outcome};

pub fn call<T>(handle: &ResetHandle, act: Act<T>, instant: impl Fn(T) -> Instant) -> bool {
    match act {
        Act::Set(Due::After(delay)) => handle.reset_after(delay),
        Act::Set(Due::At(due)) => handle.reset_at(instant(due)),
        Act::Reset => handle.reset(),
        Act::ResetFrom(since) => handle.reset_from(instant(since)),
        Act::SetTimeout(timeout) => handle.set_timeout(timeout),
        Act::Extend(by) => handle.extend(by),
        Act::Expire => handle.expire(),
        Act::Cancel => handle.cancel(),
        _ => handle.is_pending(),
    }
}

pub fn outcome<T>(result: Result<(), Cancelled>) -> Outcome<T> {
    match result {
        Ok(()) => Outcome::Elapsed,
        Err(cancelled) if cancelled.is_replaced() => Outcome::Replaced,
        Err(cancelled) if cancelled.is_drained() => Outcome::Drained,
        Err(cancelled) if cancelled.is_shutdown() => Outcome::Shutdown,
        Err(_) => Outcome::Cancelled,
    }
}
