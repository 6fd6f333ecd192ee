//! The sleep that stands next to a row: a server always has something armed.
//!
//! tokio wakes its driver for a timer that is due before all others of its runtime, by a write to
//! an eventfd. Where nothing else is armed, it does so for every timer. So each turn of a contender
//! has one sleep more, on the contender's own timer: it is due before the timers of the row, and
//! after the turn. The timers of a row that fires them are due first anyway.
//!
//! A queue keeps its own order, so a contender that is a queue also holds an item of that kind.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::Duration;

use tickwheel::Timer;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::part::name;

/// When a standing sleep is due, from the beginning of a turn.
pub const STANDING: Duration = Duration::from_secs(25);

/// The timeout of a row that has one for all its timers: they are due after the standing sleep.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The standing sleeps of a turn. To drop them disarms them.
#[must_use = "a sleep stands until it is dropped"]
pub struct Standing(Vec<Sleep>);

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Standing {
    /// On the timer by which a contender of that name waits in this runtime. The contenders that
    /// have no timer have no standing sleep either.
    pub fn of(contender: &str, runtime: &Runtime) -> Standing {
        let within = runtime.enter();
        let sleeps = sleep_of(contender).map(armed).into_iter().collect();
        drop(within);
        settle(runtime);
        Standing(sleeps)
    }

    /// On a timer that is not the runtime's own.
    pub fn on(timer: &Timer) -> Standing {
        Standing(vec![armed(Box::pin(timer.sleep(STANDING)))])
    }

    /// As [`of`](Standing::of), on each worker: for timers that each worker has its own of.
    pub fn on_each_worker(contender: &'static str, runtime: &Runtime, workers: usize) -> Standing {
        // Each task blocks its worker until all have one.
        let barrier = Arc::new(Barrier::new(workers));
        let tasks: Vec<_> = (0..workers)
            .map(|_| {
                let barrier = barrier.clone();
                runtime.spawn(async move {
                    let sleep = sleep_of(contender).map(armed);
                    barrier.wait();
                    sleep
                })
            })
            .collect();
        let arm = |task: JoinHandle<Option<Sleep>>| runtime.block_on(task).expect("no task panics");
        let sleeps = tasks.into_iter().filter_map(arm).collect();
        settle(runtime);
        Standing(sleeps)
    }

    /// Ends the turn. It panics if the turn was so long that a sleep has fired.
    pub fn end(mut self) {
        let has_fired = self.0.iter_mut().any(is_ready);
        assert!(!has_fired, "a turn took longer than {STANDING:?}");
    }
}

/// In the present runtime.
fn sleep_of(contender: &str) -> Option<Sleep> {
    Some(match contender {
        none if name::has_no_timer(none) => return None,
        name::PINGORA => Box::pin(pingora_timeout::sleep(STANDING)),
        name::GLOBAL => Box::pin(Timer::global().sleep(STANDING)),
        ours if ours.starts_with(name::TICKWHEEL) => Box::pin(tickwheel::sleep(STANDING)),
        _ => Box::pin(tokio::time::sleep(STANDING)),
    })
}

fn armed(mut sleep: Sleep) -> Sleep {
    assert!(!is_ready(&mut sleep));
    sleep
}

fn is_ready(sleep: &mut Sleep) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    sleep.as_mut().poll(&mut cx).is_ready()
}

/// tokio's driver knows what is armed once it has turned. When a sleep has fired, it has.
fn settle(runtime: &Runtime) {
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
}

#[cfg(test)]
mod tests {
    use tokio::task::unconstrained;

    use super::super::{Durations, Inner, batch, polled_once, runtime};
    use super::*;

    #[test]
    fn it_is_armed_on_the_timer_of_its_contender() {
        let runtime = runtime(2);
        let own = runtime.block_on(async { Timer::current() });
        let pending = |timer: &Timer| timer.metrics().pending();
        for (contender, stand) in [
            (name::TICKWHEEL, [1, 0]),
            (name::DROP_IN, [1, 0]),
            (name::GLOBAL, [0, 1]),
            (name::TOKIO, [0, 0]),
            (name::NO_TIMER, [0, 0]),
        ] {
            let standing = Standing::of(contender, &runtime);
            let found = [pending(&own), pending(Timer::global())];
            assert_eq!(found, stand, "{contender}");
            standing.end();
            assert_eq!([pending(&own), pending(Timer::global())], [0, 0]);
        }
        let standing = Standing::on_each_worker(name::DROP_IN, &runtime, 2);
        assert_eq!(pending(&own), 2);
        standing.end();
        assert_eq!(pending(&own), 0);
    }

    #[test]
    fn it_is_due_before_the_timeouts_of_the_rows() {
        let durations = Durations::of_timeouts();
        let durations = (0..1_024).map(|index| durations.get(index));
        assert!(durations.chain([TIMEOUT]).all(|after| after > STANDING));
    }

    /// How many system calls of the kind `write` this thread has made.
    #[cfg(target_os = "linux")]
    fn writes() -> u64 {
        let counts = std::fs::read_to_string("/proc/thread-self/io").expect("Linux has it");
        let mut lines = counts.lines();
        let writes = lines.find_map(|line| line.strip_prefix("syscw: "));
        writes.expect("it has that line").parse().expect("a number")
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn no_driver_is_woken_for_a_timer_next_to_a_standing_sleep() {
        const TIMES: usize = 1_000;
        for (contender, stands, most) in [
            (name::TOKIO, true, 0),
            (name::TOKIO, false, TIMES as u64),
            (name::DROP_IN, true, 0),
        ] {
            let runtime = runtime(0);
            let standing = stands.then(|| Standing::of(contender, &runtime));
            let found = runtime.block_on(unconstrained(async {
                let mut hand = match contender {
                    name::TOKIO => {
                        polled_once(false, |after| tokio::time::timeout(after, Inner::<false>))
                    }
                    _ => polled_once(false, |after| tickwheel::timeout(after, Inner::<false>)),
                };
                let before = writes();
                batch(&mut *hand, TIMES).await;
                writes() - before
            }));
            assert_eq!(found, most, "{contender}, standing: {stands}");
            if let Some(standing) = standing {
                standing.end();
            }
        }
    }
}
