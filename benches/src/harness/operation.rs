//! What a contender does, and the durations and inner futures that it takes.

use std::array;
use std::future::Future;
use std::hint::black_box;
use std::mem::replace;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// What a contender does, over and over, in one task.
pub trait Operation: Send + 'static {
    /// Makes ready, before the time is taken. It runs in the task that will run the operation.
    fn prepare(&mut self, _cx: &mut Context<'_>) {}

    /// Does the operation `times` times. `cx` is the context of the task.
    fn run(&mut self, cx: &mut Context<'_>, times: usize);
}

impl<F: FnMut(&mut Context<'_>, usize) + Send + 'static> Operation for F {
    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        self(cx, times);
    }
}

/// An operation of any contender.
pub type Hand = Box<dyn Operation>;

/// An operation from a closure, which does it as often as its argument says.
pub fn operation(run: impl FnMut(&mut Context<'_>, usize) + Send + 'static) -> Hand {
    Box::new(run)
}

/// Makes a future with a duration, polls it once and drops it. All futures must be ready, or none.
pub fn polled_once<F: Future>(
    ready: bool,
    mut make: impl FnMut(Duration) -> F + Send + 'static,
) -> Hand {
    let durations = Durations::of_timeouts();
    operation(move |cx, times| {
        let mut were_ready = 0;
        for index in 0..times {
            let future = pin!(make(durations.get(index)));
            were_ready += usize::from(future.poll(cx).is_ready());
        }
        let expected = if ready { times } else { 0 };
        assert_eq!(were_ready, expected, "measured something else");
    })
}

const LEN: usize = 1024;

/// A table of random durations, read round and round: they differ, at the price of one load.
pub struct Durations(Box<[Duration; LEN]>);

impl Durations {
    /// Durations within this range of seconds.
    pub fn seconds(range: Range<u64>) -> Durations {
        let micros = range.start * 1_000_000..range.end * 1_000_000;
        let random = || Duration::from_micros(fastrand::u64(micros.clone()));
        Durations(Box::new(array::from_fn(|_| random())))
    }

    /// What timeouts commonly are: 30 to 60 seconds. They are due after the standing sleep.
    pub fn of_timeouts() -> Durations {
        Durations::seconds(30..60)
    }

    pub fn get(&self, index: usize) -> Duration {
        self.0[index % LEN]
    }
}

/// A future that yields once: it wakes its task, and is ready at the second poll.
pub fn pending_once() -> PendingOnce {
    PendingOnce { is_polled: false }
}

/// See [`pending_once`].
pub struct PendingOnce {
    is_polled: bool,
}

impl Future for PendingOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if replace(&mut self.is_polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An inner future for timeouts: ready at the first poll, or never. The compiler cannot know which.
pub struct Inner<const READY: bool>;

impl<const READY: bool> Future for Inner<READY> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if black_box(READY) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use tickwheel::Timer;
    use tokio::task::unconstrained;

    use super::super::{batch, runtime};
    use super::*;

    /// A row of timeouts arms what it says, and no less because of tokio's cooperative budget.
    #[test]
    fn an_operation_arms_as_many_timers_as_it_counts() {
        runtime(2).block_on(async {
            let timer = Timer::builder().build().unwrap();
            for (ready, armed) in [(true, 0), (false, 5_000)] {
                let of = timer.clone();
                let mut hand = if ready {
                    polled_once(ready, move |after| of.timeout(after, Inner::<true>))
                } else {
                    polled_once(ready, move |after| of.timeout(after, Inner::<false>))
                };
                unconstrained(batch(&mut *hand, 5_000)).await;
                let metrics = timer.metrics();
                assert_eq!((metrics.armed(), metrics.disarmed()), (armed, armed));
            }
        });
    }
}
