//! tower's layers under the paused clock: timeouts, readiness, clones, and the deadlines that they
//! read in requests and write into them. The package `integrations` has the tests with axum and
//! tonic.
//!
//! Invariant: after each scenario nothing stays armed, and a call within a call is told of no more
//! time than its caller has left.

use std::convert::Infallible;
use std::future::{Future, Pending, pending, poll_fn, ready};
use std::io;
use std::task::{Context, Poll};

use http::Request;
use tickwheel::error::Elapsed;
use tickwheel::{Duration, Instant, Timer, sleep, time_left, with_deadline};
use tickwheel_util::tower::{
    BoxError, GrpcTimeout, GrpcTimeoutLayer, Timeout, TimeoutLayer, grpc_timeout,
};
use tokio::task::yield_now;
use tokio_test::{assert_pending, assert_ready, task};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::common::{SECOND, assert_nothing_armed, use_up_the_budget, without_a_budget};
use crate::paused_clock::paused;

/// A service that sleeps for as many seconds as it is asked to.
async fn seconds(number: u32) -> Result<u32, io::Error> {
    sleep(number * SECOND).await;
    Ok(number)
}

/// A service that answers with what it knows of its deadline.
async fn tell<T>(_: T) -> Result<Option<Duration>, BoxError> {
    Ok(time_left())
}

/// A request with these headers.
fn with_timeouts(timeouts: &[&'static str]) -> Request<()> {
    let mut request = Request::new(());
    for timeout in timeouts {
        let value = http::HeaderValue::from_static(timeout);
        request.headers_mut().append("grpc-timeout", value);
    }
    request
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

/// A call that uses the budget up in each poll, before its time and after it.
#[tokio::test(start_paused = true)]
async fn a_call_that_uses_the_budget_up_is_late_by_nothing() {
    let greedy = |()| {
        poll_fn(|cx| {
            use_up_the_budget(cx);
            Poll::<Result<(), Infallible>>::Pending
        })
    };
    for (fixed, of_request) in [(SECOND, None), (Duration::MAX, Some(SECOND))] {
        let layers = ServiceBuilder::new()
            .layer(TimeoutLayer::new(fixed))
            .layer(TimeoutLayer::per_request(move |&()| of_request));
        let mut call = task::spawn(layers.service(service_fn(greedy)).oneshot(()));
        assert_pending!(call.poll());
        yield_now().await;
        sleep(SECOND).await;
        assert!(call.is_woken(), "it hangs");
        let error = assert_ready!(call.poll()).unwrap_err();
        assert!(error.is::<Elapsed>(), "{error}");
        yield_now().await;
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn zero_polls_once_and_the_longest_never_elapses() {
    let zero = TimeoutLayer::new(Duration::ZERO);
    let answer = zero.layer(service_fn(async |()| Ok::<_, Infallible>(7)));
    assert_eq!(answer.oneshot(()).await.unwrap(), 7);
    let longest = TimeoutLayer::per_request(|_: &u32| Some(Duration::MAX));
    let years = 28 * 365 * 24 * 3600;
    let answer = longest.layer(service_fn(seconds)).oneshot(years);
    assert_eq!(answer.await.unwrap(), years);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_call_is_on_the_timer_that_its_layer_was_given() {
    let timer = Timer::builder().build().unwrap();
    let all = TimeoutLayer::new_on(&timer, SECOND).layer(service_fn(seconds));
    assert!(all.oneshot(9).await.is_err());
    assert_eq!(timer.metrics().fired(), 1);
    let each = TimeoutLayer::per_request_on(&timer, |_: &u32| Some(SECOND));
    assert!(each.layer(service_fn(seconds)).oneshot(9).await.is_err());
    assert_eq!(timer.metrics().fired(), 2);
}

#[test]
fn a_layer_is_made_without_a_runtime() {
    let layer = TimeoutLayer::new(SECOND).on_elapsed(|_| Ok::<u32, io::Error>(0));
    let service = layer.layer(service_fn(seconds));
    assert_eq!(paused().block_on(service.oneshot(9)).unwrap(), 0);
}

/// The service within has one place. It panics where one calls it that has not waited for that.
#[tokio::test(start_paused = true)]
async fn readiness_is_the_called_instances_own() {
    let mut service = ServiceBuilder::new()
        .layer(TimeoutLayer::new(SECOND))
        .layer(TimeoutLayer::per_request(|_: &Request<()>| Some(SECOND)))
        .layer(GrpcTimeoutLayer::new())
        .layer(GlobalConcurrencyLimitLayer::new(1))
        .service(service_fn(tell::<Request<()>>));
    for _ in 0..3 {
        service.ready().await.unwrap();
        let mut clone = service.clone();
        let mut waiting = task::spawn(clone.ready());
        assert_pending!(waiting.poll());
        service.call(Request::new(())).await.unwrap();
        assert!(waiting.is_woken());
        assert_ready!(waiting.poll()).unwrap();
        drop(waiting);
        service = clone;
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
    let inner = boxed.downcast::<io::Error>().unwrap();
    assert_eq!(inner.to_string(), "its own");
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
    let timer = Timer::builder().build().unwrap();
    let answer = TimeoutLayer::new_on(&timer, SECOND).on_elapsed(|_| Ok(7));
    let answer = answer.layer(service_fn(seconds));
    for (asked, answered) in [(9, 7), (0, 0)] {
        assert_eq!(answer.clone().oneshot(asked).await.unwrap(), answered);
    }
    assert_eq!(timer.metrics().armed(), 1, "of the given one");
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

/// tower's own `Timeout` begins it there too.
#[tokio::test(start_paused = true)]
async fn the_time_of_an_answer_begins_after_the_services_call() {
    let slow_to_call = service_fn(|number| {
        assert_pending!(task::spawn(tokio::time::advance(2 * SECOND)).poll());
        seconds(number)
    });
    let mut service = TimeoutLayer::new(2 * SECOND).layer(slow_to_call);
    assert_eq!(service.call(1).await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_has_its_deadline_from_call_to_answer() {
    let in_call = service_fn(|_| ready(Ok::<_, Infallible>(time_left())));
    let layer = TimeoutLayer::per_request(grpc_timeout);
    let told = layer.layer(in_call).oneshot(with_timeouts(&["2S"])).await;
    assert_eq!(told.unwrap(), Some(2 * SECOND));

    let layer = TimeoutLayer::per_request(grpc_timeout);
    let mut service = layer.layer(service_fn(tell));
    let mut told = async |request| service.ready().await.unwrap().call(request).await.unwrap();
    assert_eq!(told(with_timeouts(&["2S"])).await, Some(2 * SECOND));
    assert_eq!(told(with_timeouts(&["nonsense"])).await, None);
    assert_eq!(told(Request::new(())).await, None);

    let fixed = Timeout::new(service_fn(tell), SECOND).oneshot(());
    assert_eq!(fixed.await.unwrap(), None, "this one opens no deadline");
    assert_eq!(time_left(), None);
}

#[tokio::test(start_paused = true)]
async fn a_client_writes_what_is_left_or_the_shortest_that_it_reads() {
    let echo = service_fn(async |request: Request<()>| {
        let headers = request.headers().get_all("grpc-timeout").iter();
        Ok::<_, Infallible>(headers.cloned().collect::<Vec<_>>())
    });
    let client = GrpcTimeoutLayer::new().layer(echo);
    let call = async |timeouts: &[&'static str]| {
        let sent = client.clone().oneshot(with_timeouts(timeouts));
        sent.await.unwrap()
    };
    assert!(call(&[]).await.is_empty(), "no deadline is open");
    assert_eq!(call(&["5S"]).await, ["5S"]);
    let within = with_deadline(Instant::now() + 10 * SECOND, async {
        sleep(SECOND).await;
        for timeouts in [&[][..], &["50S"], &["soon"], &["50S", "60S"]] {
            assert_eq!(call(timeouts).await, ["9000000u"], "{timeouts:?}");
        }
        let shorter = [["50S", "5S"], ["5S", "50S"], ["soon", "5S"], ["5S", "soon"]];
        for timeouts in shorter.iter().map(|both| &both[..]).chain([&["5S"][..]]) {
            assert_eq!(grpc_timeout(&with_timeouts(timeouts)), Some(5 * SECOND));
            assert_eq!(call(timeouts).await, ["5S"], "{timeouts:?}");
        }
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
    let failed = with_deadline(Instant::now(), async {
        one.ready().await.unwrap().call(Request::new(())).await
    });
    assert!(failed.await.unwrap().unwrap_err().is::<Elapsed>());
    assert_ready!(task::spawn(two.ready()).poll()).unwrap();

    drop(two);
    let within = with_deadline(Instant::now(), async { one.ready().await.unwrap() }).await;
    let made_ready_there = within.unwrap().call(Request::new(()));
    assert!(made_ready_there.await.unwrap_err().is::<Elapsed>());
    let answer = one.ready().await.unwrap().call(Request::new(())).await;
    assert_eq!(answer.unwrap(), None, "it can be called again");

    let made_ready_before = one.ready().await.unwrap();
    let call = async { made_ready_before.call(Request::new(())).await };
    let failed = with_deadline(Instant::now(), call).await.unwrap();
    assert!(failed.unwrap_err().is::<Elapsed>());
}
