//! Deadlines that tower's layers read in requests and write into them, under the paused clock.
//!
//! Invariant: a call within a call is told of no more time than its caller has left.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{Request, Response};
use tickwheel::error::Elapsed;
use tickwheel::tower::{
    BoxError, GrpcTimeout, GrpcTimeoutLayer, Timeout, TimeoutLayer, grpc_timeout,
};
use tickwheel::{Duration, Instant, remaining, scope, sleep};
use tokio_test::{assert_ready, task};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::{request, seconds, tell};
use crate::common::{SECOND, assert_nothing_armed};

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
async fn a_call_within_a_call_lives_no_longer() {
    let inner = Timeout::new(service_fn(seconds), 60 * SECOND);
    let outer = TimeoutLayer::per_request(grpc_timeout).layer(service_fn(move |_: Request<()>| {
        let inner = inner.clone();
        async move {
            Ok::<_, BoxError>(
                inner
                    .oneshot(30)
                    .await
                    .map_err(|error| error.is::<Elapsed>()),
            )
        }
    }));
    let start = Instant::now();
    let answer = outer.oneshot(request("2S")).await.unwrap();
    assert_eq!(
        answer,
        Err(true),
        "the handler was told before its own call ended"
    );
    assert_eq!(start.elapsed(), 2 * SECOND);
    assert_nothing_armed();
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
async fn a_client_with_nothing_left_fails_without_a_call() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let client = GrpcTimeout::new(service_fn(move |_: Request<()>| {
        counted.fetch_add(1, Ordering::Relaxed);
        ready(Ok::<_, Infallible>(()))
    }));
    let failed = scope(Instant::now(), client.oneshot(Request::new(()))).await;
    assert!(
        failed
            .expect("it fails at once")
            .unwrap_err()
            .is::<Elapsed>()
    );
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_nothing_armed();
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
