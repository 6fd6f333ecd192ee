//! [`Timeout`]: a service whose calls are bounded in time, and its [`TimeoutLayer`].
//!
//! Invariant: a clone shares nothing with its original but the timer.

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use sealed::Call;
use tower_layer::Layer;
use tower_service::Service;

use super::BoxError;
use crate::error::{Cancelled, Elapsed};
use crate::future::scope::ScopeDeadline;
use crate::future::sleep::Ended;
use crate::future::{scope, timeout};
use crate::shard::Shard;
use crate::timer::local;
use crate::{Instant, Sleep, Timer};

/// Puts a [`Timeout`] around a service.
///
/// The module's page has [examples](super#examples).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::Duration;
/// use tickwheel::tower::{TimeoutLayer};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let slow = service_fn(async |_: ()| std::future::pending::<Result<(), std::io::Error>>().await);
/// let bounded = TimeoutLayer::new(Duration::from_secs(1)).layer(slow);
/// assert!(bounded.oneshot(()).await.is_err());
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until a service is given to it"]
pub struct TimeoutLayer<B = Fixed, O = Boxed> {
    bound: B,
    on_elapsed: O,
    timer: Option<Timer>,
}

impl TimeoutLayer {
    /// Bounds each call by `timeout`, which counts from the call.
    ///
    /// It opens no [`scope`](crate::scope). Where one is open, the call ends with that at the
    /// latest.
    pub const fn new(timeout: Duration) -> TimeoutLayer {
        TimeoutLayer {
            bound: Fixed(timeout),
            on_elapsed: Boxed,
            timer: None,
        }
    }

    /// Bounds each call by what `timeout` reads in its request; `None` bounds it not at all.
    ///
    /// The call is a [`scope`](crate::scope), from the service's `call` until its future is done.
    /// So what is called within it has no longer to live, and
    /// [`remaining`](crate::remaining) returns what is left. [`grpc_timeout`](super::grpc_timeout)
    /// reads a gRPC header. A closure names the type of the request:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickwheel::tower::TimeoutLayer;
    ///
    /// let by_route = TimeoutLayer::per_request(|request: &http::Request<String>| {
    ///     match request.uri().path() {
    ///         "/events" => None,
    ///         "/report" => Some(Duration::from_secs(60)),
    ///         _ => Some(Duration::from_secs(5)),
    ///     }
    /// });
    /// # let _ = by_route;
    /// ```
    pub const fn per_request<F, Request>(timeout: F) -> TimeoutLayer<PerRequest<F>>
    where
        F: Fn(&Request) -> Option<Duration>,
    {
        TimeoutLayer {
            bound: PerRequest(timeout),
            on_elapsed: Boxed,
            timer: None,
        }
    }
}

impl<B, O> TimeoutLayer<B, O> {
    /// Answers a call that took too long with what `answer` gives, in the service's own types.
    ///
    /// It also answers a call that waits when the runtime that drives the timer shuts down.
    ///
    /// The service keeps its error type then, and its own errors pass through.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    /// use tickwheel::tower::TimeoutLayer;
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// let service = ServiceBuilder::new()
    ///     .layer(TimeoutLayer::new(Duration::from_secs(1)).on_elapsed(|_| Ok("too late")))
    ///     .service(service_fn(async |()| {
    ///         std::future::pending::<Result<&str, Infallible>>().await
    ///     }));
    /// assert_eq!(service.oneshot(()).await, Ok("too late"));
    /// # }
    /// ```
    pub fn on_elapsed<F, Response, Error>(self, answer: F) -> TimeoutLayer<B, Mapped<F>>
    where
        F: FnOnce(Elapsed) -> Result<Response, Error> + Clone,
    {
        TimeoutLayer {
            bound: self.bound,
            on_elapsed: Mapped(answer),
            timer: self.timer,
        }
    }

    /// Takes this timer in place of the current runtime's own.
    pub fn with_timer(self, timer: Timer) -> Self {
        TimeoutLayer {
            timer: Some(timer),
            ..self
        }
    }
}

impl<S, B: Clone, O: Clone> Layer<S> for TimeoutLayer<B, O> {
    type Service = Timeout<S, B, O>;

    fn layer(&self, inner: S) -> Self::Service {
        Timeout {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service whose calls are bounded in time: [`TimeoutLayer`].
///
/// It is a service, and its calls are futures. For one future there is
/// [`tickwheel::Timeout`](crate::Timeout).
///
/// - The service's future is polled first. An answer that is there wins over a deadline that has
///   passed, so a call with a timeout of zero is polled once.
/// - Waiting for the service to be ready is not bounded. Put the timeout around a buffer for that.
/// - A call that took too long is dropped with its response future.
/// - It needs no lock, no task and no allocation. A call arms a timer only if it has to wait.
///
/// # Errors
///
/// [`Elapsed`] in a box if a call took too long, else the service's own error in a box.
///
/// A call may run in another runtime than the one that drives the timer. If that one shuts down
/// while the call waits, the call fails with [`Cancelled`](crate::error::Cancelled) in a box, and
/// [`is_shutdown`](crate::error::Cancelled::is_shutdown) says so.
///
/// With [`on_elapsed`](TimeoutLayer::on_elapsed) the closure answers in both cases.
///
/// # Panics
///
/// A call panics outside a tokio runtime, if the layer was not given a timer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tickwheel::tower::BoxError> {
/// use tickwheel::Duration;
/// use tickwheel::tower::{Timeout, TimeoutLayer};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let echo = service_fn(async |text: &'static str| Ok::<_, std::io::Error>(text));
/// let bounded: Timeout<_> = TimeoutLayer::new(Duration::from_secs(1)).layer(echo);
/// assert_eq!(bounded.oneshot("hello").await?, "hello");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Timeout<S, B = Fixed, O = Boxed> {
    inner: S,
    layer: TimeoutLayer<B, O>,
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

impl<S, B, O> Timeout<S, B, O> {
    /// Takes this timer in place of the current runtime's own.
    #[must_use = "this gives the changed service back"]
    pub fn with_timer(self, timer: Timer) -> Self {
        Timeout {
            layer: self.layer.with_timer(timer),
            ..self
        }
    }

    /// The service within.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service within, to be changed.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, O, Request> Service<Request> for Timeout<S, B, O>
where
    S: Service<Request>,
    B: Bound<Request>,
    O: OnElapsed<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = O::Error;
    type Future = ResponseFuture<S::Future, O>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(O::error)
    }

    // The call is moved once, into the answer. So the clone, which is the user's code, comes before
    // it.
    #[inline]
    fn call(&mut self, request: Request) -> Self::Future {
        let on_elapsed = Some(self.layer.on_elapsed.clone());
        let bound = self.layer.bound.bound(&request);
        let timer = self.layer.timer.as_ref();
        match bound {
            Call::Scope(duration) => {
                call_within(&mut self.inner, request, timer, duration, on_elapsed)
            }
            bound => ResponseFuture {
                call: self.inner.call(request),
                end: match bound {
                    Call::Timeout(duration) => {
                        End::Timeout(scope::sleep_after(shard(timer), duration))
                    }
                    _ => End::Never,
                },
                on_elapsed,
            },
        }
    }
}

/// A service may do much of its work in `call`, such as to make timeouts. So the scope is open in
/// that too.
#[inline]
fn call_within<S: Service<Request>, Request, O>(
    service: &mut S,
    request: Request,
    timer: Option<&Timer>,
    duration: Duration,
    on_elapsed: Option<O>,
) -> ResponseFuture<S::Future, O> {
    let deadline = after(duration);
    let limit = ScopeDeadline::until(deadline);
    let call = scope::within(limit, || service.call(request));
    let (sleep, deadline) = scope::end(shard(timer), deadline);
    ResponseFuture {
        call,
        end: End::Scope(sleep, deadline),
        on_elapsed,
    }
}

#[track_caller]
fn shard(timer: Option<&Timer>) -> Arc<Shard> {
    timer.map_or_else(local::shard, |timer| timer.shard().clone())
}

fn after(duration: Duration) -> Instant {
    /// What no instant can name is taken to be this far away, tokio's bound.
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}

// What bounds a call: one duration for all, or what the request says.
//
// Invariant: the bound is known before the request is handed to the service.

/// What decides the timeout of a call: [`Fixed`] or [`PerRequest`].
///
/// It is sealed: a closure for [`TimeoutLayer::per_request`](super::TimeoutLayer::per_request) can
/// tell anything.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::Duration;
/// use tickwheel::tower::{Bound, TimeoutLayer};
///
/// // A layer that is generic over what bounds a call.
/// fn is_bound<B: Bound<u64>>(_: &TimeoutLayer<B>) {}
///
/// is_bound(&TimeoutLayer::new(Duration::from_secs(1)));
/// is_bound(&TimeoutLayer::per_request(|millis: &u64| Some(Duration::from_millis(*millis))));
/// # }
/// ```
pub trait Bound<Request>: sealed::Bound<Request> {}

/// The same timeout for each call: [`TimeoutLayer::new`](super::TimeoutLayer::new).
///
/// ```
/// use tickwheel::Duration;
/// use tickwheel::tower::{Fixed, TimeoutLayer};
///
/// let layer: TimeoutLayer<Fixed> = TimeoutLayer::new(Duration::from_secs(10));
/// # drop(layer);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub(super) Duration);

/// The timeout that a closure reads in the request:
/// [`TimeoutLayer::per_request`](super::TimeoutLayer::per_request).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::Duration;
/// use tickwheel::tower::{TimeoutLayer};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// // The request says how long it may take.
/// let layer = TimeoutLayer::per_request(|limit: &Duration| Some(*limit));
/// let slow = service_fn(async |_: Duration| std::future::pending::<Result<(), std::io::Error>>().await);
/// assert!(layer.layer(slow).oneshot(Duration::from_millis(5)).await.is_err());
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct PerRequest<F>(pub(super) F);

pub(super) mod sealed {
    use std::time::Duration;

    /// How a call is bounded.
    #[derive(Debug)]
    pub enum Call {
        /// It may take any time.
        Unbounded,
        /// By a timeout.
        Timeout(Duration),
        /// By a scope that is open from the call on.
        Scope(Duration),
    }

    pub trait Bound<Request> {
        fn bound(&self, request: &Request) -> Call;
    }

    pub trait OnElapsed<Response, Error> {
        /// The error of the service with the timeout.
        type Error;

        /// What becomes of the service's own error.
        fn error(error: Error) -> Self::Error;

        /// What becomes of a call that was not answered in time.
        fn elapsed(self) -> Result<Response, Self::Error>;

        /// What becomes of a call that waits when the runtime shuts down.
        fn shut_down(self) -> Result<Response, Self::Error>;
    }
}

impl<Request> sealed::Bound<Request> for Fixed {
    fn bound(&self, _: &Request) -> Call {
        Call::Timeout(self.0)
    }
}

impl<Request> Bound<Request> for Fixed {}

impl<F, Request> sealed::Bound<Request> for PerRequest<F>
where
    F: Fn(&Request) -> Option<Duration>,
{
    fn bound(&self, request: &Request) -> Call {
        (self.0)(request).map_or(Call::Unbounded, Call::Scope)
    }
}

impl<F, Request> Bound<Request> for PerRequest<F> where F: Fn(&Request) -> Option<Duration> {}

impl<F> fmt::Debug for PerRequest<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerRequest")
            .field(&type_name::<F>())
            .finish()
    }
}

// The futures of calls.
//
// Invariant: the service's future is polled first, so that an answer which is there wins over a
// deadline that has passed.

pin_project! {
    /// A call with a timeout: what [`Timeout`](super::Timeout) answers with.
    ///
    /// Dropping it drops the call and takes its timer out.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tickwheel::tower::BoxError> {
    /// use tickwheel::Duration;
    /// use tickwheel::tower::TimeoutLayer;
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    ///
    /// let echo = service_fn(async |text: &'static str| Ok::<_, std::io::Error>(text));
    /// let mut bounded = TimeoutLayer::new(Duration::from_secs(1)).layer(echo);
    /// let call = bounded.ready().await?.call("hello"); // a `ResponseFuture`
    /// assert_eq!(call.await?, "hello");
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tickwheel::tower::BoxError> {
    /// use http::{Request, Response};
    /// use tickwheel::tower::GrpcTimeoutLayer;
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    ///
    /// let client = service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(())));
    /// let mut client = GrpcTimeoutLayer::new().layer(client);
    /// let call = client.ready().await?.call(Request::new(())); // a `GrpcResponseFuture`
    /// assert!(call.await?.status().is_success());
    /// # Ok(())
    /// # }
    /// ```
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

// What a call gives that was not answered in time: a boxed error, or what a closure makes of it.
//
// Invariant: the service's own answers and errors are never mapped by the closure.

/// What becomes of a call that was not answered in time: [`Boxed`] or [`Mapped`].
///
/// It is sealed: a closure for [`TimeoutLayer::on_elapsed`](super::TimeoutLayer::on_elapsed) can
/// give anything.
///
/// ```
/// use tickwheel::Duration;
/// use tickwheel::tower::{Fixed, OnElapsed, TimeoutLayer};
///
/// // A layer that is generic over what becomes of a call that took too long.
/// fn answers<O: OnElapsed<u16, std::io::Error>>(_: &TimeoutLayer<Fixed, O>) {}
///
/// let layer = TimeoutLayer::new(Duration::from_secs(1));
/// answers(&layer);
/// answers(&layer.on_elapsed(|_| Ok(504)));
/// ```
pub trait OnElapsed<Response, Error>: sealed::OnElapsed<Response, Error> {}

/// [`Elapsed`] in a box, beside the service's own errors in boxes. [`Cancelled`] in a box once the
/// runtime that drives the timer has shut down.
///
/// ```
/// use tickwheel::Duration;
/// use tickwheel::tower::{Boxed, Fixed, TimeoutLayer};
///
/// let layer: TimeoutLayer<Fixed, Boxed> = TimeoutLayer::new(Duration::from_secs(10));
/// # drop(layer);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Boxed;

/// What a closure gives, in the service's own types:
/// [`TimeoutLayer::on_elapsed`](super::TimeoutLayer::on_elapsed).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> std::io::Result<()> {
/// use tickwheel::Duration;
/// use tickwheel::tower::{TimeoutLayer};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// let slow = service_fn(async |_: ()| std::future::pending::<Result<u16, std::io::Error>>().await);
/// let layer = TimeoutLayer::new(Duration::from_secs(1)).on_elapsed(|_| Ok(504));
/// assert_eq!(layer.layer(slow).oneshot(()).await?, 504);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Mapped<F>(pub(super) F);

impl<Response, Error: Into<BoxError>> sealed::OnElapsed<Response, Error> for Boxed {
    type Error = BoxError;

    fn error(error: Error) -> BoxError {
        error.into()
    }

    fn elapsed(self) -> Result<Response, BoxError> {
        Err(Elapsed::new().into())
    }

    fn shut_down(self) -> Result<Response, BoxError> {
        Err(Cancelled::SHUTDOWN.into())
    }
}

impl<Response, Error: Into<BoxError>> OnElapsed<Response, Error> for Boxed {}

impl<F, Response, Error> sealed::OnElapsed<Response, Error> for Mapped<F>
where
    F: FnOnce(Elapsed) -> Result<Response, Error>,
{
    type Error = Error;

    fn error(error: Error) -> Error {
        error
    }

    fn elapsed(self) -> Result<Response, Error> {
        (self.0)(Elapsed::new())
    }

    fn shut_down(self) -> Result<Response, Error> {
        // The closure gives the only answer in the service's own types.
        (self.0)(Elapsed::new())
    }
}

impl<F, Response, Error> OnElapsed<Response, Error> for Mapped<F> where
    F: FnOnce(Elapsed) -> Result<Response, Error>
{
}

impl<F> fmt::Debug for Mapped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mapped").field(&type_name::<F>()).finish()
    }
}
