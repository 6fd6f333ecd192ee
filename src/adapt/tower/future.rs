//! The futures of calls.
//!
//! Invariant: the service's future is polled first, so that an answer which is there wins over a
//! deadline that has passed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::BoxError;
use super::outcome::OnElapsed;
use crate::error::Elapsed;
use crate::future::ended::Ended;
use crate::future::timeout;
use crate::{Instant, Sleep, scope};

pin_project! {
    /// A call with a timeout: what [`Timeout`](super::Timeout) answers with.
    ///
    /// Dropping it drops the call and takes its timer out.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ResponseFuture<F, O> {
        #[pin]
        pub(super) call: F,
        pub(super) end: End,
        // Taken when the call was not answered in time.
        pub(super) on_elapsed: Option<O>,
    }
}

/// What ends a call that is not answered.
#[derive(Debug)]
pub(super) enum End {
    Never,
    Timeout(Sleep),
    Scope(Sleep, Instant),
}

impl<F, Response, Error, O> Future for ResponseFuture<F, O>
where
    F: Future<Output = Result<Response, Error>>,
    O: OnElapsed<Response, Error>,
{
    type Output = Result<Response, O::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let called = match this.end {
            End::Never => Ok(ready!(this.call.poll(cx))),
            End::Timeout(sleep) => ready!(timeout::poll_bounded(this.call, sleep, cx)),
            End::Scope(sleep, deadline) => {
                ready!(scope::poll_bounded(this.call, sleep, *deadline, cx))
            }
        };
        Poll::Ready(match called {
            Ok(answer) => answer.map_err(O::error),
            Err(ended) => {
                let on_elapsed = this.on_elapsed.take();
                let on_elapsed = on_elapsed.expect("polled after it was ready");
                match ended {
                    Ended::Elapsed => on_elapsed.elapsed(),
                    Ended::ShutDown => on_elapsed.shut_down(),
                }
            }
        })
    }
}

pin_project! {
    /// A call that passes its deadline on: what [`GrpcTimeout`](super::GrpcTimeout) answers with.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct GrpcResponseFuture<F> {
        // None where nothing was left, so that nothing was called.
        #[pin]
        call: Option<F>,
    }
}

impl<F> GrpcResponseFuture<F> {
    pub(super) fn new(call: Option<F>) -> Self {
        GrpcResponseFuture { call }
    }
}

impl<F, Response, Error> Future for GrpcResponseFuture<F>
where
    F: Future<Output = Result<Response, Error>>,
    Error: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().call.as_pin_mut() {
            Some(call) => call.poll(cx).map_err(Into::into),
            None => Poll::Ready(Err(Elapsed::new().into())),
        }
    }
}
