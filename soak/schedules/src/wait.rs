//! Awaiting deadlines, and when they were ready.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use tickwheel::error::Cancelled;
use tickwheel_soak_model::Outcome;

use crate::calls::outcome;
use crate::record::{Moment, Noting, Span};

/// How a deadline was ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub outcome: Outcome<Moment>,
    /// The poll that found it ready.
    pub span: Span,
    /// Since when the task had waited, and when it was woken.
    pub woken: Option<(Duration, Duration)>,
}

/// Awaits them all in one task, and gives each back with what it came to.
pub fn await_all<F, T>(deadlines: Vec<(F, T)>) -> Vec<(F, T, Ready)>
where
    F: Future<Output = Result<(), Cancelled>> + Unpin,
{
    let mut left: Vec<_> = deadlines
        .into_iter()
        .map(|(deadline, of)| (deadline, of, None))
        .collect();
    let mut ready = Vec::new();
    let mut noting = None;
    block_on(poll_fn(|cx: &mut Context<'_>| {
        let noting = noting.get_or_insert_with(|| Noting::new(cx.waker()));
        let woken = noting.take();
        let waker = Waker::from(noting.clone());
        for (mut deadline, of, waits_since) in std::mem::take(&mut left) {
            let mut cx = Context::from_waker(&waker);
            match Span::of(|| Pin::new(&mut deadline).poll(&mut cx)) {
                (Poll::Ready(result), span) => {
                    let outcome = outcome(result);
                    let woken = waits_since.zip(woken);
                    let is_ready = Ready {
                        outcome,
                        span,
                        woken,
                    };
                    ready.push((deadline, of, is_ready));
                }
                (Poll::Pending, span) => left.push((deadline, of, Some(span.ended))),
            }
        }
        if left.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    ready
}
