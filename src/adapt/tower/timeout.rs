//! [`Timeout`]: a service whose calls are bounded in time, and its [`TimeoutLayer`].
//!
//! Invariant: a clone shares nothing with its original but the timer.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use super::BoxError;
use crate::clock::FAR;
use crate::error::{Cancelled, Elapsed};
use crate::future::access::access_within;
use crate::future::limit;
use crate::future::timeout::poll_capped;
use crate::{Instant, Scope, Sleep, Timer};
use sealed::{Late, Limit};

/// Wraps a service in a [`Timeout`]. `B`, a [`Bound`], is the timeout, or the closure of
/// [`per_request`](TimeoutLayer::per_request). `A`, an [`Answer`], is the closure of
/// [`on_elapsed`](TimeoutLayer::on_elapsed), or nothing.
#[derive(Clone)]
#[must_use = "a layer does nothing until a service is given to it"]
pub struct TimeoutLayer<B = Duration, A = ()> {
    bound: B,
    answer: A,
    timer: Option<Timer>,
}

impl TimeoutLayer {
    /// Bounds each call by `timeout`, which counts from the call. It opens no
    /// [`scope`](crate::scope), and ends no later than an open one.
    pub const fn new(timeout: Duration) -> TimeoutLayer {
        TimeoutLayer {
            bound: timeout,
            answer: (),
            timer: None,
        }
    }

    /// Bounds each call, and the calls within it, by the result of `timeout` for its request, if
    /// that is `Some`: the call is a [`scope`](crate::scope), from the service's `call` until its
    /// future is ready. [`grpc_timeout`](super::grpc_timeout) reads a gRPC header. A closure names
    /// the type of the request:
    ///
    /// ```
    /// # use tickwheel::{Duration, tower::TimeoutLayer};
    /// # let _ =
    /// TimeoutLayer::per_request(|request: &http::Request<String>| {
    ///     (request.uri().path() != "/events").then_some(Duration::from_secs(5))
    /// });
    /// ```
    pub const fn per_request<F, Request>(timeout: F) -> TimeoutLayer<F>
    where
        F: Fn(&Request) -> Option<Duration>,
    {
        TimeoutLayer {
            bound: timeout,
            answer: (),
            timer: None,
        }
    }
}

impl<B, A> TimeoutLayer<B, A> {
    /// Answers a call that took too long, or that waits when the timer's runtime shuts down, in the
    /// service's own types. The service keeps its error type, and its own errors pass through.
    ///
    /// ```
    /// # use tickwheel::{Duration, tower::TimeoutLayer};
    /// # use tower::{Layer, ServiceExt, service_fn};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let slow = service_fn(|()| std::future::pending::<Result<&str, std::fmt::Error>>());
    /// let layer = TimeoutLayer::new(Duration::from_secs(1)).on_elapsed(|_| Ok("too late"));
    /// assert_eq!(layer.layer(slow).oneshot(()).await, Ok("too late"));
    /// # });
    /// ```
    pub fn on_elapsed<F, Response, Error>(self, answer: F) -> TimeoutLayer<B, F>
    where
        F: FnOnce(Elapsed) -> Result<Response, Error> + Clone,
    {
        TimeoutLayer {
            bound: self.bound,
            answer,
            timer: self.timer,
        }
    }

    /// Uses this timer. Otherwise each call looks up the current runtime's own.
    pub fn with_timer(self, timer: Timer) -> Self {
        TimeoutLayer {
            timer: Some(timer),
            ..self
        }
    }
}

impl<S, B: Clone, A: Clone> Layer<S> for TimeoutLayer<B, A> {
    type Service = Timeout<S, B, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Timeout {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service whose calls are bounded in time: [`TimeoutLayer`].
///
/// A ready answer wins over a deadline that has passed. A timeout of zero ends at the next tick. A
/// call that took too long is dropped. Waiting for the service to be ready is not bounded, unless
/// the timeout is around a buffer. Nothing is allocated, and only a call that waits arms a timer.
///
/// # Errors
///
/// A boxed [`Elapsed`] if a call took too long, or [`Cancelled`](crate::error::Cancelled) if the
/// timer's runtime shuts down while the call waits in another runtime: with
/// [`on_elapsed`](TimeoutLayer::on_elapsed) the closure answers instead. Otherwise the service's
/// own error, boxed. Without a timer of its own, a call panics outside a tokio runtime.
///
/// ```
/// # use tickwheel::{Duration, tower::Timeout};
/// # use tower::{ServiceExt, service_fn};
/// # tokio_test::block_on(async {
/// let echo = service_fn(async |text: &'static str| Ok::<_, std::io::Error>(text));
/// let bounded = Timeout::new(echo, Duration::from_secs(1));
/// assert_eq!(bounded.oneshot("hello").await?, "hello");
/// # Ok::<(), tickwheel::tower::BoxError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Timeout<S, B = Duration, A = ()> {
    inner: S,
    layer: TimeoutLayer<B, A>,
}

impl<S> Timeout<S> {
    /// Bounds each call of `inner` by `timeout`.
    pub const fn new(inner: S, timeout: Duration) -> Timeout<S> {
        Timeout {
            inner,
            layer: TimeoutLayer::new(timeout),
        }
    }
}

impl<S, B, A> Timeout<S, B, A> {
    access_within!(inner: S);
}

impl<S, B, A, Request> Service<Request> for Timeout<S, B, A>
where
    S: Service<Request>,
    B: Bound<Request>,
    A: Answer<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = A::Error;
    type Future = ResponseFuture<S::Future, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(A::error)
    }

    #[inline]
    fn call(&mut self, request: Request) -> Self::Future {
        let answer = self.layer.answer.clone();
        let time = match self.layer.bound.limit(&request) {
            Limit::None => None,
            Limit::Time(duration) => Some(duration),
            Limit::Scope(duration) => return self.call_in_scope(request, duration, answer),
        };
        ResponseFuture {
            call: Call::InTime {
                call: self.inner.call(request),
                // After the call, as tower's.
                time: time.map(|duration| self.time(duration)),
            },
            answer: Some(answer),
        }
    }
}

impl<S, B, A> Timeout<S, B, A> {
    /// The scope is also open during the service's `call`, which may make timeouts. A function of
    /// its own, because a call may be large and is moved as seldom as possible.
    #[inline]
    fn call_in_scope<Request>(
        &mut self,
        request: Request,
        duration: Duration,
        answer: A,
    ) -> ResponseFuture<S::Future, A>
    where
        S: Service<Request>,
    {
        let deadline = after(duration);
        let call = limit::within(deadline, || self.inner.call(request));
        let call = match &self.layer.timer {
            Some(timer) => timer.scope(deadline, call),
            None => crate::scope(deadline, call),
        };
        ResponseFuture {
            call: Call::InScope { call },
            answer: Some(answer),
        }
    }

    /// The sleep of a timeout. The call lies beside it, because it may be large.
    fn time(&self, duration: Duration) -> Sleep {
        let timeout = match &self.layer.timer {
            Some(timer) => timer.timeout(duration, pending::<()>()),
            None => crate::timeout(duration, pending()),
        };
        timeout.sleep
    }
}

fn after(duration: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}

/// No other crate can name these, so none can implement a trait whose methods take or return them.
mod sealed {
    #[derive(Debug)]
    pub enum Limit {
        None,
        Time(super::Duration),
        Scope(super::Duration),
    }

    /// The call took too long, or waits when the runtime of its timer shuts down.
    #[derive(Debug)]
    pub struct Late(pub Option<super::Cancelled>);
}

/// The bound of a call: one duration for all, or the result of a closure for the request. It is for
/// functions that take any [`TimeoutLayer`], and no other type can implement it.
///
/// ```
/// # use tickwheel::tower::{Answer, Bound, Timeout, TimeoutLayer};
/// # use tower::{Layer, Service};
/// fn bounded<S, R, B, A>(inner: S, layer: &TimeoutLayer<B, A>) -> impl Service<R>
/// where
///     S: Service<R>,
///     B: Bound<R> + Clone,
///     A: Answer<S::Response, S::Error> + Clone,
/// {
///     layer.layer(inner)
/// }
/// ```
pub trait Bound<Request> {
    #[doc(hidden)]
    fn limit(&self, request: &Request) -> Limit;
}

impl<Request> Bound<Request> for Duration {
    #[inline]
    fn limit(&self, _: &Request) -> Limit {
        Limit::Time(*self)
    }
}

impl<F, Request> Bound<Request> for F
where
    F: Fn(&Request) -> Option<Duration>,
{
    #[inline]
    fn limit(&self, request: &Request) -> Limit {
        self(request).map_or(Limit::None, Limit::Scope)
    }
}

/// The result of a call that was not answered in time: a boxed error for `()`, or the result of a
/// closure. It is for functions that take any [`TimeoutLayer`], like [`Bound`].
pub trait Answer<Response, Error> {
    /// The error of the service with the timeout.
    type Error;

    /// Converts the service's own error.
    #[doc(hidden)]
    fn error(error: Error) -> Self::Error;

    #[doc(hidden)]
    fn late(self, late: Late) -> Result<Response, Self::Error>;
}

impl<Response, Error: Into<BoxError>> Answer<Response, Error> for () {
    type Error = BoxError;

    fn error(error: Error) -> BoxError {
        error.into()
    }

    fn late(self, Late(shut_down): Late) -> Result<Response, BoxError> {
        Err(shut_down.map_or_else(|| Elapsed::new().into(), Cancelled::into))
    }
}

impl<F, Response, Error> Answer<Response, Error> for F
where
    F: FnOnce(Elapsed) -> Result<Response, Error>,
{
    type Error = Error;

    fn error(error: Error) -> Error {
        error
    }

    fn late(self, _: Late) -> Result<Response, Error> {
        // The closure gives the only answer in the service's own types.
        self(Elapsed::new())
    }
}

pin_project! {
    /// The response future of [`Timeout`](super::Timeout). Dropping it drops the call.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ResponseFuture<F, A> {
        #[pin]
        call: Call<F>,
        // Taken when the call was not answered in time.
        answer: Option<A>,
    }
}

pin_project! {
    #[project = CallProjection]
    #[derive(Debug)]
    enum Call<F> {
        InTime { #[pin] call: F, time: Option<Sleep> },
        InScope { #[pin] call: Scope<F> },
    }
}

impl<F, Response, Error, A> Future for ResponseFuture<F, A>
where
    F: Future<Output = Result<Response, Error>>,
    A: Answer<Response, Error>,
{
    type Output = Result<Response, A::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let called = match this.call.project() {
            CallProjection::InTime { call, time } => match time {
                Some(time) => ready!(poll_capped(call, time, cx)),
                None => Ok(Ok(ready!(call.poll(cx)))),
            },
            CallProjection::InScope { call } => ready!(call.try_poll(cx)),
        };
        let mut answer = || this.answer.take().expect("polled after it was ready");
        Poll::Ready(match called {
            Ok(Ok(answered)) => answered.map_err(A::error),
            Ok(Err(_)) => answer().late(Late(None)),
            Err(cancelled) => answer().late(Late(Some(cancelled))),
        })
    }
}

impl<B, A> fmt::Debug for TimeoutLayer<B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TimeoutLayer");
        shown.field("timer", &self.timer).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, B, A> fmt::Debug for Timeout<S, B, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Timeout");
        shown.field("inner", &self.inner);
        shown.field("layer", &self.layer).finish()
    }
}
