//! The timers of `TickwheelRuntime`, as quinn calls them, without connections.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use quinn::{AsyncTimer, Runtime as _};
use tickwheel::{Duration, Instant, Timer, sleep};
use tickwheel_integrations::quic::TickwheelRuntime;
use tokio::runtime::Runtime;
use tokio::task::coop;

const SECOND: Duration = Duration::from_secs(1);

type BoxedTimer = Pin<Box<dyn AsyncTimer>>;

fn quinn_runtime() -> TickwheelRuntime {
    TickwheelRuntime::new(&Timer::builder().count_stalls(true).build().unwrap())
}

fn timer_in(runtime: &TickwheelRuntime, delay: Duration) -> BoxedTimer {
    runtime.new_timer((Instant::now() + delay).into_std())
}

fn reset_to(timer: &mut BoxedTimer, instant: Instant) {
    timer.as_mut().reset(instant.into_std());
}

async fn expiry(timer: &mut BoxedTimer) {
    poll_fn(|cx| timer.as_mut().poll(cx)).await;
}

fn is_expired(timer: &mut BoxedTimer) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    timer.as_mut().poll(&mut context).is_ready()
}

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_expires_at_its_instant() {
    let runtime = quinn_runtime();
    let start = Instant::now();
    let mut timer = timer_in(&runtime, SECOND);
    expiry(&mut timer).await;
    assert_eq!(start.elapsed(), SECOND);
    assert!(is_expired(&mut timer), "and stays expired");
    assert_eq!(runtime.timer().metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn an_instant_that_has_passed_is_ready_at_once() {
    let runtime = quinn_runtime();
    let past = Instant::now();
    sleep(SECOND).await;
    assert!(is_expired(&mut runtime.new_timer(past.into_std())));
    assert!(is_expired(&mut timer_in(&runtime, Duration::ZERO)));
    let mut timer = timer_in(&runtime, SECOND);
    assert!(!is_expired(&mut timer));
    reset_to(&mut timer, past);
    assert!(is_expired(&mut timer));
    assert_eq!(runtime.timer().metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_is_moved_later_wakes_nobody_before() {
    let runtime = quinn_runtime();
    let start = Instant::now();
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    let mut timer = timer_in(&runtime, SECOND);
    for packet in 1..=100 {
        assert_eq!(timer.as_mut().poll(&mut context), Poll::Pending);
        sleep(SECOND / 2).await;
        reset_to(&mut timer, start + packet * SECOND / 2 + SECOND);
    }
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    assert_eq!(runtime.timer().metrics().armed, 1, "it is never armed anew");
    sleep(2 * SECOND).await;
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(is_expired(&mut timer));
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_is_moved_earlier_expires_earlier() {
    let runtime = quinn_runtime();
    let start = Instant::now();
    let mut timer = timer_in(&runtime, 3600 * SECOND);
    assert!(!is_expired(&mut timer));
    reset_to(&mut timer, start + SECOND);
    expiry(&mut timer).await;
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_has_expired_can_be_reset() {
    let runtime = quinn_runtime();
    let start = Instant::now();
    let mut timer = timer_in(&runtime, SECOND);
    for seconds in 1..=5 {
        expiry(&mut timer).await;
        assert_eq!(start.elapsed(), seconds * SECOND);
        reset_to(&mut timer, start + (seconds + 1) * SECOND);
        assert!(!is_expired(&mut timer));
    }
    // One that has passed, and that nobody polled.
    sleep(10 * SECOND).await;
    reset_to(&mut timer, Instant::now() + SECOND);
    assert!(!is_expired(&mut timer));
    drop(timer);
    assert_eq!(runtime.timer().metrics().pending, 0);
}

/// quinn reads its packets and its timer in one poll, and a task without a budget reads no packets.
/// So its timer has not expired then either, as tokio's has not, and quinn comes again.
#[tokio::test(start_paused = true)]
async fn a_timer_expires_only_where_the_task_has_a_budget() {
    let runtime = quinn_runtime();
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(wakes.clone());
    for was_polled in [false, true] {
        let mut timer = timer_in(&runtime, SECOND);
        if was_polled {
            assert!(!is_expired(&mut timer));
        }
        sleep(2 * SECOND).await;
        let polled = poll_fn(|cx| {
            while let Poll::Ready(unit) = coop::poll_proceed(cx) {
                unit.made_progress();
            }
            Poll::Ready(timer.as_mut().poll(&mut Context::from_waker(&waker)))
        });
        assert_eq!(polled.await, Poll::Pending);
        let before = wakes.0.load(Ordering::Relaxed);
        tokio::task::yield_now().await;
        assert_eq!(wakes.0.load(Ordering::Relaxed), before + 1, "it hangs");
        let mut context = Context::from_waker(&waker);
        assert_eq!(timer.as_mut().poll(&mut context), Poll::Ready(()));
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_timer_disarms_it() {
    let runtime = quinn_runtime();
    let mut timer = timer_in(&runtime, SECOND);
    assert!(!is_expired(&mut timer));
    assert_eq!(runtime.timer().metrics().pending, 1);
    drop(timer);
    assert_eq!(runtime.timer().metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn the_farthest_instant_is_pending_and_no_panic() {
    let runtime = quinn_runtime();
    let far = Duration::from_secs(1000 * 365 * 24 * 3600);
    let mut timer = timer_in(&runtime, far);
    assert!(!is_expired(&mut timer));
    reset_to(&mut timer, Instant::now() + 2 * far);
    assert!(!is_expired(&mut timer));
}

#[tokio::test(start_paused = true)]
async fn now_follows_tokios_clock() {
    let runtime = quinn_runtime();
    let before = runtime.now();
    tokio::time::advance(3600 * SECOND).await;
    assert_eq!(runtime.now() - before, 3600 * SECOND);
}

#[tokio::test]
async fn a_stall_puts_no_timer_off() {
    let runtime = quinn_runtime();
    let mut timer = timer_in(&runtime, SECOND / 10);
    assert!(!is_expired(&mut timer));
    std::thread::sleep(SECOND / 2);
    let expired = tokio::time::timeout(SECOND / 20, expiry(&mut timer)).await;
    expired.expect("it has no grace");
}

#[test]
fn a_timer_outlives_the_runtime_that_drove_it() {
    let driving = Runtime::new().unwrap();
    let timer = Timer::builder()
        .count_stalls(true)
        .build_on(driving.handle())
        .unwrap();
    let runtime = TickwheelRuntime::new(&timer);
    let using = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    using.block_on(async {
        let start = Instant::now();
        let delay = Duration::from_millis(100);
        let mut armed_before = timer_in(&runtime, delay);
        let mut expired_before = timer_in(&runtime, Duration::ZERO);
        assert!(!is_expired(&mut armed_before));
        assert!(is_expired(&mut expired_before));
        driving.shutdown_background();

        expiry(&mut armed_before).await;
        assert!(start.elapsed() >= delay);

        reset_to(&mut expired_before, start + 2 * delay);
        expiry(&mut expired_before).await;
        assert!(start.elapsed() >= 2 * delay);

        let mut armed_after = timer_in(&runtime, delay);
        reset_to(&mut armed_after, start + 3 * delay);
        expiry(&mut armed_after).await;
        assert!(start.elapsed() >= 3 * delay);
    });
    assert_eq!(timer.metrics().pending, 0);
}

#[test]
fn the_runtime_can_be_shared_by_threads() {
    fn is_shared<T: Send + Sync + Clone + std::fmt::Debug + From<Timer>>() {}
    is_shared::<TickwheelRuntime>();
}
