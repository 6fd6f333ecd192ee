//! The runtime's own tasks: none is told of the end, whatever it does while it is dropped, as with
//! tokio's timers.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;

use futures::future::{Either, select};
use tickwheel::{Deadline, Duration, Instant, Sleep, Timer};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use super::{End, MINUTE, bounded, end_of, outcome_of_poll};
use crate::common::{HOUR, MS, current_thread, multi_thread};

/// What the tasks of a runtime saw of its end: nothing.
pub(crate) type Seen = Arc<Mutex<Vec<End>>>;

/// A task that arms and disarms timers without an end, and computes in between.
pub(crate) async fn busy_on_tickwheel(micros: u64, seen: Seen) {
    let round = async || {
        let _ = tickwheel::timeout(MINUTE, yield_now()).await;
        let mut beat = tickwheel::interval_at(Instant::now() + MINUTE, MINUTE);
        select(pin!(beat.tick()), pin!(yield_now())).await;
        let deadline = Timer::current().deadline(MINUTE);
        match select(deadline, pin!(yield_now())).await {
            Either::Left((ended, _)) => End::of(ended),
            Either::Right(_) => End::Elapsed,
        }
    };
    loop {
        match end_of(Box::pin(round())).await {
            End::Elapsed => compute(Duration::from_micros(micros)),
            told => return seen.lock().unwrap().push(told),
        }
    }
}

/// Does not yield its worker for that time.
fn compute(time: Duration) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// A task that the shutdown drops looks at its timers a last time.
struct LastLook {
    armed: Sleep,
    deadline: Deadline,
    seen: mpsc::Sender<(bool, String)>,
}

impl Drop for LastLook {
    fn drop(&mut self) {
        let armed = outcome_of_poll(&mut self.armed);
        let made = outcome_of_poll(&mut tickwheel::sleep(HOUR));
        let deadline = outcome_of_poll(&mut self.deadline);
        let handle = self.deadline.handle();
        let (is_pending, was_reset) = (handle.is_pending(), handle.reset());
        let is_well = [&armed, &made].map(|sleep| sleep == &Ok(Poll::Pending)) == [true; 2]
            && (deadline == Ok(Poll::Pending) && is_pending && was_reset);
        let all = format!("{armed:?} {made:?} {deadline:?} {is_pending} {was_reset}");
        let _ = self.seen.send((is_well, all));
    }
}

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
    // Some tasks are older than the timer, some are younger.
    let begun = Arc::new(AtomicUsize::new(0));
    for all in [10, 20] {
        for _ in 0..10 {
            let (seen, begun) = (sender.clone(), begun.clone());
            runtime.spawn(async move {
                yield_now().await;
                let mut last_look = LastLook {
                    armed: tickwheel::sleep(HOUR),
                    deadline: Timer::current().deadline(HOUR),
                    seen,
                };
                begun.fetch_add(1, Ordering::Relaxed);
                poll_fn(|cx| Pin::new(&mut last_look.armed).poll(cx)).await;
                unreachable!("it is an hour");
            });
        }
        while begun.load(Ordering::Relaxed) < all {
            runtime.block_on(async { tokio::time::sleep(MS).await });
        }
    }
    drop((runtime, sender));
    let seen: Vec<_> = seen.into_iter().collect();
    assert_eq!(seen.len(), 20);
    for (is_well, all) in seen {
        assert!(is_well, "{all}");
    }
}

/// Threads arm timers while the runtime ends. None is told that its time has come before it has.
#[test]
fn nothing_elapses_early_as_a_runtime_ends() {
    for round in 0..60 {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let is_done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for number in 0..4 {
                let (timer, is_done) = (&timer, &is_done);
                scope.spawn(move || {
                    while is_done.load(Ordering::Relaxed) == 0 {
                        let timeout = Duration::from_micros(300 + 100 * number);
                        let start = Instant::now();
                        let ended = futures::executor::block_on(timer.deadline(timeout));
                        let taken = start.elapsed();
                        assert!(ended.is_err() || taken >= timeout, "{taken:?}");
                    }
                });
            }
            let moment = Duration::from_micros(50 * round);
            runtime.block_on(async { tokio::time::sleep(moment).await });
            drop(runtime);
            is_done.store(1, Ordering::Relaxed);
        });
    }
}
