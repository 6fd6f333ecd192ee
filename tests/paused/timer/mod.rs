//! The timer itself: how it is built, its runtimes and their clocks, and what it reports of itself.

mod build;
mod metrics;
mod runtimes;
mod warning;

use std::future::{Ready, poll_fn, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures::{FutureExt, StreamExt};
use tickwheel::error::{
    BuildError, Cancelled, Elapsed, InsertError, InsertIfAbsentError, ShutDown,
};
use tickwheel::{
    Deadline, DeadlineMap, DelayMap, Duration, Expirations, Instant, KeyedDeadline, Sleep, Timer,
};
use tokio::task::yield_now;
use tokio_test::{assert_pending, task};

use crate::common::{HOUR, MS, arm, current_thread, poll_with};
use crate::paused_clock::{move_the_clock_only, settle};

#[tokio::test(start_paused = true)]
async fn metrics_count_what_is_armed_fired_and_disarmed() {
    let timer = Timer::builder().build().unwrap();
    let counts = || {
        let metrics = timer.metrics();
        let sum = metrics.pending() as u64 + metrics.fired() + metrics.disarmed();
        assert_eq!(metrics.armed(), sum);
        (metrics.pending(), metrics.fired(), metrics.disarmed())
    };
    let past = Instant::now();
    tokio::time::advance(HOUR).await;
    timer.sleep_until(past).await;
    timer.sleep(Duration::ZERO).await;
    assert_eq!(timer.timeout(MS, ready(1)).await, Ok(1));
    let at = Instant::now() + MS;
    assert_eq!(timer.timeout_at(at, ready(1)).await, Ok(1));
    let mut nap = task::spawn(timer.sleep(HOUR));
    assert_eq!(counts(), (0, 0, 0), "what is ready at once arms nothing");
    assert_pending!(nap.poll());
    assert_pending!(nap.poll());
    assert_eq!(counts(), (1, 0, 0));
    drop(nap);
    assert_eq!(counts(), (0, 0, 1));
    // Half of them go in the very tick that fires the others.
    let mut naps: Vec<_> = (0..100).map(|_| task::spawn(timer.sleep(MS))).collect();
    naps.iter_mut().for_each(|nap| assert_pending!(nap.poll()));
    settle().await;
    move_the_clock_only(MS);
    naps.truncate(50);
    settle().await;
    assert!(naps.iter().all(|nap| nap.is_woken()));
    assert_eq!(counts(), (0, 50, 51));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_years_of_uptime_change_nothing() {
    let year = 365 * 24 * HOUR;
    let timer = Timer::builder().build().unwrap();
    let mut forever = task::spawn(timer.sleep(Duration::MAX));
    assert_pending!(forever.poll());
    for _ in 0..100 {
        tokio::time::advance(year).await;
        for duration in [MS, 50 * MS, HOUR, 24 * HOUR] {
            let start = Instant::now();
            timer.sleep(duration).await;
            assert_eq!(start.elapsed(), duration);
        }
        assert!(!forever.is_woken());
    }
    assert_pending!(forever.poll());
}

#[test]
fn public_types_are_send_and_sync_unpin_and_debug() {
    fn is_all<T: Send + Sync + Unpin + std::fmt::Debug + 'static>() {}
    is_all::<(Timer, tickwheel::timer::Builder, BuildError)>();
    is_all::<(tickwheel::metrics::Metrics, tickwheel::metrics::Snapshot)>();
    is_all::<(tickwheel::Sleep, tickwheel::Interval, Deadline)>();
    is_all::<(
        tickwheel::Timeout<Ready<()>>,
        tickwheel::WithDeadline<Ready<()>>,
    )>();
    is_all::<(tickwheel::ResetHandle, Elapsed, Cancelled, ShutDown)>();
    is_all::<(tickwheel::wheel::Wheel<u8>, tickwheel::wheel::Key)>();
    is_all::<(DelayMap<u8, u8>, Expirations<u8, u8>)>();
    is_all::<(DeadlineMap<u8>, KeyedDeadline<u8>)>();
    is_all::<(InsertError<u8>, InsertIfAbsentError<u8>)>();
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let deadline = timer.deadline(MS);
    let (sleep, handle) = (timer.sleep(MS), deadline.handle());
    let shown = format!("{timer:?} {sleep:?} {deadline:?} {handle:?}");
    let names = ["Timer", "Sleep", "pending"];
    assert!(names.iter().all(|name| shown.contains(name)), "{shown}");
}

type IsReady<'a> = Box<dyn FnMut(&mut Context<'_>) -> bool + 'a>;

#[tokio::test(start_paused = true)]
async fn a_task_for_which_all_is_ready_lets_others_run() {
    let timer = Timer::current();
    let (mut nap, mut deadline) = (timer.sleep(MS), timer.deadline(Duration::ZERO));
    let (map, mut values) = DelayMap::new(&timer);
    for value in 0..1_000 {
        assert_eq!(map.insert(value, (), Duration::ZERO), Ok(None));
    }
    let mut beat = timer.interval(MS);
    tokio::time::sleep(1_000 * MS).await;
    let mut polls: [IsReady<'_>; 4] = [
        Box::new(|cx| nap.poll_unpin(cx).is_ready()),
        Box::new(|cx| beat.poll_tick(cx).is_ready()),
        Box::new(|cx| {
            let is_ready = deadline.poll_unpin(cx).is_ready();
            deadline.restart();
            is_ready
        }),
        Box::new(|cx| values.poll_next_unpin(cx).is_ready()),
    ];
    for poll in &mut polls {
        yield_now().await;
        let taken = poll_fn(|cx| Poll::Ready((0..1_000).take_while(|_| poll(cx)).count()));
        assert_eq!(taken.await, 128, "the budget of a task");
    }
}

/// The driver has not come to it.
#[tokio::test(start_paused = true)]
async fn a_reset_at_the_very_deadline_comes_too_late() {
    let deadline = Timer::current().deadline(10 * MS);
    move_the_clock_only(10 * MS);
    assert!(!deadline.handle().reset());
    assert_eq!(deadline.await, Ok(()));
}

/// Polls its sleep whenever it is woken, as an executor without a queue does.
struct PollsWhenWoken {
    sleep: Mutex<Sleep>,
    polled: Mutex<Vec<bool>>,
}

impl Wake for PollsWhenWoken {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let polled = poll_with(&mut *self.sleep.lock().unwrap(), &waker);
        self.polled.lock().unwrap().push(polled.is_ready());
    }
}

/// They are more than a turn takes in one go, so the first ones are woken before its end. Each is
/// polled by the waker that it is armed with, and so without a lock.
#[tokio::test(start_paused = true)]
async fn a_sleep_woken_within_a_turn_has_elapsed() {
    let timer = Timer::builder().shards(1).build().unwrap();
    let armed = |_| {
        let sleeper = Arc::new(PollsWhenWoken {
            sleep: Mutex::new(timer.sleep(10 * MS)),
            polled: Mutex::default(),
        });
        arm(&mut *sleeper.sleep.lock().unwrap(), &sleeper.clone().into());
        sleeper
    };
    let sleepers: Vec<_> = (0..1_000).map(armed).collect();
    tokio::time::advance(10 * MS).await;
    settle().await;
    let is_ready = |sleeper: &Arc<PollsWhenWoken>| *sleeper.polled.lock().unwrap() == [true];
    assert!(sleepers.iter().all(is_ready));
}
