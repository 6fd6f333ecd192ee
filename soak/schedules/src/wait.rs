//! Awaiting deadlines, and when they were ready.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use shuttle::future::block_on;
use tickwheel::error::Cancelled;
use tickwheel_soak_model::Outcome;

use crate::programs::Seen;
use crate::programs::calls::outcome;
use crate::record::{Moment, Noting, Span};

/// How a deadline was ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub outcome: Outcome<Moment>,
    /// The poll that found it ready.
    pub seen: Seen<Moment>,
}

/// Awaits a deadline, and gives it back with what it came to.
pub fn await_one<F>(deadline: F) -> (F, Ready)
where
    F: Future<Output = Result<(), Cancelled>> + Unpin,
{
    let (deadline, result, seen) = block_on(wait_for_all(&mut None, vec![deadline])).remove(0);
    let outcome = outcome(result);
    (deadline, Ready { outcome, seen })
}

/// Waits for all of them in one task. Returns each with its output and the poll that gave it.
pub async fn wait_for_all<F: Future + Unpin>(
    noting: &mut Option<Arc<Noting>>,
    futures: Vec<F>,
) -> Vec<(F, F::Output, Seen<Moment>)> {
    let mut left: Vec<_> = futures.into_iter().map(|future| (future, None)).collect();
    let mut ready = Vec::new();
    poll_fn(|cx: &mut Context<'_>| {
        let noting = noting.get_or_insert_with(|| Noting::new(cx.waker()));
        if !noting.wakes(cx.waker()) {
            *noting = Noting::new(cx.waker());
        }
        let (woken, waker) = (noting.take().map(Moment::of), Waker::from(noting.clone()));
        for (mut future, waits_since) in std::mem::take(&mut left) {
            let poll = || Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            let (polled, span) = Span::of(poll);
            let call = span.call();
            match polled {
                Poll::Pending => left.push((future, Some(call.after))),
                Poll::Ready(output) => {
                    let woken = waits_since.zip(woken).map(|(since, woken)| [since, woken]);
                    ready.push((future, output, Seen { call, woken }));
                }
            }
        }
        if left.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    ready
}
