//! Waking: a waker is code of the user, and so is a panic in it.
//!
//! Invariant: the caller holds no lock. No panic of a waker comes out of these functions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use crate::events;

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
        events::waker_panicked();
        // A payload may panic when it is dropped. Then nothing better can be done than to forget
        // what that gives.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(another);
        }
    }
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
