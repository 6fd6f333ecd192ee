//! The timers of `TickwheelRuntime`, as quinn calls them, without connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use quinn::{AsyncTimer, Runtime as _};
use tickwheel::{Duration, Instant, Timer, sleep};
use tickwheel_integrations::quic::TickwheelRuntime;
use tokio::task::coop;

const SECOND: Duration = Duration::from_secs(1);

/// A timer as a connection has it, and the one that it is armed on.
struct Bench {
    timer: Timer,
    of_connection: Pin<Box<dyn AsyncTimer>>,
}

impl Bench {
    fn new(delay: Duration) -> Bench {
        let timer = Timer::builder().stall_grace(false).build();
        Bench::on(timer.unwrap(), delay)
    }

    fn on(timer: Timer, delay: Duration) -> Bench {
        let runtime = TickwheelRuntime::new(&timer);
        let of_connection = runtime.new_timer((Instant::now() + delay).into_std());
        Bench {
            timer,
            of_connection,
        }
    }

    fn reset_to(&mut self, instant: Instant) {
        self.of_connection.as_mut().reset(instant.into_std());
    }

    async fn expiry(&mut self) {
        poll_fn(|cx| self.of_connection.as_mut().poll(cx)).await;
    }

    fn is_expired(&mut self) -> bool {
        self.poll(Waker::noop())
    }

    fn poll(&mut self, waker: &Waker) -> bool {
        let mut context = Context::from_waker(waker);
        self.of_connection.as_mut().poll(&mut context).is_ready()
    }
}

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn count_wakes() -> (Arc<CountWakes>, Waker) {
    let wakes = Arc::new(CountWakes::default());
    (wakes.clone(), wakes.into())
}

#[tokio::test(start_paused = true)]
async fn a_timer_expires_at_its_instant_wherever_it_was_moved_to() {
    let start = Instant::now();
    let mut bench = Bench::new(3600 * SECOND);
    for seconds in 1..=5 {
        // Earlier at first, and then one that has expired is used again.
        bench.reset_to(start + seconds * SECOND);
        assert!(!bench.is_expired());
        bench.expiry().await;
        assert_eq!(start.elapsed(), seconds * SECOND);
        assert!(bench.is_expired(), "and stays expired");
    }
    bench.reset_to(start + 6 * SECOND);
    sleep(2 * SECOND).await;
    bench.reset_to(start + 9 * SECOND);
    assert!(!bench.is_expired(), "nobody has polled what had passed");
    bench.reset_to(start);
    assert!(bench.is_expired(), "it has passed already");
    assert_eq!(bench.timer.metrics().pending(), 0);
    let far = Duration::from_secs(1_000 * 365 * 24 * 3600);
    bench.reset_to(start + far);
    assert!(!bench.is_expired());
    assert_eq!(bench.timer.metrics().pending(), 1);
    drop(bench.of_connection);
    assert_eq!(bench.timer.metrics().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_is_moved_later_wakes_nobody_before() {
    let start = Instant::now();
    let (wakes, waker) = count_wakes();
    let mut bench = Bench::new(SECOND);
    for packet in 1..=100 {
        assert!(!bench.poll(&waker));
        sleep(SECOND / 2).await;
        bench.reset_to(start + packet * SECOND / 2 + SECOND);
    }
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    assert_eq!(bench.timer.metrics().armed(), 1, "it is never armed anew");
    sleep(2 * SECOND).await;
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(bench.is_expired());
}

/// quinn reads its packets and its timer in one poll, and a task without a budget reads no packets.
/// So its timer has not expired then either, as tokio's has not, and quinn comes again.
#[tokio::test(start_paused = true)]
async fn a_timer_expires_only_where_the_task_has_a_budget() {
    let (wakes, waker) = count_wakes();
    for was_polled in [false, true] {
        let mut bench = Bench::new(SECOND);
        if was_polled {
            assert!(!bench.is_expired());
        }
        sleep(2 * SECOND).await;
        let polled = poll_fn(|cx| {
            while let Poll::Ready(unit) = coop::poll_proceed(cx) {
                unit.made_progress();
            }
            Poll::Ready(bench.poll(&waker))
        });
        assert!(!polled.await);
        let before = wakes.0.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        assert_eq!(wakes.0.load(Ordering::Relaxed), before + 1, "it hangs");
        assert!(bench.poll(&waker));
    }
}

#[tokio::test]
async fn a_timer_outlives_the_runtime_that_drove_it() {
    let start = Instant::now();
    let driving = tokio::runtime::Runtime::new().unwrap();
    let timer = Timer::builder().build_on(driving.handle()).unwrap();
    let mut bench = Bench::on(timer, SECOND / 10);
    assert!(!bench.is_expired());
    driving.shutdown_background();
    for tenths in [1, 2] {
        bench.reset_to(start + tenths * SECOND / 10);
        bench.expiry().await;
        assert!(start.elapsed() >= tenths * SECOND / 10);
    }
}
