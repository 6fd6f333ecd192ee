//! The tasks that wait for an idle timeout: interleavings of the deadline's wake-up with a poll by
//! another task than before.

use std::sync::Arc;
use std::task::Waker;

use loom::thread;

use super::{count, counting, with_few_preemptions};
use crate::waiters::{Direction, Waiters};

/// Seen to fail where the wake-up sets `woken` after it has woken the others. So too where a poll
/// takes `woken` before it stores its waker.
#[test]
fn a_poll_beside_the_wake_up_is_told_or_woken() {
    with_few_preemptions(|| {
        let waiters = Arc::new(Waiters::default());
        waiters.register(Direction::Read, Waker::noop());
        let deadline = Waker::from(waiters.clone());
        let wakes = thread::spawn(move || deadline.wake());
        let (woken, waker) = counting();
        let is_told = waiters.register(Direction::Read, &waker);
        wakes.join().unwrap();
        assert!(is_told || count(&woken) > 0);
    });
}
