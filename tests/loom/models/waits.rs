//! The waits for the end of a runtime: every interleaving of one that registers with the end.

use loom::sync::Arc;
use loom::thread;

use super::{count, counting};
use crate::driver::waits::Waits;
use crate::sync::{AtomicBool, Ordering};

/// Fails when `close` takes the wakers before the end is noted, and when `poll` asks before it has
/// the lock.
#[test]
fn a_wait_beside_the_end_is_ready_or_woken() {
    loom::model(|| {
        let shared = Arc::new((Waits::new(), AtomicBool::new(false)));
        let (woken, waker) = counting();
        let place = shared.0.insert();
        let closes = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (waits, has_ended) = &*shared;
                let wakers = waits.close(|| has_ended.store(true, Ordering::Release));
                wakers.into_iter().for_each(std::task::Waker::wake);
            })
        };
        let (waits, has_ended) = &*shared;
        let polled = waits.poll(place, &waker, || has_ended.load(Ordering::Acquire));
        closes.join().unwrap();
        assert!(polled.is_ready() || count(&woken) > 0);
    });
}
