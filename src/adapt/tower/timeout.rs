//! [`Timeout`]: a service whose calls are bounded in time, and its [`TimeoutLayer`].
//!
//! Invariant: a clone shares nothing with its original but the timer.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;

use super::bound::sealed::Call as Bounded;
use super::bound::{Bound, Fixed, PerRequest};
use super::future::{End, ResponseFuture};
use super::outcome::{Boxed, Mapped, OnElapsed};
use crate::error::Elapsed;
use crate::future::limit::{self, Limit};
use crate::shard::Shard;
use crate::timer::current;
use crate::{Instant, Timer, scope};

/// Puts a [`Timeout`] around a service.
///
/// The module's page has [examples](super#examples).
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
    /// [`remaining`](crate::remaining) tells what is left. [`grpc_timeout`](super::grpc_timeout)
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
/// [`is_shutdown`](crate::error::Cancelled::is_shutdown) tells so.
///
/// With [`on_elapsed`](TimeoutLayer::on_elapsed) the closure answers in both cases.
///
/// # Panics
///
/// A call panics outside a tokio runtime, if the layer was not given a timer.
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

    /// Gives the service back.
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
            Bounded::Scope(duration) => {
                call_within(&mut self.inner, request, timer, duration, on_elapsed)
            }
            bound => ResponseFuture {
                call: self.inner.call(request),
                end: match bound {
                    Bounded::Timeout(duration) => {
                        End::Timeout(limit::sleep_after(shard(timer), duration))
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
    let limit = Limit::until(deadline);
    let call = limit::within(limit, || service.call(request));
    let (sleep, deadline) = scope::end(shard(timer), deadline);
    ResponseFuture {
        call,
        end: End::Scope(sleep, deadline),
        on_elapsed,
    }
}

#[track_caller]
fn shard(timer: Option<&Timer>) -> Arc<Shard> {
    timer.map_or_else(current::shard, |timer| timer.shard().clone())
}

fn after(duration: Duration) -> Instant {
    /// What no instant can name is taken to be this far away, tokio's bound.
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    let now = Instant::now();
    now.checked_add(duration).unwrap_or_else(|| now + FAR)
}
