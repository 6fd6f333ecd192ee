//! tower's layers under the paused clock: timeouts, readiness, clones, and the deadlines that they
//! read in requests and write into them. The package `integrations` has the tests with axum and
//! tonic.
//!
//! Invariant: after each scenario nothing stays armed, and a call within a call is told of no more
//! time than its caller has left.

use std::convert::Infallible;
use std::future::{Future, Pending, Ready, pending, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{Request, Response};
use tickwheel::error::Elapsed;
use tickwheel::tower::{
    BoxError, GrpcTimeout, GrpcTimeoutLayer, Timeout, TimeoutLayer, grpc_timeout,
};
use tickwheel::{Duration, Instant, Timer, remaining, scope, sleep};
use tokio_test::{assert_pending, assert_ready, task};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::common::{SECOND, assert_nothing_armed, without_a_budget};
use crate::paused_clock::paused;

/// A service that sleeps for as many seconds as it is asked to.
async fn seconds(number: u32) -> Result<u32, io::Error> {
    sleep(number * SECOND).await;
    Ok(number)
}

/// A service that answers with what it knows of its deadline.
async fn tell<T>(_: T) -> Result<Option<Duration>, BoxError> {
    Ok(remaining())
}

fn request(timeout: &str) -> Request<()> {
    Request::builder()
        .header("grpc-timeout", timeout)
        .body(())
        .unwrap()
}

/// Many calls in one task share its budget. A call that has none is not tried, and may have an
/// answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_there_wins_though_the_budget_was_used_up() {
    let answer = |receiver: tokio::sync::oneshot::Receiver<u32>| receiver;
    for (fixed, of_request) in [(SECOND, None), (Duration::MAX, Some(SECOND))] {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let layers = ServiceBuilder::new()
            .layer(TimeoutLayer::new(fixed))
            .layer(TimeoutLayer::per_request(move |_: &_| of_request));
        let mut call = task::spawn(layers.service(service_fn(answer)).oneshot(receiver));
        assert_pending!(call.poll());
        sender.send(7).unwrap();
        sleep(2 * SECOND).await;
        assert_pending!(without_a_budget(|| call.poll()).await);
        assert!(call.is_woken(), "it hangs");
        assert_eq!(assert_ready!(call.poll()).unwrap(), 7);
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn zero_polls_once_and_the_longest_never_elapses() {
    let zero = TimeoutLayer::new(Duration::ZERO);
    let answer = zero.layer(service_fn(async |()| Ok::<_, Infallible>(7)));
    assert_eq!(answer.oneshot(()).await.unwrap(), 7);
    let longest = TimeoutLayer::per_request(|_: &u32| Some(Duration::MAX));
    let answer = longest.layer(service_fn(seconds)).oneshot(1_000_000);
    assert_eq!(answer.await.unwrap(), 1_000_000);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_given_timer_is_the_one_that_is_used() {
    let timer = Timer::builder().build().unwrap();
    let fixed = TimeoutLayer::new(60 * SECOND)
        .with_timer(timer.clone())
        .layer(service_fn(seconds));
    let per_request = TimeoutLayer::per_request(|_: &u32| Some(60 * SECOND))
        .with_timer(timer.clone())
        .layer(service_fn(seconds));
    let mut first = task::spawn(fixed.oneshot(30));
    let mut second = task::spawn(per_request.oneshot(30));
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    assert_eq!(timer.metrics().pending, 2);
    drop((first, second));
    assert_eq!(timer.metrics().pending, 0);
    assert_nothing_armed();
}

#[test]
fn a_layer_is_made_without_a_runtime() {
    let layer = TimeoutLayer::new(SECOND).on_elapsed(|_| Ok::<u32, io::Error>(0));
    let service = layer.layer(service_fn(seconds));
    assert_eq!(paused().block_on(service.oneshot(9)).unwrap(), 0);
}

/// A service with one place: ready once for each time that somebody has waited for it.
#[derive(Debug, Default)]
struct Reserving {
    has_place: bool,
    polls: Arc<AtomicUsize>,
}

impl Clone for Reserving {
    fn clone(&self) -> Self {
        Reserving {
            has_place: false,
            polls: self.polls.clone(),
        }
    }
}

impl<R> Service<R> for Reserving {
    type Response = Option<Duration>;
    type Error = Infallible;
    type Future = Ready<Result<Option<Duration>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.polls.fetch_add(1, Ordering::Relaxed) % 2 == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.has_place = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: R) -> Self::Future {
        assert!(
            std::mem::take(&mut self.has_place),
            "called without being ready"
        );
        ready(Ok(remaining()))
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_is_the_called_instances_own() {
    let polls = Arc::new(AtomicUsize::new(0));
    let reserving = Reserving {
        has_place: false,
        polls: polls.clone(),
    };
    let mut service = ServiceBuilder::new()
        .layer(TimeoutLayer::new(SECOND))
        .layer(TimeoutLayer::per_request(|_: &Request<()>| Some(SECOND)))
        .layer(GrpcTimeoutLayer::new())
        .service(reserving);

    for calls in 1..4 {
        let mut waiting = task::spawn(service.ready());
        assert_pending!(waiting.poll());
        assert!(
            waiting.is_woken(),
            "the inner service's pending is passed through"
        );
        assert_ready!(waiting.poll()).unwrap();
        drop(waiting);
        let clone = service.clone();
        service.call(Request::new(())).await.unwrap();
        service = clone; // It was not ready, and has to be polled for it.
        assert_eq!(polls.load(Ordering::Relaxed), 2 * calls);
    }
}

#[tokio::test(start_paused = true)]
async fn the_services_own_errors_pass_through() {
    #[derive(Clone)]
    struct Broken;
    impl<R> Service<R> for Broken {
        type Response = ();
        type Error = io::Error;
        type Future = Pending<io::Result<()>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("broken")))
        }
        fn call(&mut self, _: R) -> Self::Future {
            pending()
        }
    }
    let fails = service_fn(async |()| Err::<(), _>(io::Error::other("its own")));
    let boxed = Timeout::new(fails, SECOND).oneshot(()).await.unwrap_err();
    assert_eq!(
        boxed.downcast::<io::Error>().unwrap().to_string(),
        "its own"
    );
    let boxed = Timeout::new(Broken, SECOND).oneshot(()).await.unwrap_err();
    assert!(boxed.is::<io::Error>());
    let own = TimeoutLayer::new(SECOND).on_elapsed(|_| Ok(()));
    let own: io::Error = own.layer(Broken).oneshot(()).await.unwrap_err();
    assert_eq!(own.to_string(), "broken");
    let client = GrpcTimeout::new(Broken).oneshot(Request::new(())).await;
    assert!(client.unwrap_err().is::<io::Error>());
}

#[tokio::test(start_paused = true)]
async fn a_mapped_timeout_is_the_services_own_answer_or_error() {
    let answer = TimeoutLayer::new(SECOND).on_elapsed(|_| Ok(0));
    assert_eq!(
        answer.layer(service_fn(seconds)).oneshot(9).await.unwrap(),
        0
    );
    assert_eq!(
        answer.layer(service_fn(seconds)).oneshot(0).await.unwrap(),
        0
    );

    let error = TimeoutLayer::per_request(|_: &u32| Some(SECOND))
        .on_elapsed(|elapsed| Err(io::Error::from(elapsed)));
    let mut service = error.layer(service_fn(seconds));
    for _ in 0..2 {
        let error: io::Error = service.ready().await.unwrap().call(9).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
    assert_nothing_armed();
}

#[test]
fn services_and_their_futures_can_be_sent() {
    fn is_send_and_sync<T: Send + Sync>(_: &T) {}
    fn is_service<R, T: Service<R, Future: Future + Send> + Clone + Send + Sync>(_: &T) {}
    let layer = TimeoutLayer::per_request(|_: &u32| None).on_elapsed(|_| Ok(0));
    is_send_and_sync(&layer);
    is_service::<u32, _>(&layer.layer(service_fn(seconds)));
    is_service::<u32, _>(&Timeout::new(service_fn(seconds), SECOND));
    is_service::<Request<()>, _>(&GrpcTimeout::new(service_fn(tell)));
    assert!(format!("{layer:?}").starts_with("TimeoutLayer"));
}

/// A service that does all of its work in `call`.
struct InCall;

impl<R> Service<R> for InCall {
    type Response = Option<Duration>;
    type Error = Infallible;
    type Future = Ready<Result<Option<Duration>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: R) -> Self::Future {
        ready(Ok(remaining()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_a_scope_from_call_to_answer() {
    let layer = TimeoutLayer::per_request(grpc_timeout);
    assert_eq!(
        layer.layer(InCall).oneshot(request("2S")).await.unwrap(),
        Some(2 * SECOND)
    );

    let layer = TimeoutLayer::per_request(grpc_timeout);
    let mut service = layer.layer(service_fn(tell));
    let mut told = async |request| service.ready().await.unwrap().call(request).await.unwrap();
    assert_eq!(told(request("2S")).await, Some(2 * SECOND));
    assert_eq!(told(request("nonsense")).await, None);
    assert_eq!(told(Request::new(())).await, None);

    let fixed = Timeout::new(service_fn(tell), SECOND);
    assert_eq!(
        fixed.oneshot(()).await.unwrap(),
        None,
        "this one opens no scope"
    );
    assert_eq!(remaining(), None);
}

#[tokio::test(start_paused = true)]
async fn a_client_writes_what_is_left() {
    let echo = service_fn(async |request: Request<()>| {
        let header = request.headers().get("grpc-timeout").cloned();
        Ok::<_, Infallible>(Response::new(header))
    });
    let client = GrpcTimeoutLayer::new().layer(echo);
    let call = async |request| {
        client
            .clone()
            .oneshot(request)
            .await
            .map(Response::into_body)
    };

    assert_eq!(
        call(Request::new(())).await.unwrap(),
        None,
        "no scope is open"
    );
    assert_eq!(call(request("5S")).await.unwrap().unwrap(), "5S");
    let within = scope(Instant::now() + 10 * SECOND, async {
        sleep(SECOND).await;
        assert_eq!(call(Request::new(())).await.unwrap().unwrap(), "9000000u");
        assert_eq!(
            call(request("5S")).await.unwrap().unwrap(),
            "5S",
            "it asked for less"
        );
        assert_eq!(call(request("50S")).await.unwrap().unwrap(), "9000000u");
        assert_eq!(call(request("soon")).await.unwrap().unwrap(), "9000000u");
    });
    assert_eq!(within.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_shortest_of_several_headers_counts() {
    let of = |timeouts: &[&'static str]| {
        let mut request = Request::new(());
        for timeout in timeouts {
            let value = http::HeaderValue::from_static(timeout);
            request.headers_mut().append("grpc-timeout", value);
        }
        request
    };
    let both = [["50S", "5S"], ["5S", "50S"], ["soon", "5S"], ["5S", "soon"]];
    for timeouts in &both {
        assert_eq!(grpc_timeout(&of(timeouts)), Some(5 * SECOND));
    }

    let echo = service_fn(async |request: Request<()>| {
        let headers = request.headers().get_all("grpc-timeout").iter();
        Ok::<_, Infallible>(headers.cloned().collect::<Vec<_>>())
    });
    let client = GrpcTimeoutLayer::new().layer(echo);
    let call = async |timeouts| client.clone().oneshot(of(timeouts)).await.unwrap();
    let within = scope(Instant::now() + 10 * SECOND, async {
        for timeouts in &both {
            assert_eq!(call(timeouts).await, ["5S"]);
        }
        assert_eq!(call(&["50S", "60S"]).await, ["10000000u"]);
    });
    assert_eq!(within.await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_client_with_nothing_left_takes_no_place() {
    let limited = ServiceBuilder::new()
        .layer(GrpcTimeoutLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(1))
        .service(service_fn(tell::<Request<()>>));
    let mut one = limited.clone();
    let mut two = limited;
    let failed = scope(Instant::now(), async {
        one.ready().await.unwrap().call(Request::new(())).await
    });
    assert!(failed.await.unwrap().unwrap_err().is::<Elapsed>());
    assert_ready!(task::spawn(two.ready()).poll()).unwrap();

    drop(two);
    let within = scope(Instant::now(), async { one.ready().await.unwrap() }).await;
    let made_ready_there = within.unwrap().call(Request::new(()));
    assert!(made_ready_there.await.unwrap_err().is::<Elapsed>());
    let answer = one.ready().await.unwrap().call(Request::new(())).await;
    assert_eq!(answer.unwrap(), None, "it can be called again");

    let made_ready_before = one.ready().await.unwrap();
    let call = async { made_ready_before.call(Request::new(())).await };
    let failed = scope(Instant::now(), call).await.unwrap();
    assert!(failed.unwrap_err().is::<Elapsed>());
}

#[tokio::test(start_paused = true)]
async fn the_request_decides_how_long_it_may_take() {
    let layer = TimeoutLayer::per_request(|number: &u32| match number {
        0..10 => Some(5 * SECOND),
        10..20 => Some(15 * SECOND),
        _ => None,
    });
    let mut service = layer.layer(service_fn(seconds));
    for (number, in_time) in [(4, true), (6, false), (14, true), (16, false), (99, true)] {
        let start = Instant::now();
        let answer = service.ready().await.unwrap().call(number).await;
        assert_eq!(answer.is_ok(), in_time, "{number}");
        if !in_time {
            assert_eq!(start.elapsed(), (number / 10 * 10 + 5) * SECOND);
        }
    }
    assert_nothing_armed();
}
