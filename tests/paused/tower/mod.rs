//! tower's layers under the paused clock: timeouts, readiness, clones and stacks. The package
//! `integrations` has the tests with axum and tonic.
//!
//! Invariant: after each scenario nothing stays armed.

mod deadlines;

use std::convert::Infallible;
use std::future::{Future, Pending, Ready, pending, ready};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use http::Request;
use tickwheel::error::Elapsed;
use tickwheel::tower::{
    BoxError, GrpcTimeout, GrpcTimeoutLayer, Timeout, TimeoutLayer, grpc_timeout,
};
use tickwheel::{Duration, Instant, Timer, remaining, sleep, timeout};
use tokio_test::{assert_pending, assert_ready, task};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::common::{SECOND, assert_nothing_armed, paused, without_a_budget};

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

#[tokio::test(start_paused = true)]
async fn a_call_in_time_answers_and_a_late_one_elapses() {
    let start = Instant::now();
    let mut service = Timeout::new(service_fn(seconds), 2 * SECOND);
    assert_eq!(service.ready().await.unwrap().call(1).await.unwrap(), 1);
    let error = service.ready().await.unwrap().call(3).await.unwrap_err();
    assert!(error.is::<Elapsed>());
    assert_eq!(start.elapsed(), 3 * SECOND);
    assert_nothing_armed();
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
async fn the_services_own_error_is_boxed() {
    let service = service_fn(async |()| Err::<(), _>(io::Error::other("its own")));
    let error = Timeout::new(service, SECOND).oneshot(()).await.unwrap_err();
    assert_eq!(
        error.downcast::<io::Error>().unwrap().to_string(),
        "its own"
    );
}

#[tokio::test(start_paused = true)]
async fn zero_polls_once_and_the_longest_never_elapses() {
    let zero = TimeoutLayer::new(Duration::ZERO);
    let answer = zero.layer(service_fn(async |()| Ok::<_, Infallible>(7)));
    assert_eq!(answer.oneshot(()).await.unwrap(), 7);
    let start = Instant::now();
    let late = zero.layer(service_fn(seconds)).oneshot(1).await;
    assert!(late.unwrap_err().is::<Elapsed>());
    assert_eq!(Instant::now(), start);

    let longest = TimeoutLayer::new(Duration::MAX).layer(service_fn(seconds));
    assert_eq!(longest.oneshot(1_000_000).await.unwrap(), 1_000_000);
    let longest = TimeoutLayer::per_request(|_: &u32| Some(Duration::MAX));
    assert_eq!(
        longest.layer(service_fn(seconds)).oneshot(9).await.unwrap(),
        9
    );
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_given_timer_is_the_one_that_is_used() {
    let timer = Timer::new();
    let fixed = Timeout::new(service_fn(seconds), 60 * SECOND).with_timer(timer.clone());
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
async fn an_error_of_readiness_passes_through() {
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
    let boxed = Timeout::new(Broken, SECOND).oneshot(()).await.unwrap_err();
    assert!(boxed.is::<io::Error>());
    let own = TimeoutLayer::new(SECOND).on_elapsed(|_| Ok(()));
    let own: io::Error = own.layer(Broken).oneshot(()).await.unwrap_err();
    assert_eq!(own.to_string(), "broken");
    let client = GrpcTimeout::new(Broken).oneshot(Request::new(())).await;
    assert!(client.unwrap_err().is::<io::Error>());
}

#[tokio::test(start_paused = true)]
async fn a_stack_with_limit_and_buffer_frees_its_places() {
    let timer = Timer::new();
    let running = Arc::new(AtomicUsize::new(0));
    let service = {
        let running = running.clone();
        service_fn(move |number: u32| {
            let running = running.clone();
            async move {
                assert!(
                    running.fetch_add(1, Ordering::Relaxed) < 2,
                    "the limit holds"
                );
                let _place = defer(move || {
                    running.fetch_sub(1, Ordering::Relaxed);
                });
                seconds(number).await
            }
        })
    };
    let stack = ServiceBuilder::new()
        .buffer(16)
        .concurrency_limit(2)
        .layer(TimeoutLayer::new(2 * SECOND).with_timer(timer.clone()))
        .service(service);

    let start = Instant::now();
    let calls = (0..8).map(|call| {
        let stack = stack.clone();
        tokio::spawn(async move { stack.oneshot(if call % 2 == 0 { 1 } else { 60 }).await })
    });
    for (number, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        match call.await.unwrap() {
            Ok(answer) => assert_eq!((number % 2, answer), (0, 1)),
            Err(error) => {
                assert_eq!(number % 2, 1);
                assert!(error.is::<Elapsed>(), "{error}");
            }
        }
    }
    assert!(
        start.elapsed() < 60 * SECOND,
        "late calls gave their places back"
    );
    assert_eq!(running.load(Ordering::Relaxed), 0);
    assert_eq!(timer.metrics().pending, 0);
}

/// Runs `run` when it is dropped.
fn defer(run: impl FnOnce()) -> impl Drop {
    struct Defer<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for Defer<F> {
        fn drop(&mut self) {
            if let Some(run) = self.0.take() {
                run();
            }
        }
    }
    Defer(Some(run))
}

#[tokio::test(start_paused = true)]
async fn a_timeout_around_a_buffer_bounds_the_wait_for_it() {
    let stack = ServiceBuilder::new()
        .layer(TimeoutLayer::new(2 * SECOND))
        .buffer(4)
        .concurrency_limit(1)
        .service(service_fn(seconds));
    let first = tokio::spawn(stack.clone().oneshot(60));
    let second = tokio::spawn(stack.oneshot(60));
    assert!(first.await.unwrap().unwrap_err().is::<Elapsed>());
    assert!(second.await.unwrap().unwrap_err().is::<Elapsed>());
    assert_nothing_armed();
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

#[tokio::test(start_paused = true)]
async fn a_service_that_panics_leaves_nothing_behind() {
    let in_call =
        service_fn(|_: Request<()>| -> Ready<Result<(), Infallible>> { panic!("in call") });
    let in_poll = service_fn(async |_: Request<()>| {
        let _ = timeout(SECOND, tokio::task::yield_now()).await;
        sleep(Duration::from_millis(1)).await;
        panic!("in poll");
        #[allow(unreachable_code)]
        Ok::<(), Infallible>(())
    });
    let layer = TimeoutLayer::per_request(grpc_timeout);
    let caught = AssertUnwindSafe(layer.layer(in_call).oneshot(request("9S"))).catch_unwind();
    assert!(caught.await.is_err());
    let caught = AssertUnwindSafe(layer.layer(in_poll).oneshot(request("9S"))).catch_unwind();
    assert!(caught.await.is_err());
    assert_eq!(remaining(), None, "the scope is closed");
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
