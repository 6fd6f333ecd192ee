//! Waking: a waker is code of the user, and so is a panic in it.
//!
//! Invariant: the caller holds no lock. No panic of a waker comes out of these functions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::Duration;

/// Wakes and drops each waker, also after a panic in one of them.
pub(crate) fn wake_all(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        wake(waker);
    }
}

/// Wakes and drops a waker, and contains its panic.
pub(crate) fn wake(waker: Waker) {
    let outcome = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    if let Err(payload) = outcome {
        waker_panicked();
        // A payload may panic when it is dropped. Then nothing better can be done than to forget
        // what that gives.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(another);
        }
    }
}

// What the crate reports through `tracing`, behind the feature of that name. Without it these
// functions do nothing.
//
// | event | level | fields |
// |---|---|---|
// | `the driver was stalled` | `WARN` | `late_ms`: how long after its alarm's tick the turn began |
// | `a waker panicked` | `ERROR` | |
//
// The target of both is `tickwheel`. There are no spans, and nothing is reported on the path of a
// call that arms, resets or disarms.
//
// Invariant: a subscriber is code of the user. It runs under no lock, and no panic of it comes out
// of here.

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Panics when it is woken, and what it throws panics when it is dropped.
    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            struct Payload;
            impl Drop for Payload {
                fn drop(&mut self) {
                    std::panic::panic_any("the payload panics too");
                }
            }
            std::panic::resume_unwind(Box::new(Payload));
        }
    }

    #[test]
    fn a_panic_in_a_waker_keeps_no_other_from_being_woken() {
        let counting = Arc::new(Counting(AtomicUsize::new(0)));
        let mut wakers = vec![
            Waker::from(counting.clone()),
            Waker::from(Arc::new(Panicking)),
            Waker::from(counting.clone()),
        ];
        wake_all(&mut wakers);
        assert!(wakers.is_empty());
        assert_eq!(counting.0.load(Ordering::Relaxed), 2);
        assert_eq!(Arc::strong_count(&counting), 1, "each was dropped");
    }
}
