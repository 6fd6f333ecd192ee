//! Waits of a task's own: no peer, no thread but that of a timer.

use std::future::{Future, pending};
use std::num::NonZeroU32;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use tower::{Service, ServiceBuilder, ServiceExt};

use crate::{Case, HOUR, MINUTE, MS, Row, by_another_clock, follows};

/// A wait of a library that does not follow the clock takes this long.
const SHORT: Duration = Duration::from_millis(300);

async fn refused() -> Result<(), &'static str> {
    Err("refused")
}

pub const ROWS: &[Row] = &[
    ("backon", "the pause before a retry", || {
        case(follows(MINUTE, backon()))
    }),
    ("backoff", "the pause before a retry", || {
        case(follows(MINUTE, backoff(1)))
    }),
    ("backoff", "max_elapsed_time", || case(backoff_ends())),
    ("tokio-retry", "the pause before a retry", || {
        case(follows(MINUTE, tokio_retry()))
    }),
    ("tryhard", "the pause before a retry", || {
        case(follows(MINUTE, tryhard()))
    }),
    ("leaky-bucket", "a permit", || {
        case(follows(MINUTE, leaky_bucket()))
    }),
    ("tower", "a permit of RateLimit", || {
        case(follows(MINUTE, rate_limit()))
    }),
    ("hyper-util", "a sleep of TokioTimer", || {
        case(follows(MINUTE, tokio_timer()))
    }),
    ("actix-rt", "a sleep in the System's runtime", || {
        case(follows(MINUTE, actix_sleep()))
    }),
    ("actix-rt", "a sleep in an Arbiter", || case(arbiter())),
    ("governor", "a permit", || case(governor())),
    ("futures-timer", "a Delay", || {
        case(by_another_clock(SHORT, || futures_timer::Delay::new(SHORT)))
    }),
    ("async-io", "a Timer", || {
        case(by_another_clock(SHORT, || async_io::Timer::after(SHORT)))
    }),
    ("embassy-time", "a Timer", || {
        case(by_another_clock(SHORT, || {
            embassy_time::Timer::after_millis(300)
        }))
    }),
    ("pingora-timeout", "a timeout of up to 15 minutes", || {
        case(by_another_clock(SHORT, || {
            pingora_timeout::timeout(SHORT, pending::<()>())
        }))
    }),
    ("pingora-timeout", "a timeout of an hour", || {
        case(follows(
            HOUR,
            pingora_timeout::timeout(HOUR, pending::<()>()),
        ))
    }),
    ("turmoil", "a sleep in a host", || case(turmoil())),
    ("a thread", "a oneshot in a timeout", || case(thread())),
    ("spawn_blocking", "a task in a timeout", || {
        case(spawn_blocking())
    }),
];

pub fn case(seen: impl Future<Output = String> + 'static) -> Case {
    Box::pin(seen)
}

async fn backon() {
    let pauses = ConstantBuilder::default()
        .with_delay(MINUTE)
        .with_max_times(1);
    refused.retry(pauses).await.unwrap_err();
}

/// Tries, with a minute between two of them, until this many have failed, or ten minutes are over.
pub async fn backoff(retries: u32) -> u32 {
    let policy = backoff::ExponentialBackoff {
        initial_interval: MINUTE,
        max_interval: MINUTE,
        randomization_factor: 0.0,
        max_elapsed_time: Some(10 * MINUTE),
        ..Default::default()
    };
    let mut tried = 0;
    let tries = backoff::future::retry(policy, || {
        tried += 1;
        let is_last = tried > retries;
        async move {
            match is_last {
                true => Err::<(), _>(backoff::Error::permanent("refused")),
                false => Err(backoff::Error::transient("refused")),
            }
        }
    });
    tries.await.unwrap_err();
    tried
}

async fn backoff_ends() -> String {
    match backoff(100).await {
        101 => "never comes".to_owned(),
        tries => format!("comes after {tries} tries"),
    }
}

async fn tokio_retry() {
    let pauses = tokio_retry::strategy::FixedInterval::new(MINUTE).take(1);
    tokio_retry::Retry::start(pauses, refused)
        .await
        .unwrap_err();
}

async fn tryhard() {
    tryhard::retry_fn(refused)
        .retries(1)
        .fixed_backoff(MINUTE)
        .await
        .unwrap_err();
}

async fn leaky_bucket() {
    let limiter = leaky_bucket::RateLimiter::builder()
        .max(1)
        .initial(0)
        .refill(1)
        .interval(MINUTE)
        .build();
    limiter.acquire_one().await;
}

async fn rate_limit() {
    let mut service = ServiceBuilder::new()
        .rate_limit(1, MINUTE)
        .service_fn(|()| std::future::ready(Ok::<_, &str>(())));
    for _ in 0..2 {
        service.ready().await.unwrap().call(()).await.unwrap();
    }
}

async fn tokio_timer() {
    use hyper::rt::Timer;
    hyper_util::rt::TokioTimer::new().sleep(MINUTE).await;
}

async fn actix_sleep() {
    actix_rt::time::sleep(MINUTE).await;
}

/// An arbiter is a thread with a runtime and a clock of its own.
async fn arbiter() -> String {
    let (sender, system) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let system = actix_rt::System::new();
        sender.send(actix_rt::System::current()).unwrap();
        system.run().unwrap();
    });
    let system = system.recv().unwrap();
    actix_rt::System::set_current(system.clone());
    let arbiter = actix_rt::Arbiter::new();
    let seen = by_another_clock(SHORT, || {
        let (slept, woken) = tokio::sync::oneshot::channel();
        arbiter.spawn(async {
            actix_rt::time::sleep(SHORT).await;
            let _ = slept.send(());
        });
        woken
    });
    let seen = seen.await;
    system.stop();
    seen
}

async fn governor() -> String {
    let quota = governor::Quota::with_period(SHORT)
        .unwrap()
        .allow_burst(NonZeroU32::MIN);
    let limiter = governor::RateLimiter::direct(quota);
    limiter.until_ready().await;
    // A permit is due a little less than a period after the one before.
    by_another_clock(SHORT - 100 * MS, || limiter.until_ready()).await
}

async fn turmoil() -> String {
    let outside = tokio::time::Instant::now();
    let really = std::time::Instant::now();
    let inside = std::thread::spawn(|| {
        let mut simulation = turmoil::Builder::new()
            .simulation_duration(2 * HOUR)
            .tick_duration(SHORT)
            .build();
        simulation.client("host", async {
            let start = tokio::time::Instant::now();
            tokio::time::sleep(MINUTE).await;
            assert!(start.elapsed() >= MINUTE);
            Ok(())
        });
        simulation.run().is_ok()
    });
    let inside = inside.join().unwrap();
    match inside && outside.elapsed().is_zero() && really.elapsed() < MINUTE / 10 {
        true => "follows the simulation's own clock".to_owned(),
        false => format!("{inside}, {:?}, {:?}", outside.elapsed(), really.elapsed()),
    }
}

async fn thread() -> String {
    let answer = || {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(SHORT);
            let _ = sender.send(());
        });
        receiver
    };
    by_another_clock(SHORT, answer).await
}

async fn spawn_blocking() -> String {
    let work = || tokio::task::spawn_blocking(|| std::thread::sleep(SHORT));
    by_another_clock(SHORT, work).await
}
