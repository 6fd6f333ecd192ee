//! [`Timeout`]: a service whose calls are bounded in time, and its [`TimeoutLayer`].
//!
//! Invariant: a clone shares nothing with its original but the timer.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, IntoFuture, Pending, pending};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use tickwheel::error::{Elapsed, ShutDown};
use tickwheel::{Instant, Timer, WithDeadline};
use tokio::task::coop;

use super::BoxError;
use crate::access::access_within;
use crate::budget::poll_after_inner;
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
    /// Bounds each call by `timeout`, which counts from the call.
    ///
    /// Each call goes by the current runtime's own timer. It opens no
    /// [deadline](tickwheel::with_deadline()), and ends no later than an open one.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::tower::TimeoutLayer;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # tokio_test::block_on(async {
    /// let echo = service_fn(async |text: &'static str| Ok::<_, std::io::Error>(text));
    /// let bounded = TimeoutLayer::new(Duration::from_secs(1)).layer(echo);
    /// assert_eq!(bounded.oneshot("hello").await?, "hello");
    /// # Ok::<(), tickwheel_util::tower::BoxError>(()) }).unwrap();
    /// ```
    pub const fn new(timeout: Duration) -> TimeoutLayer {
        TimeoutLayer {
            bound: timeout,
            answer: (),
            timer: None,
        }
    }

    /// Like [`new`](TimeoutLayer::new), on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::tower::TimeoutLayer;
    ///
    /// // Under an executor that is not tokio's.
    /// let layer = TimeoutLayer::new_on(Timer::global(), Duration::from_secs(1));
    /// # drop(layer);
    /// ```
    pub fn new_on(timer: &Timer, timeout: Duration) -> TimeoutLayer {
        TimeoutLayer {
            timer: Some(timer.clone()),
            ..TimeoutLayer::new(timeout)
        }
    }

    /// Bounds each call, and the calls within it, by the result of `timeout` for its request, if
    /// that is `Some`.
    ///
    /// Each call goes by the current runtime's own timer. A bounded call runs
    /// [with that deadline](tickwheel::with_deadline()), from the service's `call` until its future
    /// is ready. [`grpc_timeout`](super::grpc_timeout) reads a gRPC header.
    ///
    /// # Examples
    ///
    /// A closure names the type of the request:
    ///
    /// ```
    /// use tickwheel::{Duration, time_left};
    /// use tickwheel_util::tower::TimeoutLayer;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # tokio_test::block_on(async {
    /// let layer = TimeoutLayer::per_request(|path: &&str| {
    ///     (*path != "/events").then_some(Duration::from_secs(5))
    /// });
    /// let server = layer.layer(service_fn(async |_path| Ok::<_, std::io::Error>(time_left())));
    /// assert!(server.clone().oneshot("/").await?.is_some(), "the handler has a deadline");
    /// assert!(server.oneshot("/events").await?.is_none());
    /// # Ok::<(), tickwheel_util::tower::BoxError>(()) }).unwrap();
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

    /// Like [`per_request`](TimeoutLayer::per_request), on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::tower::TimeoutLayer;
    ///
    /// // A request that says how many milliseconds its caller waits.
    /// let waits = |request: &u64| Some(Duration::from_millis(*request));
    /// let layer = TimeoutLayer::per_request_on(Timer::global(), waits);
    /// # drop(layer);
    /// ```
    pub fn per_request_on<F, Request>(timer: &Timer, timeout: F) -> TimeoutLayer<F>
    where
        F: Fn(&Request) -> Option<Duration>,
    {
        TimeoutLayer {
            timer: Some(timer.clone()),
            ..TimeoutLayer::per_request(timeout)
        }
    }
}

impl<B, A> TimeoutLayer<B, A> {
    /// Answers a call that took too long in the service's own types.
    ///
    /// The closure also answers a call that waits when the timer's runtime shuts down. The service
    /// keeps its error type, and its own errors pass through.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::tower::TimeoutLayer;
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
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
/// A ready answer wins over a deadline that is due. A timeout of zero ends at the next tick, or
/// at once if the request decides it. A call that took too long ends with an error, and is dropped
/// with the future of the call. Waiting for the service to be ready is not bounded, unless the
/// timeout is around a buffer. Nothing is allocated, and only a call that waits arms a timer.
///
/// # Errors
///
/// A boxed [`Elapsed`] if a call took too long, or [`ShutDown`] if the timer's runtime shuts down
/// while the call waits in another runtime: with [`on_elapsed`](TimeoutLayer::on_elapsed) the
/// closure answers instead. Otherwise the service's own error, boxed.
///
/// # Panics
///
/// Without a timer of its own, a bounded call panics outside a tokio runtime, and in one without a
/// time driver.
///
/// # Examples
///
/// ```
/// use tickwheel::Duration;
/// use tickwheel_util::tower::Timeout;
/// use tower::{ServiceExt, service_fn};
///
/// # tokio_test::block_on(async {
/// let echo = service_fn(async |text: &'static str| Ok::<_, std::io::Error>(text));
/// let bounded = Timeout::new(echo, Duration::from_secs(1));
/// assert_eq!(bounded.oneshot("hello").await?, "hello");
/// # Ok::<(), tickwheel_util::tower::BoxError>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Timeout<S, B = Duration, A = ()> {
    inner: S,
    layer: TimeoutLayer<B, A>,
}

impl<S> Timeout<S> {
    /// Bounds each call of `inner` by `timeout`.
    ///
    /// Each call goes by the current runtime's own timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::tower::Timeout;
    /// use tower::{ServiceExt, service_fn};
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let silent = service_fn(|()| std::future::pending::<Result<(), std::io::Error>>());
    /// let bounded = Timeout::new(silent, Duration::from_secs(1));
    /// let error = bounded.oneshot(()).await.unwrap_err();
    /// assert!(error.is::<tickwheel::error::Elapsed>());
    /// # });
    /// ```
    pub const fn new(inner: S, timeout: Duration) -> Timeout<S> {
        Timeout {
            inner,
            layer: TimeoutLayer::new(timeout),
        }
    }

    /// Like [`new`](Timeout::new), on this timer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::{Duration, Timer};
    /// use tickwheel_util::tower::Timeout;
    /// use tower::{ServiceExt, service_fn};
    ///
    /// // Under an executor that is not tokio's.
    /// let inner = service_fn(|()| std::future::ready(Ok::<_, std::io::Error>("hello")));
    /// let bounded = Timeout::new_on(Timer::global(), inner, Duration::from_secs(1));
    /// assert_eq!(futures::executor::block_on(bounded.oneshot(()))?, "hello");
    /// # Ok::<(), tickwheel_util::tower::BoxError>(())
    /// ```
    pub fn new_on(timer: &Timer, inner: S, timeout: Duration) -> Timeout<S> {
        Timeout {
            inner,
            layer: TimeoutLayer::new_on(timer, timeout),
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
        match self.layer.bound.limit(&request) {
            Limit::None => self.call_in_time(request, None),
            Limit::Time(duration) => self.call_in_time(request, Some(duration)),
            Limit::Deadline(duration) => self.call_with_deadline(request, duration),
        }
    }
}

impl<S, B, A> Timeout<S, B, A> {
    /// A call may be large. Without optimisation it is moved once less where nothing is made before
    /// it that a panic would have to drop, and once less where another function takes it.
    #[inline]
    fn call_in_time<Request>(
        &mut self,
        request: Request,
        time: Option<Duration>,
    ) -> ResponseFuture<S::Future, A>
    where
        S: Service<Request>,
        A: Clone,
    {
        ResponseFuture::in_time(
            self.inner.call(request),
            // After the call, where the time of tower's own `Timeout` begins too.
            time.map(|duration| self.time(duration)),
            self.layer.answer.clone(),
        )
    }

    /// A function of its own, because a call may be large and is moved as seldom as possible.
    #[inline]
    fn call_with_deadline<Request>(
        &mut self,
        request: Request,
        duration: Duration,
    ) -> ResponseFuture<S::Future, A>
    where
        S: Service<Request>,
        A: Clone,
    {
        let deadline = after(duration);
        let call = ToCall {
            inner: &mut self.inner,
            request,
        };
        let call = match &self.layer.timer {
            Some(timer) => timer.with_deadline(deadline, call),
            None => tickwheel::with_deadline(deadline, call),
        };
        ResponseFuture {
            call: Call::WithDeadline { call },
            answer: Some(self.layer.answer.clone()),
        }
    }

    /// The time of a call. The call lies beside it, because it may be large.
    fn time(&self, duration: Duration) -> Time {
        match &self.layer.timer {
            Some(timer) => timer.timeout(duration, pending()),
            None => tickwheel::timeout(duration, pending()),
        }
    }
}

/// A timeout ends no later than an open deadline, which a sleep does not know of.
type Time = tickwheel::Timeout<Pending<Infallible>>;

/// Calls a service where it becomes a future, so that its `call` has the deadline too.
struct ToCall<'a, S, Request> {
    inner: &'a mut S,
    request: Request,
}

impl<S: Service<Request>, Request> IntoFuture for ToCall<'_, S, Request> {
    type Output = Result<S::Response, S::Error>;
    type IntoFuture = S::Future;

    #[inline]
    fn into_future(self) -> S::Future {
        self.inner.call(self.request)
    }
}

/// As far ahead as a duration that exceeds the clock's range may mean.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

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
        Deadline(super::Duration),
    }

    /// The call took too long, or waits when the runtime of its timer shuts down.
    #[derive(Debug)]
    pub struct Late(pub Option<super::ShutDown>);
}

/// The bound of a call: one duration for all, or the result of a closure for the request. It is for
/// functions that take any [`TimeoutLayer`], and no other type can implement it.
///
/// ```
/// # use tickwheel_util::tower::{Answer, Bound, Timeout, TimeoutLayer};
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
        self(request).map_or(Limit::None, Limit::Deadline)
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
        Err(shut_down.map_or_else(|| Elapsed::new().into(), ShutDown::into))
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
        InTime { #[pin] call: F, #[pin] time: Option<Time> },
        WithDeadline { #[pin] call: WithDeadline<F> },
    }
}

impl<F, A> ResponseFuture<F, A> {
    #[inline]
    fn in_time(call: F, time: Option<Time>, answer: A) -> ResponseFuture<F, A> {
        ResponseFuture {
            call: Call::InTime { call, time },
            answer: Some(answer),
        }
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
            CallProjection::WithDeadline { call } => ready!(call.try_poll(cx)),
        };
        let mut answer = || this.answer.take().expect("polled after it was ready");
        Poll::Ready(match called {
            Ok(Ok(answered)) => answered.map_err(A::error),
            Ok(Err(_)) => answer().late(Late(None)),
            Err(shut_down) => answer().late(Late(Some(shut_down))),
        })
    }
}

/// Polls a call, and then its time, if it has one.
#[inline]
fn poll_in_time<F: Future>(
    call: Pin<&mut F>,
    time: Pin<&mut Option<Time>>,
    cx: &mut Context<'_>,
) -> Poll<Result<Result<F::Output, Elapsed>, ShutDown>> {
    let had_budget = coop::has_budget_remaining();
    if let Poll::Ready(output) = call.poll(cx) {
        return Poll::Ready(Ok(Ok(output)));
    }
    let Some(mut time) = time.as_pin_mut() else {
        return Poll::Pending;
    };
    let end = ready!(poll_after_inner(had_budget, cx, |cx| time
        .as_mut()
        .try_poll(cx)));
    Poll::Ready(end.map(|elapsed| match elapsed {
        Ok(never) => match never {},
        Err(elapsed) => Err(elapsed),
    }))
}

/// Without the answer, because a closure has no `Debug`.
impl<F: fmt::Debug, A> fmt::Debug for ResponseFuture<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ResponseFuture");
        shown.field("call", &self.call).finish_non_exhaustive()
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
