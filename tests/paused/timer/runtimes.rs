//! Which timer belongs to which runtime, and what becomes of it.

use std::thread;

use futures::future::poll_immediate;
use tickwheel::{Instant, Timer, sleep};
use tokio::runtime::{Handle, Runtime};

use crate::common::{HOUR, MS, current_thread, multi_thread, paused};

#[test]
fn each_runtime_has_one_timer_of_its_own() {
    let (first, second) = (multi_thread(2), multi_thread(2));
    let armed = |runtime: &Runtime| runtime.block_on(async { Timer::current().metrics().armed });
    for _ in 0..3 {
        // Of an hour, so that each is armed however busy the machine is.
        first.block_on(async { assert!(poll_immediate(sleep(HOUR)).await.is_none()) });
        first.block_on(async {
            let polled = tokio::spawn(poll_immediate(sleep(HOUR)));
            assert!(polled.await.unwrap().is_none());
        });
        second.block_on(async { assert!(poll_immediate(sleep(HOUR)).await.is_none()) });
    }
    assert_eq!((armed(&first), armed(&second)), (6, 3));
    let nested = first.block_on(async {
        let _context = second.enter();
        Timer::current().metrics().armed
    });
    assert_eq!(nested, 3, "the entered runtime is the current one");
}

#[test]
fn runtimes_one_after_the_other_on_a_thread_are_never_confused() {
    for round in 0..200 {
        let runtime = if round % 3 == 0 {
            paused()
        } else {
            current_thread()
        };
        runtime.block_on(async {
            assert_eq!(Timer::current().metrics().armed, 0);
            let start = Instant::now();
            sleep(MS).await;
            assert!(start.elapsed() >= MS);
        });
    }
}

/// A local of a thread, which is destroyed after tokio's own, pushes back a deadline of a runtime
/// that runs.
#[test]
fn a_reset_from_a_thread_that_ends_ends_no_running_timer() {
    struct ResetsAtTheEnd(Option<tickwheel::ResetHandle>);
    impl Drop for ResetsAtTheEnd {
        fn drop(&mut self) {
            if let Some(handle) = self.0.take() {
                assert!(handle.reset_after(30 * MS));
            }
        }
    }
    thread_local! {
        static KEPT: std::cell::RefCell<ResetsAtTheEnd> =
            const { std::cell::RefCell::new(ResetsAtTheEnd(None)) };
    }
    for tokio_first in [false, true] {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let other = timer.deadline(HOUR);
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        runtime.block_on(async {
            tokio::time::sleep(20 * MS).await;
            let start = Instant::now();
            thread::spawn(move || {
                if tokio_first {
                    // What is used first is destroyed last.
                    let _ = Handle::try_current();
                    KEPT.with_borrow_mut(|kept| kept.0 = Some(handle));
                } else {
                    KEPT.with_borrow_mut(|kept| kept.0 = Some(handle));
                    let _ = Handle::try_current();
                }
            })
            .join()
            .unwrap();
            assert_eq!(deadline.await, Ok(()));
            assert!(start.elapsed() >= 30 * MS);
            assert!(other.handle().is_pending());
        });
    }
}

#[test]
#[cfg(target_os = "linux")]
fn runtimes_that_have_ended_are_not_kept() {
    fn open_files() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }
    // Other tests of this process open files too. So the fewest of some looks count.
    let fewest = || (0..50).map(|_| open_files()).min().unwrap();
    let round = |build: fn() -> Runtime| build().block_on(async { sleep(MS).await });
    for build in [|| multi_thread(2), current_thread as fn() -> Runtime] {
        round(build);
        let before = fewest();
        for _ in 0..60 {
            round(build);
        }
        let more = fewest().saturating_sub(before);
        assert!(more < 60, "{more} files more after 60 runtimes");
    }
}
