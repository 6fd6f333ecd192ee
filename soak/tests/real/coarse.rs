//! Ticks above a millisecond with slow wakers: tokio's time driver passes the tick, and a thread
//! polls another sleep before the alarm's waker is called. A timer that was armed in time fires in
//! its tick.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;

use futures::executor::block_on;
use tickwheel::{Duration, Instant, Timer};

use crate::common::{MS, in_time, multi_thread};

const TICK: Duration = Duration::from_millis(50);

/// Holds tokio's time driver up, as any waker may.
struct Slow;

impl Wake for Slow {
    fn wake(self: Arc<Self>) {
        thread::sleep(4 * MS);
    }
}

/// What waits for the edge of a tick.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Sleep,
    Deadline,
}

/// How long after the edge it is woken. `None` if the machine was too slow to measure it.
fn woken_after_the_edge(timer: &Timer, kind: Kind) -> Option<Duration> {
    let edge = {
        let deadline = timer.deadline(MS / 1_000);
        deadline.handle().deadline().unwrap() + 3 * TICK
    };
    // Due a tick earlier, and not polled before tokio has passed the edge.
    let mut earlier = timer.sleep(edge - TICK - MS - Instant::now());
    let slow = Waker::from(Arc::new(Slow));
    let mut tokios = pin!(tokio::time::sleep_until(edge));
    let is_pending = tokios
        .as_mut()
        .poll(&mut Context::from_waker(&slow))
        .is_pending();
    assert!(is_pending, "it lies ahead");
    let woken = thread::scope(|scope| {
        let waits = scope.spawn(move || {
            // It is rounded up to the edge. A thread that comes late would wait for the next one.
            let left = edge - TICK / 2 - Instant::now();
            match kind {
                Kind::Deadline => {
                    let deadline = timer.deadline(left);
                    if deadline.handle().deadline() != Some(edge) {
                        return None;
                    }
                    block_on(deadline).unwrap();
                }
                Kind::Sleep => {
                    let mut sleep = timer.sleep(left);
                    if sleep.deadline() > edge {
                        return None;
                    }
                    block_on(poll_fn(|cx| sleep.try_poll(cx))).unwrap();
                }
            }
            Some(edge.elapsed())
        });
        thread::sleep(edge - Instant::now() + 2 * MS);
        let _ = earlier.try_poll(&mut Context::from_waker(Waker::noop()));
        let polled = edge.elapsed();
        let woken = waits.join().unwrap()?;
        (polled < 4 * MS).then_some(woken)
    });
    // A busy machine wakes anyone late, tokio's own timers too.
    woken.filter(|woken| *woken < TICK || is_punctual())
}

/// Whether the machine wakes a thread in time now.
fn is_punctual() -> bool {
    let start = Instant::now();
    thread::sleep(MS);
    start.elapsed() < TICK / 4
}

#[test]
fn a_timer_armed_in_time_fires_in_its_coarse_tick() {
    for kind in [Kind::Sleep, Kind::Deadline] {
        in_time(move || {
            let runtime = multi_thread(1);
            let _context = runtime.enter();
            let builder = Timer::builder().tick(TICK).shards(1);
            let timer = builder.build_on(runtime.handle()).unwrap();
            let tries = (0..20).filter_map(|_| woken_after_the_edge(&timer, kind));
            let shown: Vec<_> = tries.take(5).collect();
            assert!(!shown.is_empty(), "inconclusive: the machine is too slow");
            let late = shown.iter().filter(|woken| **woken >= TICK).count();
            // One may be the machine's.
            assert!(late <= 1, "a {kind:?} is a whole tick late: {shown:?}");
        });
    }
}
