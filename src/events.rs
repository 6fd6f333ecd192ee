//! What the crate tells through `tracing`, behind the feature of that name. Without it these
//! functions do nothing.
//!
//! | event | level | fields |
//! |---|---|---|
//! | `the driver was stalled` | `WARN` | `late_ms`: how long after its alarm's tick the turn began |
//! | `a waker panicked` | `ERROR` | |
//!
//! The target of both is `tickwheel`. There are no spans, and nothing is told on the way of a call
//! that arms, resets or disarms.
//!
//! Invariant: a subscriber is code of the user. It runs under no lock, and no panic of it comes out
//! of here.

use std::time::Duration;

/// Tells that the driver was stalled, on the system's clock. `driver::stalls` says what a stall is.
pub(crate) fn driver_was_stalled(late: Duration) {
    let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
    tell(|| tell_of_stall(late_ms));
}

/// Tells that a waker panicked, whose panic was contained.
pub(crate) fn waker_panicked() {
    tell(waker_has_panicked);
}

#[cfg(feature = "tracing")]
fn tell_of_stall(late_ms: u64) {
    tracing::warn!(
        target: "tickwheel",
        late_ms,
        "the driver was stalled: something blocked the runtime's time driver"
    );
}

#[cfg(feature = "tracing")]
fn waker_has_panicked() {
    tracing::error!(target: "tickwheel", "a waker panicked; its panic was contained");
}

#[cfg(not(feature = "tracing"))]
fn tell_of_stall(_: u64) {}

#[cfg(not(feature = "tracing"))]
fn waker_has_panicked() {}

#[cfg(feature = "tracing")]
fn tell(event: impl FnOnce()) {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    if let Err(payload) = catch_unwind(AssertUnwindSafe(event)) {
        // A payload may panic when it is dropped.
        std::mem::forget(payload);
    }
}

#[cfg(not(feature = "tracing"))]
fn tell(event: impl FnOnce()) {
    event();
}
