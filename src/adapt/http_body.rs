//! A timeout for HTTP bodies: [`TimeoutBody`], idle between frames, and total.
//!
//! Invariants:
//!
//! - The idle deadline counts only while the body has to be waited for. A client that reads slowly is
//!   not the body's fault.
//! - After the end and after an error there is no deadline left, and the body within is not polled.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::runtime::coop;
use ::http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::error::Cancelled;
use crate::{Deadline, ResetHandle, Timer};

pin_project! {
    /// A body that fails when it gives no frame for too long, or when it takes too long in all.
    ///
    /// It has neither timeout at first. Set one, or both:
    ///
    /// - [`idle_timeout`](TimeoutBody::idle_timeout) is for each wait for a frame. It begins when the
    ///   body is polled and has no frame, so the time in which nobody asks does not count. A frame
    ///   that is ready wins.
    /// - [`total_timeout`](TimeoutBody::total_timeout) is for the whole body. It ends also a body
    ///   that always has a frame ready.
    ///
    /// Frames, trailers, size hint and end of stream are those of the body within. Zero lets pass only
    /// what is ready at once, and for the total nothing at all. [`Duration::MAX`] never ends.
    ///
    /// # Errors
    ///
    /// [`Error`] tells which time was over, and has the error of the body within. After an error the
    /// body is at its end. Under hyper the peer sees a body that is cut off: a closed connection in
    /// HTTP/1, a reset stream in HTTP/2.
    ///
    /// # Cancel safety
    ///
    /// As the body within: no frame is kept here.
    ///
    /// # Cost
    ///
    /// A frame that is ready costs nothing of the idle timeout. A wait costs a
    /// [`reset`](ResetHandle::reset) and one short lock for each poll. The total timeout costs one
    /// short lock and a clock reading for each poll.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::{Duration, http_body::TimeoutBody};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let body = TimeoutBody::new(String::from("hello"))
    ///     .idle_timeout(Duration::from_secs(10))
    ///     .total_timeout(Duration::from_secs(300));
    /// # use http_body::Body;
    /// assert_eq!(body.size_hint().exact(), Some(5));
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "a body does nothing unless it is polled"]
    pub struct TimeoutBody<B> {
        #[pin]
        body: B,
        timer: Timer,
        idle: Option<Idle>,
        total: Option<Deadline>,
        is_at_end: bool,
    }
}

#[derive(Debug)]
struct Idle {
    timeout: Duration,
    /// Made at the first wait, and used again for all others.
    deadline: Option<(Deadline, ResetHandle)>,
    is_waiting: bool,
}

impl<B> TimeoutBody<B> {
    /// Wraps a body, without timeouts, on the current runtime's own timer.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    #[track_caller]
    pub fn new(body: B) -> TimeoutBody<B> {
        TimeoutBody::with_timer(&Timer::current(), body)
    }

    /// Wraps a body, without timeouts, on this timer.
    pub fn with_timer(timer: &Timer, body: B) -> TimeoutBody<B> {
        TimeoutBody {
            body,
            timer: timer.clone(),
            idle: None,
            total: None,
            is_at_end: false,
        }
    }

    /// Bounds each wait for a frame.
    pub fn idle_timeout(mut self, timeout: Duration) -> TimeoutBody<B> {
        self.idle = Some(Idle {
            timeout,
            deadline: None,
            is_waiting: false,
        });
        self
    }

    /// Bounds the whole body, from now on.
    pub fn total_timeout(mut self, timeout: Duration) -> TimeoutBody<B> {
        self.total = Some(self.timer.deadline(timeout));
        self
    }

    /// The body within.
    pub fn get_ref(&self) -> &B {
        &self.body
    }

    /// The body within, to be changed.
    pub fn get_mut(&mut self) -> &mut B {
        &mut self.body
    }

    /// As [`get_mut`](TimeoutBody::get_mut), for a body that is pinned.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut B> {
        self.project().body
    }

    /// Gives the body back.
    pub fn into_inner(self) -> B {
        self.body
    }
}

impl<B> Body for TimeoutBody<B>
where
    B: Body,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    type Data = B::Data;
    type Error = Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Error>>> {
        let this = self.project();
        if *this.is_at_end {
            return Poll::Ready(None);
        }
        let result = match poll_total(this.total, cx) {
            Poll::Ready(error) => Some(Err(error)),
            Poll::Pending => match this.body.poll_frame(cx) {
                Poll::Ready(frame) => {
                    frame.map(|frame| frame.map_err(|error| Error::Body(error.into())))
                }
                Poll::Pending => Some(Err(ready!(poll_idle(this.idle, this.timer, cx)))),
            },
        };
        if let Some(Ok(_)) = result {
            if let Some(idle) = this.idle {
                idle.is_waiting = false;
            }
        } else {
            *this.is_at_end = true;
            *this.total = None;
            *this.idle = None;
        }
        Poll::Ready(result)
    }

    fn is_end_stream(&self) -> bool {
        self.is_at_end || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_at_end {
            return SizeHint::with_exact(0);
        }
        self.body.size_hint()
    }
}

fn poll_total(total: &mut Option<Deadline>, cx: &mut Context<'_>) -> Poll<Error> {
    let Some(deadline) = total else {
        return Poll::Pending;
    };
    poll_deadline(deadline, cx).map(|end| end.map_or_else(Error::Cancelled, |()| Error::Total))
}

fn poll_idle(idle: &mut Option<Idle>, timer: &Timer, cx: &mut Context<'_>) -> Poll<Error> {
    let Some(idle) = idle else {
        return Poll::Pending;
    };
    let (deadline, handle) = idle.deadline.get_or_insert_with(|| {
        let deadline = timer.deadline(idle.timeout);
        let handle = deadline.handle();
        (deadline, handle)
    });
    // It may have expired while nobody waited, which is nobody's concern.
    if !std::mem::replace(&mut idle.is_waiting, true) && !handle.reset() {
        deadline.restart();
    }
    poll_deadline(deadline, cx).map(|end| end.map_or_else(Error::Cancelled, |()| Error::Idle))
}

/// Polls whatever is left of the task's budget, which the body may have used up.
fn poll_deadline(deadline: &mut Deadline, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
    pin!(coop::unconstrained(deadline)).poll(cx)
}

/// Why a [`TimeoutBody`] failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No frame came within the idle timeout.
    Idle,
    /// The body was not at its end within the total timeout.
    Total,
    /// The runtime that drives the timer has shut down.
    Cancelled(Cancelled),
    /// The body within failed.
    Body(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// Whether a time was over.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Idle | Error::Total)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Idle => f.write_str("the body gave no frame within its idle timeout"),
            Error::Total => f.write_str("the body was not at its end within its total timeout"),
            Error::Cancelled(cancelled) => cancelled.fmt(f),
            Error::Body(error) => error.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Body(error) => Some(&**error),
            Error::Cancelled(cancelled) => Some(cancelled),
            Error::Idle | Error::Total => None,
        }
    }
}
