//! [`Timeout`]: a service whose calls are bounded in time, and its [`TimeoutLayer`].
//!
//! Invariant: a clone shares nothing with its original but the timer.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, Pending, pending};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::task::coop;
use tower_layer::Layer;
use tower_service::Service;

use super::BoxError;
use crate::adapt::budget::{poll_tried, poll_unconstrained};
use crate::error::{Cancelled, Elapsed};
use crate::future::access::access_within;
use crate::{Instant, Scope, Timer};

/// Wraps a service in a [`Timeout`].
///
/// `B` is the timeout, or the closure of [`per_request`](TimeoutLayer::per_request): a [`Bound`].
/// `A` is the closure of [`on_elapsed`](TimeoutLayer::on_elapsed), or nothing: an [`Answer`].
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

    /// Bounds each call by the result of `timeout` for its request, if that is `Some`.
    ///
    /// The call is a [`scope`](crate::scope), from the service's `call` until its future is ready.
    /// So the bound holds for the calls within it too, and [`remaining`](crate::remaining) returns
    /// the time left. [`grpc_timeout`](super::grpc_timeout) reads a gRPC header. A closure names
    /// the type of the request:
    ///
    /// ```
    /// # use tickwheel::{Duration, tower::TimeoutLayer};
    /// let by_route = TimeoutLayer::per_request(|request: &http::Request<String>| {
    ///     (request.uri().path() != "/events").then_some(Duration::from_secs(5))
    /// });
    /// # let _ = by_route;
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
    /// Answers a call that took too long, in the service's own types. The service keeps its error
    /// type, and its own errors pass through. A call that waits when the timer's runtime shuts down
    /// is answered too.
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

    /// Uses this timer instead of the current runtime's own.
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

/// A service whose calls are bounded in time: [`TimeoutLayer`]. (For one future there is
/// [`tickwheel::Timeout`](crate::Timeout).)
///
/// - The service's future is polled first. A ready answer wins over a deadline that has passed, so
///   a call with a timeout of zero is polled once.
/// - Waiting for the service to be ready is not bounded. To bound it, put the timeout around a
///   buffer.
/// - A call that took too long is dropped.
/// - It takes no lock, spawns no task and allocates nothing. A call arms a timer only if it waits.
///
/// # Errors
///
/// A boxed [`Elapsed`] if a call took too long, otherwise the service's own error, boxed. A boxed
/// [`Cancelled`](crate::error::Cancelled) if the timer's runtime shuts down while the call waits in
/// another runtime. With [`on_elapsed`](TimeoutLayer::on_elapsed) the closure answers instead of
/// both.
///
/// # Panics
///
/// A call panics outside a tokio runtime, if the layer was not given a timer.
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

    // A call may be large, so it is moved as seldom as possible: each kind is made in a function of
    // its own. The clone, which is user code, comes first.
    #[inline]
    fn call(&mut self, request: Request) -> Self::Future {
        let answer = self.layer.answer.clone();
        match self.layer.bound.limit(&request) {
            Some(duration) if B::IS_SCOPE => self.call_in_scope(request, duration, answer),
            duration => self.call_in_time(request, duration, answer),
        }
    }
}

impl<S, B, A> Timeout<S, B, A> {
    #[inline]
    fn call_in_time<Request>(
        &mut self,
        request: Request,
        duration: Option<Duration>,
        answer: A,
    ) -> ResponseFuture<S::Future, A>
    where
        S: Service<Request>,
    {
        ResponseFuture {
            call: Call::InTime {
                call: self.inner.call(request),
                time: duration.map(|duration| self.time(duration)),
            },
            answer: Some(answer),
        }
    }

    /// The scope is also open during the service's `call`, which may make timeouts.
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
        let timer = self.layer.timer.as_ref();
        let deadline = after(duration);
        #[allow(clippy::async_yields_async)] // It is made here, and polled later.
        let opened = pin!(scope(timer, deadline, async { self.inner.call(request) }));
        let Poll::Ready(Ok(call)) = opened.poll(&mut Context::from_waker(Waker::noop())) else {
            unreachable!("what is ready at once wins over any deadline");
        };
        let call = scope(timer, deadline, call);
        ResponseFuture {
            call: Call::InScope { call },
            answer: Some(answer),
        }
    }

    fn time(&self, duration: Duration) -> Time {
        match &self.layer.timer {
            Some(timer) => timer.timeout(duration, pending()),
            None => crate::timeout(duration, pending()),
        }
    }
}

#[inline]
fn scope<F: Future>(timer: Option<&Timer>, deadline: Instant, call: F) -> Scope<F> {
    match timer {
        Some(timer) => timer.scope(deadline, call),
        None => crate::scope(deadline, call),
    }
}

fn after(duration: Duration) -> Instant {
    /// The bound of a duration that overflows an instant, as tokio's.
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}

/// Each trait has the name of the public one that it seals.
mod sealed {
    use super::{Duration, Elapsed};

    pub trait Bound<Request> {}
    impl<Request> Bound<Request> for Duration {}
    impl<F: Fn(&Request) -> Option<Duration>, Request> Bound<Request> for F {}

    pub trait Answer<Response, Error> {}
    impl<Response, Error> Answer<Response, Error> for () {}
    impl<F, Response, Error> Answer<Response, Error> for F where
        F: FnOnce(Elapsed) -> Result<Response, Error>
    {
    }
}

/// The bound of a call: one duration for all, or the result of a closure for the request.
///
/// For functions that take any [`TimeoutLayer`]. No other type can implement it.
///
/// ```
/// # use tickwheel::tower::{Answer, Bound, Timeout, TimeoutLayer};
/// # use tower::{Layer, Service};
/// fn bounded<S, R, B, A>(inner: S, layer: &TimeoutLayer<B, A>) -> impl Service<R> + use<S, R, B, A>
/// where
///     S: Service<R>,
///     B: Bound<R> + Clone,
///     A: Answer<S::Response, S::Error> + Clone,
/// {
///     layer.layer(inner)
/// }
/// # let _ = bounded::<tower::util::BoxService<(), (), tower::BoxError>, _, std::time::Duration, ()>;
/// ```
pub trait Bound<Request>: sealed::Bound<Request> {
    /// Whether the call is a scope.
    #[doc(hidden)]
    const IS_SCOPE: bool;

    #[doc(hidden)]
    fn limit(&self, request: &Request) -> Option<Duration>;
}

impl<Request> Bound<Request> for Duration {
    const IS_SCOPE: bool = false;

    fn limit(&self, _: &Request) -> Option<Duration> {
        Some(*self)
    }
}

impl<F, Request> Bound<Request> for F
where
    F: Fn(&Request) -> Option<Duration>,
{
    const IS_SCOPE: bool = true;

    fn limit(&self, request: &Request) -> Option<Duration> {
        self(request)
    }
}

/// The result of a call that was not answered in time: a boxed error for `()`, or the result of a
/// closure. For functions that take any [`TimeoutLayer`], like [`Bound`]. No other type can
/// implement it.
pub trait Answer<Response, Error>: sealed::Answer<Response, Error> {
    /// The error of the service with the timeout.
    type Error;

    /// Converts the service's own error.
    #[doc(hidden)]
    fn error(error: Error) -> Self::Error;

    /// The end of a call that was not answered in time, or waits when the runtime shuts down.
    #[doc(hidden)]
    fn late(self, shut_down: Option<Cancelled>) -> Result<Response, Self::Error>;
}

impl<Response, Error: Into<BoxError>> Answer<Response, Error> for () {
    type Error = BoxError;

    fn error(error: Error) -> BoxError {
        error.into()
    }

    fn late(self, shut_down: Option<Cancelled>) -> Result<Response, BoxError> {
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

    fn late(self, _: Option<Cancelled>) -> Result<Response, Error> {
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
        InTime { #[pin] call: F, time: Option<Time> },
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
            CallProjection::InTime { call, time } => ready!(poll_in_time(call, time, cx)),
            CallProjection::InScope { call } => ready!(call.try_poll(cx)),
        };
        let mut answer = || this.answer.take().expect("polled after it was ready");
        Poll::Ready(match called {
            Ok(Ok(answered)) => answered.map_err(A::error),
            Ok(Err(_)) => answer().late(None),
            Err(cancelled) => answer().late(Some(cancelled)),
        })
    }
}

/// The time of a call alone. The call lies beside it, because it may be large.
type Time = crate::Timeout<Pending<Infallible>>;

fn poll_in_time<F: Future>(
    call: Pin<&mut F>,
    time: &mut Option<Time>,
    cx: &mut Context<'_>,
) -> Poll<Result<Result<F::Output, Elapsed>, Cancelled>> {
    let had_budget = coop::has_budget_remaining();
    if let Poll::Ready(answer) = call.poll(cx) {
        return Poll::Ready(Ok(Ok(answer)));
    }
    let Some(time) = time else {
        return Poll::Pending;
    };
    ready!(poll_tried(had_budget, cx));
    match ready!(poll_unconstrained(cx, |cx| Pin::new(&mut *time).try_poll(cx))) {
        Ok(Ok(never)) => match never {},
        Ok(Err(elapsed)) => Poll::Ready(Ok(Err(elapsed))),
        Err(cancelled) => Poll::Ready(Err(cancelled)),
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
