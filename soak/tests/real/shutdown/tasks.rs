//! The runtime's own tasks: none learns of the end, whatever it does while it is dropped, as with
//! tokio's timers.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;

use tickwheel::Timer;
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use super::{Armed, LastLook, OnDrop, Seen, bounded, outcome_of_poll};
use crate::common::{HOUR, MS, current_thread, multi_thread};

#[test]
fn a_task_dropped_by_the_shutdown_finds_timers_pending() {
    for _ in 0..10 {
        for runtime in [multi_thread(2), current_thread()] {
            bounded(move || look_a_last_time(runtime));
        }
    }
}

fn look_a_last_time(runtime: Runtime) {
    let (sender, seen) = mpsc::channel();
    let (makes, made) = mpsc::channel();
    // Some tasks are older than the timer, some are younger.
    let begun = Arc::new(AtomicUsize::new(0));
    for all in [10, 20] {
        for _ in 0..10 {
            let (seen, makes, begun) = (sender.clone(), makes.clone(), begun.clone());
            runtime.spawn(async move {
                yield_now().await;
                let _last_look = LastLook(Armed::on(&Timer::current(), HOUR), seen);
                let _one_more = OnDrop(Some(move || {
                    let _ = makes.send(outcome_of_poll(&mut tickwheel::sleep(HOUR)));
                }));
                begun.fetch_add(1, Ordering::Relaxed);
                pending::<()>().await;
            });
        }
        while begun.load(Ordering::Relaxed) < all {
            runtime.block_on(async { tokio::time::sleep(MS).await });
        }
    }
    drop((runtime, sender, makes));
    let (seen, made): (Vec<Seen>, Vec<_>) = (seen.iter().collect(), made.iter().collect());
    assert_eq!((seen.len(), &made), (20, &vec![Ok(Poll::Pending); 20]));
    seen.iter().for_each(Seen::assert_waits);
}
