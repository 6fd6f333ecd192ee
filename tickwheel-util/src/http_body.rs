//! A timeout for HTTP bodies: [`TimeoutBody`], idle between frames, and total.
//!
//! Invariant: once the inner body has ended or failed, nothing is armed, and it is not polled
//! again.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tickwheel::error::ShutDown;
use tickwheel::{Sleep, Timer};
use tokio::task::coop;

use crate::access::access_within;
use crate::budget::poll_after_inner;
use crate::wait_timeout::WaitTimeout;

pin_project! {
    /// A body that fails when a frame takes too long, or the whole body does.
    ///
    /// It starts without timeouts. Set one, or both. A timeout of zero lets only frames pass that
    /// are ready by the next tick, and a total of zero none. [`Duration::MAX`] never times out.
    /// After an [`Error`] the body has ended. Under hyper the peer sees a body that is cut off: a
    /// closed connection in HTTP/1, a reset stream in HTTP/2.
    ///
    /// It keeps no frame, so it is as cancel safe as the inner body. Dropping a wait for a frame
    /// does not end its idle time: the next wait has the time left. With a total timeout a ready
    /// frame costs one clock reading. Each wait takes two short locks of the timer's shard for the
    /// idle timeout, to arm and to disarm it. The total timeout takes two for the whole body.
    /// Further polls by one task take none. Nothing is allocated.
    ///
    /// # Errors
    ///
    /// A frame fails with [`Error`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::http_body::TimeoutBody;
    ///
    /// # tokio_test::block_on(async {
    /// let body = TimeoutBody::new(String::from("hello"))
    ///     .idle_timeout(Duration::from_secs(10))
    ///     .total_timeout(Duration::from_secs(300));
    /// # drop(body) });
    /// ```
    #[derive(Debug)]
    #[must_use = "a body does nothing unless it is polled"]
    pub struct TimeoutBody<B> {
        #[pin]
        body: B,
        timer: Timer,
        idle: WaitTimeout,
        total: Option<Sleep>,
        is_at_end: bool,
    }
}

impl<B> TimeoutBody<B> {
    /// Wraps a body, without a timeout, on the current runtime's own timer.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, and in a runtime without a time driver.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::pin::pin;
    ///
    /// use http_body::Body;
    /// use tickwheel::Duration;
    /// use tickwheel_util::http_body::TimeoutBody;
    ///
    /// # tokio_test::block_on(async {
    /// let body = TimeoutBody::new(String::from("hello")).idle_timeout(Duration::from_secs(10));
    /// let mut body = pin!(body);
    /// let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await.unwrap().unwrap();
    /// assert_eq!(frame.into_data().unwrap(), "hello");
    /// # });
    /// ```
    #[track_caller]
    pub fn new(body: B) -> TimeoutBody<B> {
        TimeoutBody::new_on(&Timer::current(), body)
    }

    /// Like [`new`](TimeoutBody::new), on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::http_body::TimeoutBody;
    ///
    /// # tokio_test::block_on(async {
    /// let timer = Timer::current(); // kept by the server, which saves a look-up
    /// let body = TimeoutBody::new_on(&timer, String::from("hello"));
    /// let body = body.total_timeout(Duration::from_secs(300));
    /// # drop(body) });
    /// ```
    pub fn new_on(timer: &Timer, body: B) -> TimeoutBody<B> {
        TimeoutBody {
            body,
            timer: timer.clone(),
            idle: WaitTimeout::new(timer),
            total: None,
            is_at_end: false,
        }
    }

    /// Bounds each wait for a frame.
    ///
    /// It counts from the first poll without a frame: the time from a frame to the next poll does
    /// not count. A ready frame wins.
    ///
    /// In a `select!` the work of another branch counts, because it follows such a poll. Bound each
    /// wait there in its place: `timeout(d, body.frame())`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::pin::pin;
    ///
    /// use http_body::Body;
    /// use tickwheel::Duration;
    /// use tickwheel_util::http_body::{Error, TimeoutBody};
    /// # use std::task::{Context, Poll};
    ///
    /// struct Silent; // its peer sends nothing
    /// # impl Body for Silent {
    /// #     type Data = &'static [u8];
    /// #     type Error = std::io::Error;
    /// #     fn poll_frame(
    /// #         self: std::pin::Pin<&mut Self>,
    /// #         _: &mut Context<'_>,
    /// #     ) -> Poll<Option<Result<http_body::Frame<&'static [u8]>, std::io::Error>>> {
    /// #         Poll::Pending
    /// #     }
    /// # }
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut body = pin!(TimeoutBody::new(Silent).idle_timeout(Duration::from_secs(10)));
    /// let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
    /// assert!(matches!(frame, Some(Err(Error::Idle))));
    /// # });
    /// ```
    pub fn idle_timeout(mut self, timeout: Duration) -> TimeoutBody<B> {
        self.idle.set_timeout(Some(timeout));
        self
    }

    /// Bounds the whole body, from now on.
    ///
    /// It ends a body even if a frame is always ready: later frames are dropped. The end of the
    /// body wins. A server does not poll a body while its client reads nothing, so the body cannot
    /// fail then: wrap the connection in a [`tickwheel::io::IdleTimeout`] too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::pin::pin;
    ///
    /// use http_body::Body;
    /// use tickwheel::{Duration, sleep};
    /// use tickwheel_util::http_body::{Error, TimeoutBody};
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let body = TimeoutBody::new(String::from("hello")).total_timeout(Duration::from_secs(300));
    /// let mut body = pin!(body);
    /// sleep(Duration::from_secs(301)).await; // the client is slow
    /// let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
    /// assert!(matches!(frame, Some(Err(Error::Total))));
    /// # });
    /// ```
    pub fn total_timeout(mut self, timeout: Duration) -> TimeoutBody<B> {
        self.total = Some(self.timer.sleep(timeout));
        self
    }

    access_within!(pinned body: B);
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
        let mut this = self.project();
        if *this.is_at_end {
            return Poll::Ready(None);
        }
        // By the clock: a body that is always ready may keep the driver from its turns.
        let timer = this.timer;
        let is_over = |total: &Sleep| total.deadline() <= timer.now();
        let had_budget = coop::has_budget_remaining();
        let result = match this.body.as_mut().poll_frame(cx) {
            Poll::Pending => {
                let error = poll_times(this.total, this.idle, had_budget, cx);
                Some(Err(ready!(error)))
            }
            Poll::Ready(Some(Ok(_))) if this.total.as_ref().is_some_and(is_over) => {
                Some(Err(Error::Total))
            }
            Poll::Ready(Some(Ok(frame))) => Some(Ok(frame)),
            Poll::Ready(Some(Err(error))) => Some(Err(Error::Body(error.into()))),
            Poll::Ready(None) => None,
        };
        this.idle.stop();
        *this.is_at_end = !matches!(result, Some(Ok(_)));
        // After this the task may never poll again, and keep the body.
        if *this.is_at_end || this.body.is_end_stream() {
            *this.total = None;
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

fn poll_times(
    total: &mut Option<Sleep>,
    idle: &mut WaitTimeout,
    had_budget: bool,
    cx: &mut Context<'_>,
) -> Poll<Error> {
    if let Some(total) = total {
        if let Poll::Ready(end) = poll_after_inner(had_budget, cx, |cx| total.try_poll(cx)) {
            return Poll::Ready(end.map_or_else(Error::ShutDown, |()| Error::Total));
        }
    }
    let end = ready!(idle.poll(had_budget, cx));
    Poll::Ready(end.map_or_else(Error::ShutDown, |()| Error::Idle))
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
    ShutDown(ShutDown),
    /// The inner body failed.
    Body(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// Whether a timeout has elapsed: [`Idle`](Error::Idle) or [`Total`](Error::Total).
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel_util::http_body::Error;
    ///
    /// assert!(Error::Idle.is_timeout());
    /// assert!(!Error::Body("the peer has gone".into()).is_timeout());
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Idle | Error::Total)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Idle => f.write_str("the body gave no frame within its idle timeout"),
            Error::Total => f.write_str("the body was not at its end within its total timeout"),
            Error::ShutDown(shut_down) => shut_down.fmt(f),
            Error::Body(_) => f.write_str("the body within failed"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Body(error) => Some(&**error),
            Error::ShutDown(_) | Error::Idle | Error::Total => None,
        }
    }
}
