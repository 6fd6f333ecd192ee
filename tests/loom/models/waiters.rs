//! The tasks that wait for an idle timeout: every interleaving of the deadline's wake-up with a
//! poll by another task than before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use loom::thread;

use super::with_few_preemptions;
use crate::waiters::{Direction, Waiters};

/// Loom need not know of it.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Seen to fail where the wake-up says so in `woken` after it has woken the others, and where a
/// poll takes that before it leaves its waker.
#[test]
fn a_poll_beside_the_wake_up_is_told_or_woken() {
    with_few_preemptions(|| {
        let waiters = Arc::new(Waiters::default());
        waiters.register(Direction::Read, Waker::noop());
        let deadline = Waker::from(waiters.clone());
        let wakes = thread::spawn(move || deadline.wake());
        let woken = Arc::new(Woken::default());
        let is_told = waiters.register(Direction::Read, &Waker::from(woken.clone()));
        wakes.join().unwrap();
        assert!(is_told || woken.0.load(Ordering::SeqCst));
    });
}
