//! Waits at every place that is no task of the runtime: each is told that it has shut down.

use std::future::pending;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use futures::FutureExt;
use tickwheel::{Duration, Instant, Timer};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use tokio::task::{LocalSet, block_in_place, spawn_local};

use super::tasks::{Told, busy_on_tickwheel};
use super::{End, MINUTE, Waiting, bounded, end_of};
use crate::common::{HOUR, MS, current_thread, multi_thread};

/// A way to wait for what never comes, to be called in the context of the runtime that drives it.
type Wait = fn() -> Waiting;

/// The first is tokio's own.
const WAITS: [Wait; 5] = [
    || Box::pin(tokio::time::sleep(HOUR).map(|()| End::Elapsed)),
    || Box::pin(tickwheel::sleep(HOUR).map(|()| End::Elapsed)),
    || Box::pin(tickwheel::timeout(HOUR, pending::<()>()).map(|_| End::Elapsed)),
    || {
        let mut beat = tickwheel::interval_at(Instant::now() + HOUR, HOUR);
        Box::pin(async move {
            beat.tick().await;
            End::Elapsed
        })
    },
    || Box::pin(Timer::current().deadline(HOUR).map(End::of)),
];

/// What tokio's own timers say once their runtime has shut down.
const TOKIOS_SENTENCE: &str = "A Tokio 1.x context was found, but it is being shutdown.";

fn is_told(number: usize, end: &End) -> bool {
    match end {
        // In the very moment of the end tokio's own may elapse.
        End::Elapsed => number == 0,
        End::Cancelled { by_shutdown } => *by_shutdown,
        End::Panicked(message) => {
            let is_ours = number == 0 || message.contains("has shut down");
            is_ours && message.contains(TOKIOS_SENTENCE)
        }
    }
}

/// The waits begin before the shutdown, or while it drops the tasks, which is before it ends the
/// timers, or a little later. The tasks of the runtime are busy with timers meanwhile.
#[test]
fn those_elsewhere_alone_are_told_of_a_shutdown() {
    for round in 0..30 {
        let number = round % WAITS.len();
        // tokio's alternative timer loses a sleep of its own that is made in the very moment.
        if cfg!(tokio_unstable) && number == 0 {
            continue;
        }
        let (is_during, moment) = (round / WAITS.len() % 2 == 0, round as u32 % 7);
        let (tasks, micros) =
            [(0, 0), (10, 0), (10, 200), (100, 50), (100, 0), (1_000, 20)][round % 6];
        for workers in [1, 2, 4, 8] {
            bounded(move || {
                let runtime = match workers {
                    1 => current_thread(),
                    _ => multi_thread(workers),
                };
                let told = Told::default();
                for _ in 0..tasks {
                    runtime.spawn(busy_on_tickwheel(micros, told.clone()));
                }
                // The timer is in use.
                runtime.block_on(async { tickwheel::sleep(MS).await });
                let (sender, start) = watch::channel(());
                let delay = moment * Duration::from_micros(20);
                let ends = wait_everywhere(&runtime, WAITS[number], start, delay);
                if is_during {
                    runtime.spawn(async move {
                        let _sender = sender;
                        pending::<()>().await;
                    });
                } else {
                    drop(sender);
                    thread::sleep(moment * MS);
                }
                drop(runtime);
                for (place, end) in ends {
                    let end = end.recv_timeout(MINUTE).expect(place);
                    assert!(is_told(number, &end), "wait {number} {place}: {end:?}");
                }
                let told = told.lock().unwrap();
                assert!(
                    told.is_empty(),
                    "of {tasks} tasks on {workers} workers: {told:?}"
                );
            });
        }
    }
}

/// Begins a wait at each place, when the sender of `start` has gone and after a delay.
fn wait_everywhere(
    runtime: &Runtime,
    wait: Wait,
    start: watch::Receiver<()>,
    delay: Duration,
) -> Vec<(&'static str, Receiver<End>)> {
    let (sender, begun) = mpsc::channel();
    let mut ends = Vec::new();
    let mut place = |name| {
        let (begins, mut start, (tells, end)) = (sender.clone(), start.clone(), mpsc::channel());
        ends.push((name, end));
        move |wait: &dyn Fn() -> End| {
            begins.send(()).unwrap();
            let _ = futures::executor::block_on(start.changed());
            thread::sleep(delay);
            let _ = tells.send(wait());
        }
    };
    let in_context = move |context: &Handle| context.block_on(async { end_of(wait()).await });
    let made_on = move |handle: &Handle| {
        let _context = handle.enter();
        end_of(wait())
    };

    let (mut run, handle) = (place("in a blocking task"), runtime.handle().clone());
    runtime.spawn_blocking(move || run(&|| in_context(&handle)));
    if runtime.metrics().num_workers() > 1 {
        let mut run = place("in place");
        runtime.spawn(async move { block_in_place(|| run(&|| in_context(&Handle::current()))) });
    }
    let (mut run, handle) = (
        place("on a thread in the context"),
        runtime.handle().clone(),
    );
    thread::spawn(move || run(&|| in_context(&handle)));
    let (mut run, handle) = (place("on a thread outside"), runtime.handle().clone());
    thread::spawn(move || run(&|| futures::executor::block_on(made_on(&handle))));
    let (mut run, handle) = (place("in another runtime"), runtime.handle().clone());
    thread::spawn(move || run(&|| current_thread().block_on(made_on(&handle))));
    let (mut run, handle) = (place("in a local set"), runtime.handle().clone());
    thread::spawn(move || {
        run(&|| {
            let waiting = made_on(&handle);
            let task = async { spawn_local(waiting).await.unwrap() };
            LocalSet::new().block_on(&current_thread(), task)
        });
    });
    // What has not begun would be dropped with the runtime.
    for _ in 0..ends.len() {
        begun.recv_timeout(MINUTE).unwrap();
    }
    ends
}
