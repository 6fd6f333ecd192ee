//! A sleep that is polled by one waker and another, on the system's clock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;

use futures::task::noop_waker;
use tickwheel::{Sleep, Timer, sleep};

use crate::common::{MS, PATIENCE, current_thread, multi_thread};

/// Counts how often it is woken, and may panic when it is dropped.
#[derive(Default)]
struct Panicking {
    is_armed: AtomicBool,
    woken: AtomicU32,
}

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        assert!(!self.is_armed.load(Ordering::Relaxed), "the drop panics");
    }
}

fn poll(nap: &mut Sleep, waker: &Waker) -> bool {
    nap.try_poll(&mut Context::from_waker(waker)).is_pending()
}

#[test]
fn a_waker_whose_drop_panics_loses_no_wake_up_of_the_next() {
    let runtime = multi_thread(1);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    // Longer than the panic takes to print its message.
    let mut nap = timer.sleep(500 * MS);
    let first = Arc::new(Panicking::default());
    let address = Arc::as_ptr(&first);
    assert!(poll(&mut nap, &Waker::from(first.clone())));
    first.is_armed.store(true, Ordering::Relaxed);
    // The timer has the last clone.
    drop(first);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut nap, &noop_waker()))).is_err());
    // The next one most often takes the place of the first in memory. It is another all the same.
    let mut others: Vec<_> = (0..100).map(|_| Arc::new(Panicking::default())).collect();
    let same = others
        .iter()
        .position(|other| Arc::as_ptr(other) == address);
    let last = others.swap_remove(same.unwrap_or(0));
    let waker = Waker::from(last.clone());
    let begin = std::time::Instant::now();
    if poll(&mut nap, &waker) {
        while last.woken.load(Ordering::Relaxed) == 0 {
            assert!(begin.elapsed() < PATIENCE, "it is not woken");
            thread::sleep(MS);
        }
    }
    assert!(!poll(&mut nap, &waker));
}

/// It may hold a lock that the other timer's waker takes.
#[test]
fn a_task_that_arms_a_passed_deadline_wakes_no_other_timer() {
    for runtime in [multi_thread(1), current_thread()] {
        let wakes = runtime.spawn(async {
            for _ in 0..50 {
                if let Some(wakes) = wakes_of_an_overdue_timer_beside_an_arm().await {
                    return wakes;
                }
            }
            panic!("the machine is too busy for this test");
        });
        assert_eq!(runtime.block_on(wakes).unwrap(), 0);
    }
}

/// `None` if the driver came before, as it may on a busy machine.
async fn wakes_of_an_overdue_timer_beside_an_arm() -> Option<u32> {
    let (mut passed, mut overdue) = (sleep(5 * MS), sleep(100 * MS));
    let woken = Arc::new(Panicking::default());
    assert!(poll(&mut overdue, &Waker::from(woken.clone())));
    // The time driver passes by the deadline of one, and does not come to that of the other.
    tokio::time::sleep(20 * MS).await;
    thread::sleep(100 * MS);
    let wakes = || woken.woken.load(Ordering::Relaxed);
    let before = wakes();
    assert!(!poll(&mut passed, &noop_waker()));
    let after = wakes();
    overdue.await;
    (before == 0).then_some(after)
}
