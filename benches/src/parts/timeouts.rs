//! A timeout made, polled once and dropped: the operation that several parts share.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::harness::{Durations, Operation, operation};

/// Makes a future with a duration, polls it once and drops it. All futures must be ready, or none.
pub fn polled_once<F: Future>(
    ready: bool,
    mut make: impl FnMut(Duration) -> F + Send + 'static,
) -> impl Operation {
    let durations = Durations::of_timeouts();
    operation(move |cx, times| {
        let mut were_ready = 0;
        for index in 0..times {
            let future = pin!(make(durations.get(index)));
            were_ready += usize::from(future.poll(cx).is_ready());
        }
        assert_eq!(
            were_ready,
            if ready { times } else { 0 },
            "measured something else"
        );
    })
}

#[cfg(test)]
mod tests {
    use tickwheel::Timer;
    use tokio::task::unconstrained;

    use super::*;
    use crate::harness::{Never, Once, batch, runtime};

    /// A row of timeouts arms what it says, and no less because of tokio's cooperative budget.
    #[test]
    fn arms_as_often_as_it_says() {
        runtime(2).block_on(async {
            let timer = Timer::new();
            for (ready, armed) in [(true, 0), (false, 5_000)] {
                let mut hand: Box<dyn Operation> = if ready {
                    let timer = timer.clone();
                    Box::new(polled_once(ready, move |after| timer.timeout(after, Once)))
                } else {
                    let timer = timer.clone();
                    Box::new(polled_once(ready, move |after| timer.timeout(after, Never)))
                };
                unconstrained(batch(&mut *hand, 5_000)).await;
                let metrics = timer.metrics();
                assert_eq!((metrics.armed, metrics.disarmed), (armed, armed));
            }
        });
    }
}
