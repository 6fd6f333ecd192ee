//! The runtime's own tasks: none is told of the end, whatever it does while it is dropped.

use std::future::poll_fn;
use std::panic::catch_unwind;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;

use futures::future::{Either, select};
use tickwheel::{Deadline, Duration, Instant, Timer};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use crate::common::{HOUR, MS, current_thread, multi_thread};
use crate::waits::{End, Kind, Waiting, begin_everywhere, end_of};
use crate::{MINUTE, bounded, outcome_of_poll};

/// Computes for that time, and does not yield its worker.
fn compute(time: Duration) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What the tasks of a runtime saw of its end: nothing.
type Seen = Arc<Mutex<Vec<End>>>;

/// A task that arms and disarms timers without an end, and computes in between.
async fn busy(round: fn() -> Waiting, work: Duration, seen: Seen) {
    loop {
        match end_of(round()).await {
            End::Elapsed => compute(work),
            told => return seen.lock().unwrap().push(told),
        }
    }
}

fn round_on_tokio() -> Waiting {
    Box::pin(async {
        let _ = tokio::time::timeout(MINUTE, yield_now()).await;
        let mut beat = tokio::time::interval_at(Instant::now() + MINUTE, MINUTE);
        select(pin!(beat.tick()), pin!(yield_now())).await;
        End::Elapsed
    })
}

fn round_on_tickwheel() -> Waiting {
    Box::pin(async {
        let _ = tickwheel::timeout(MINUTE, yield_now()).await;
        let mut beat = tickwheel::interval_at(Instant::now() + MINUTE, MINUTE);
        select(pin!(beat.tick()), pin!(yield_now())).await;
        let deadline = Timer::current().deadline(MINUTE);
        match select(deadline, pin!(yield_now())).await {
            Either::Left((ended, _)) => End::of(ended),
            Either::Right(_) => End::Elapsed,
        }
    })
}

/// Runtimes of all shapes are made, busy for a moment, and dropped.
fn drop_busy_runtimes(round: fn() -> Waiting, repeats: u32) {
    let shapes = [1, 2, 4, 8].into_iter().flat_map(|workers| {
        [(10, 0), (10, 200), (100, 50), (100, 0), (1_000, 20)].map(|shape| (workers, shape))
    });
    for (workers, (tasks, work)) in shapes {
        for repeat in 0..repeats {
            let seen = Seen::default();
            let runtime = match workers {
                1 => current_thread(),
                _ => multi_thread(workers),
            };
            for _ in 0..tasks {
                let work = Duration::from_micros(work);
                runtime.spawn(busy(round, work, seen.clone()));
            }
            let moment = repeat % 4 * Duration::from_micros(400);
            runtime.block_on(async { tokio::time::sleep(moment).await });
            drop(runtime);
            let seen = seen.lock().unwrap();
            assert!(
                seen.is_empty(),
                "{workers} workers, {tasks} tasks, {work} us: {} saw the end: {:?}",
                seen.len(),
                seen[0]
            );
        }
    }
}

#[test]
fn a_dropped_busy_runtime_tells_none_of_its_own_tasks_on_tokio() {
    bounded(|| drop_busy_runtimes(round_on_tokio, 4));
}

#[test]
fn a_dropped_busy_runtime_tells_none_of_its_own_tasks() {
    bounded(|| drop_busy_runtimes(round_on_tickwheel, 12));
}

#[test]
fn a_dropped_busy_runtime_tells_those_elsewhere_alone() {
    bounded(|| {
        let other = multi_thread(1);
        for round in 0..60 {
            let kind = Kind::ALL[1 + round % 4];
            let seen = Seen::default();
            let runtime = multi_thread(2 + round % 3);
            for _ in 0..50 {
                let work = Duration::from_micros(round as u64 % 3 * 50);
                runtime.spawn(busy(round_on_tickwheel, work, seen.clone()));
            }
            let places = begin_everywhere(&runtime, &other, kind);
            thread::sleep(MS);
            drop(runtime);
            places.assert_told(kind);
            let seen = seen.lock().unwrap();
            assert!(seen.is_empty(), "{} tasks saw the end", seen.len());
        }
    });
}

/// A task that the shutdown drops looks at its timers a last time.
struct LastLook<S: Future<Output = ()> + Unpin> {
    armed: S,
    make: fn() -> S,
    deadline: Option<Deadline>,
    seen: mpsc::Sender<String>,
}

impl<S: Future<Output = ()> + Unpin> LastLook<S> {
    async fn for_ever(mut self) {
        poll_fn(|cx| Pin::new(&mut self.armed).poll(cx)).await;
        unreachable!("it is an hour");
    }
}

impl<S: Future<Output = ()> + Unpin> Drop for LastLook<S> {
    fn drop(&mut self) {
        let armed = outcome_of_poll(&mut self.armed);
        let made = catch_unwind(self.make).map(|mut made| outcome_of_poll(&mut made));
        let deadline = self.deadline.as_mut().map(outcome_of_poll);
        let pending = self.deadline.as_ref().map(|it| it.handle().is_pending());
        let reset = self.deadline.as_ref().map(|it| it.handle().reset());
        let is_well = matches!(armed, Ok(Poll::Pending))
            && matches!(made, Ok(Ok(Poll::Pending)))
            && matches!(deadline, None | Some(Ok(Poll::Pending)))
            && pending != Some(false)
            && reset != Some(false);
        let all = format!("{armed:?} {made:?} {deadline:?} {pending:?} {reset:?}");
        let _ = self.seen.send(if is_well { String::new() } else { all });
    }
}

fn look_a_last_time<S>(runtime: Runtime, make: fn() -> S, deadline: fn() -> Option<Deadline>)
where
    S: Future<Output = ()> + Unpin + Send + 'static,
{
    let (sender, seen) = mpsc::channel();
    // Some tasks are older than the timer, some are younger.
    let begun = Arc::new(AtomicUsize::new(0));
    for all in [10, 20] {
        for _ in 0..10 {
            let (seen, begun) = (sender.clone(), begun.clone());
            runtime.spawn(async move {
                yield_now().await;
                let last_look = LastLook {
                    armed: make(),
                    make,
                    deadline: deadline(),
                    seen,
                };
                begun.fetch_add(1, Ordering::Relaxed);
                last_look.for_ever().await;
            });
        }
        while begun.load(Ordering::Relaxed) < all {
            runtime.block_on(async { tokio::time::sleep(MS).await });
        }
    }
    drop((runtime, sender));
    let seen: Vec<_> = seen.into_iter().collect();
    assert_eq!(seen.len(), 20);
    let told: Vec<_> = seen.iter().filter(|seen| !seen.is_empty()).collect();
    assert!(told.is_empty(), "{} of 20: {}", told.len(), told[0]);
}

#[test]
fn a_task_dropped_by_the_shutdown_finds_timers_pending_on_tokio() {
    let make = || Box::pin(tokio::time::sleep(HOUR));
    for _ in 0..10 {
        for runtime in [multi_thread(2), current_thread()] {
            bounded(move || look_a_last_time(runtime, make, || None));
        }
    }
}

#[test]
fn a_task_dropped_by_the_shutdown_finds_timers_pending() {
    let deadline = || Some(Timer::current().deadline(HOUR));
    let make = || tickwheel::sleep(HOUR);
    for _ in 0..10 {
        for runtime in [multi_thread(2), current_thread()] {
            bounded(move || look_a_last_time(runtime, make, deadline));
        }
    }
}
