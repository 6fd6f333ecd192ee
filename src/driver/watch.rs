//! Wakes a wait that has no timer armed when the runtime ends. An armed timer is woken by the
//! closing of its shard, and this is for a wait that has none: it waits for the tick that never
//! comes. No wheel holds it, so it counts as no timer that is pending.
//!
//! Invariant: a wait that is registered when the driver closes is woken. Both take the lock of the
//! list, and the clock has ended before the driver takes it. So a wait that comes after that finds
//! the clock ended.

use std::sync::Arc;
use std::task::{Poll, Waker};

use slab::Slab;

use super::Driver;
use crate::sync::lock;

/// A place in the driver's list of waits. Dropping it gives that back.
pub(crate) struct Watch {
    driver: Arc<Driver>,
    key: Option<usize>,
}

impl Watch {
    pub(crate) fn new(driver: &Arc<Driver>) -> Watch {
        Watch {
            driver: driver.clone(),
            key: None,
        }
    }

    /// Ready once the runtime has ended. Else `waker` is woken then.
    pub(crate) fn poll_end(&mut self, waker: &Waker) -> Poll<()> {
        // Wakers are cloned and dropped under no lock.
        let clone = waker.clone();
        let mut waits = lock(&self.driver.waits);
        if self.driver.clock.has_ended() {
            drop(waits);
            return Poll::Ready(());
        }
        let replaced = match self.key.and_then(|key| waits.get_mut(key)) {
            Some(registered) => Some(std::mem::replace(registered, clone)),
            None => {
                self.key = Some(waits.insert(clone));
                None
            }
        };
        drop(waits);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut waits = lock(&self.driver.waits);
        let waker = waits.try_remove(key);
        if waits.is_empty() {
            *waits = Slab::new();
        }
        drop(waits);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::Timer;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_watch_is_woken_by_the_end_and_keeps_no_waker_once_dropped() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let [first, second, dropped] = [(); 3].map(|()| Arc::<Counts>::default());
        let mut watches = [(); 3].map(|()| timer.watch());
        for (watch, counts) in watches.iter_mut().zip([&second, &first, &dropped]) {
            assert!(watch.poll_end(&Waker::from(counts.clone())).is_pending());
        }
        let [mut moved, watch, gone] = watches;
        assert!(moved.poll_end(&Waker::from(first.clone())).is_pending());
        assert_eq!(Arc::strong_count(&second), 1, "another task waits");
        drop(gone);
        assert_eq!(Arc::strong_count(&dropped), 1);
        drop(runtime);
        let woken = [&first, &second, &dropped].map(|it| it.0.load(Ordering::Relaxed));
        assert_eq!(woken, [2, 0, 0]);
        assert!(moved.poll_end(Waker::noop()).is_ready());
        drop((moved, watch));
    }
}
