//! The end of a timer: how long it outlives its runtime's time driver, and which tasks it then
//! wakes.
//!
//! The end of a runtime is not reported to the runtime's own tasks, which are dropped while they
//! are pending. tokio's usual timer ends after the last task was dropped. But its alternative timer
//! ends with each worker: it fires that worker's timers before the worker drops any task, while
//! other workers still run theirs. A timer that closed then would report the end to them.
//!
//! A runtime that drops its tasks refuses new ones. So a refused task shows that the runtime ends,
//! even where tokio's timers must not be touched. But the runtime may be dropping the very task
//! that asks.
//!
//! tokio does not report when the last worker has stopped. So in both cases a new thread waits for
//! [`A_WHILE`], and then wakes the driver. A task in a longer poll may see the end.
//!
//! An armed timer is woken when its shard is closed. A wait without a timer, for the tick that
//! never comes, takes a [`Watch`]. No wheel holds it, so it does not count as pending.
//!
//! Invariant: a wait that is registered when the driver closes is woken; see `waits`.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use super::Driver;
use crate::runtime::{Handle, RuntimeFlavor};

/// How long a timer outlives a time driver that ends before its tasks are dropped.
pub(super) const A_WHILE: Duration = Duration::from_millis(300);

/// Only builds with this flag have the alternative timer.
pub(super) fn may_be_alternative(runtime: &Handle) -> bool {
    cfg!(tokio_unstable) && runtime.runtime_flavor() != RuntimeFlavor::CurrentThread
}

/// tokio's alternative timer panics if it is touched by a thread that has entered its runtime while
/// running a current-thread one. A thread cannot find this out, so another thread builds the timer.
pub(crate) fn on_a_plain_thread<R: Send>(runtime: &Handle, build: impl FnOnce() -> R + Send) -> R {
    if !may_be_alternative(runtime) {
        return build();
    }
    let built = thread::scope(|scope| scope.spawn(build).join());
    built.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Whether a timer can be built on a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its timers may be touched.
    Alive,
    /// It drops its tasks, and may yet drop the asking one.
    Ends,
    /// It takes no task, and no task asks.
    Ended,
}

impl Life {
    /// `Alive` also where tokio's timers show the end without a panic. `for_task`: a task asks.
    pub(crate) fn of(runtime: &Handle, for_task: bool) -> Life {
        if !may_be_alternative(runtime) {
            return Life::Alive;
        }
        let task = runtime.spawn(pending::<()>());
        let is_refused = task.is_finished();
        task.abort();
        if is_refused {
            if for_task { Life::Ends } else { Life::Ended }
        } else {
            Life::Alive
        }
    }
}

/// Wakes `waker` in [`A_WHILE`]. `false` if there is no thread for that.
pub(super) fn wake_later(waker: Waker) -> bool {
    let wait = move || {
        thread::sleep(A_WHILE);
        waker.wake();
    };
    let thread = thread::Builder::new().name("tickwheel-end".to_owned());
    thread.spawn(wait).is_ok()
}

/// A wait in the driver's list, taken out on drop.
pub(crate) struct Watch {
    /// Keeps the list.
    driver: Arc<Driver>,
    /// The wait's in that list.
    index: usize,
}

impl Watch {
    pub(crate) fn new(driver: &Arc<Driver>) -> Watch {
        Watch {
            driver: driver.clone(),
            index: driver.waits.insert(),
        }
    }

    /// Ready once the runtime has ended. Until then `waker` is registered.
    pub(crate) fn poll_end(&mut self, waker: &Waker) -> Poll<()> {
        let driver = &self.driver;
        (driver.waits).poll(self.index, waker, || driver.clock.has_ended())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.driver.waits.remove(self.index);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::Timer;
    use crate::runtime::workers;
    use crate::sync::lock;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_watch_is_woken_by_the_end_and_keeps_no_waker_once_dropped() {
        let runtime = workers(1);
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let driver = timer.watch().driver.clone();
        assert_eq!(
            lock(driver.waits.list()).capacity(),
            0,
            "its memory has gone"
        );
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

    struct SeesLock {
        driver: Arc<Driver>,
        was_free: Arc<AtomicBool>,
    }

    impl Wake for SeesLock {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for SeesLock {
        fn drop(&mut self) {
            let is_free = self.driver.waits.list().try_lock().is_ok();
            self.was_free.store(is_free, Ordering::Relaxed);
        }
    }

    /// The drop of a waker may do anything, such as drop another watch.
    #[test]
    fn a_watch_drops_its_wakers_under_no_lock() {
        for is_replaced in [true, false] {
            let mut watch = Timer::global().watch();
            let was_free = Arc::<AtomicBool>::default();
            let waker = Waker::from(Arc::new(SeesLock {
                driver: watch.driver.clone(),
                was_free: was_free.clone(),
            }));
            assert!(watch.poll_end(&waker).is_pending());
            drop(waker);
            if is_replaced {
                assert!(watch.poll_end(Waker::noop()).is_pending());
            } else {
                drop(watch);
            }
            assert!(was_free.load(Ordering::Relaxed), "replaced: {is_replaced}");
        }
    }
}
