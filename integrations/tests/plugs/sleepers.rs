//! Crates that take something that sleeps: backon, the AWS SDK, OpenTelemetry, tower's retries; and
//! rumqttc's loop, which leaves the pause to its user.

use std::future::{Future, ready};
use std::net::Ipv4Addr;
use std::time::Duration;

use aws_smithy_async::rt::sleep::{AsyncSleep, SharedAsyncSleep};
use backon::{ConstantBuilder, Retryable};
use opentelemetry_sdk::runtime::Runtime;
use rumqttc::{EventLoop, MqttOptions};
use tickwheel::{Instant, Sleep, Timer, sleep};
use tokio::net::TcpListener;
use tower::retry::backoff::Backoff;
use tower::retry::{Policy, RetryLayer};
use tower::{ServiceBuilder, ServiceExt, service_fn};

use crate::assert_nothing_stays_armed;

const PAUSE: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn backon_retry() {
    let timer = Timer::current();
    let twice = ConstantBuilder::default()
        .with_delay(PAUSE)
        .with_max_times(2);
    let start = Instant::now();
    let fails = async || Err::<(), _>("down");
    assert_eq!(fails.retry(twice).sleep(sleep).await, Err("down"));
    assert_eq!(start.elapsed(), 2 * PAUSE);

    let of_the_timer = timer.clone();
    let retried = fails
        .retry(twice)
        .sleep(move |pause| of_the_timer.sleep(pause));
    assert_eq!(retried.await, Err("down"));
    assert_eq!(start.elapsed(), 4 * PAUSE);
    assert_nothing_stays_armed(&timer).await;
}

/// For `sleep_impl` of a client's configuration.
#[derive(Debug)]
struct AwsSleep(Timer);

impl AsyncSleep for AwsSleep {
    fn sleep(&self, duration: Duration) -> aws_smithy_async::rt::sleep::Sleep {
        aws_smithy_async::rt::sleep::Sleep::new(self.0.sleep(duration))
    }
}

#[tokio::test(start_paused = true)]
async fn aws_sleep_impl() {
    let timer = Timer::current();
    let shared = SharedAsyncSleep::new(AwsSleep(timer.clone()));
    let start = Instant::now();
    shared.sleep(PAUSE).await;
    assert_eq!(start.elapsed(), PAUSE);
    assert_nothing_stays_armed(&timer).await;
}

/// For the processors of OpenTelemetry that take a runtime.
#[derive(Clone, Debug)]
struct TelemetryRuntime(Timer);

impl Runtime for TelemetryRuntime {
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, future: F) {
        tokio::spawn(future);
    }

    fn delay(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.0.sleep(duration)
    }
}

#[tokio::test(start_paused = true)]
async fn opentelemetry_runtime() {
    let timer = Timer::current();
    let runtime = TelemetryRuntime(timer.clone());
    let start = Instant::now();
    runtime.delay(PAUSE).await;
    assert_eq!(start.elapsed(), PAUSE);
    assert_nothing_stays_armed(&timer).await;
}

/// Doubles with each try. tower's own `ExponentialBackoff` gives tokio's sleeps.
#[derive(Clone)]
struct Doubling {
    timer: Timer,
    next: Duration,
}

impl Backoff for Doubling {
    type Future = Sleep;

    fn next_backoff(&mut self) -> Sleep {
        let pause = self.next;
        self.next = pause.saturating_mul(2);
        self.timer.sleep(pause)
    }
}

#[derive(Clone)]
struct Tries {
    left: u8,
    backoff: Doubling,
}

impl<Request: Clone, Response, Error> Policy<Request, Response, Error> for Tries {
    type Future = Sleep;

    fn retry(&mut self, _: &mut Request, answer: &mut Result<Response, Error>) -> Option<Sleep> {
        if answer.is_ok() || self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(self.backoff.next_backoff())
    }

    fn clone_request(&mut self, request: &Request) -> Option<Request> {
        Some(request.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn tower_retry() {
    let timer = Timer::current();
    let backoff = Doubling {
        timer: timer.clone(),
        next: PAUSE,
    };
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(Tries { left: 2, backoff }))
        .service(service_fn(|()| ready(Err::<(), _>("down"))));
    let start = Instant::now();
    assert_eq!(service.oneshot(()).await, Err("down"));
    assert_eq!(start.elapsed(), 3 * PAUSE);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn rumqttc_reconnect() {
    let timer = Timer::current();
    let port_of_nobody = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let options = MqttOptions::new("client", "127.0.0.1", port_of_nobody);
    let mut connection = EventLoop::new(options, 10);
    let start = Instant::now();
    for _try in 0..3 {
        assert!(connection.poll().await.is_err());
        timer.sleep(PAUSE).await;
    }
    assert!(start.elapsed() >= 3 * PAUSE);
    assert_nothing_stays_armed(&timer).await;
}
