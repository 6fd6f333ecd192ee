//! What a timer tells of itself in numbers: each at zero, and after each event that counts.

use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use tickwheel::{Deadline, DeadlineMap, DelayMap, Duration, Metrics, Timer, sleep};
use tokio_test::{assert_pending, task};

use crate::common::{HOUR, MS, current_thread, move_the_clock_only, poll_once, settle};

#[tokio::test(start_paused = true)]
async fn a_fresh_timer_tells_of_nothing_but_itself() {
    let timer = Timer::builder().shards(4).name("fresh").build().unwrap();
    let metrics = timer.metrics();
    assert_eq!(
        (metrics.name.as_deref(), metrics.shards),
        (Some("fresh"), 4)
    );
    let rest = Metrics::default();
    let Metrics {
        armed,
        put_off,
        stalled,
        late_windows,
        waker_panics,
        refused,
        ..
    } = metrics;
    assert_eq!(
        (armed, put_off, stalled),
        (rest.armed, rest.put_off, rest.stalled)
    );
    assert_eq!((late_windows, waker_panics, refused), (0, 0, 0));
    assert_eq!(Timer::new().name(), None);
    assert_eq!(timer.lateness().count(), 0);
    assert_eq!(
        (timer.lateness().max(), timer.lateness().p50()),
        (Duration::ZERO, Duration::ZERO)
    );
}

/// Five timers are due at 10 ms, and one each at 20 and 40 ms. The driver comes at 50 ms.
#[tokio::test(start_paused = true)]
async fn lateness_is_from_the_tick_to_the_wake_up() {
    let timer = Timer::new();
    let armed = |after| {
        let mut sleep = task::spawn(timer.sleep(after));
        assert_pending!(sleep.poll());
        sleep
    };
    let late: Vec<_> = [10, 10, 10, 10, 10, 20, 40].map(|ms| armed(ms * MS)).into();
    tokio::time::advance(50 * MS).await;
    settle().await;
    assert!(late.iter().all(task::Spawn::is_woken));
    let lateness = timer.lateness();
    assert_eq!((lateness.count(), lateness.max()), (7, 40 * MS));
    assert_eq!(lateness.total(), (5 * 40 + 30 + 10) * MS);
    let buckets: Vec<_> = lateness.buckets().collect();
    assert_eq!(
        buckets
            .iter()
            .map(|(_, timers)| *timers)
            .collect::<Vec<_>>(),
        [1, 1, 5]
    );
    for (exact, (end, _)) in [10, 30, 40].into_iter().zip(buckets) {
        assert!(exact * MS < end && end <= exact * MS * 17 / 16, "{end:?}");
    }
    assert_eq!(
        (lateness.p50(), lateness.quantile(0.0)),
        (40 * MS, lateness.quantile(0.1))
    );
    assert_eq!(timer.take_lateness(), lateness);
    assert_eq!(
        (timer.take_lateness().count(), timer.lateness().total()),
        (0, Duration::ZERO)
    );
    // What is not fired by the driver has no lateness.
    drop(armed(HOUR));
    drop(late);
    assert_eq!(timer.lateness().count(), 0);
}

/// A reset that came while the deadline was already linked at its old tick.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_was_reset_is_late_by_its_last_due() {
    let timer = Timer::new();
    let deadline = timer.deadline(20 * MS);
    sleep(10 * MS).await;
    assert!(deadline.handle().reset());
    move_the_clock_only(50 * MS);
    settle().await;
    assert_eq!(deadline.await, Ok(()));
    let late = timer.lateness().max();
    assert!(late <= 31 * MS, "{late:?}");
    assert_eq!(timer.metrics().put_off, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_was_reset_is_put_off_once_for_each_time() {
    let timer = Timer::new();
    let deadline = timer.deadline(10 * MS);
    let handle = deadline.handle();
    for round in 0..5 {
        sleep(9 * MS).await;
        assert_eq!(timer.metrics().put_off, round);
        assert!(handle.reset() && handle.reset());
    }
    assert_eq!(timer.metrics().fired, 0);
}

#[tokio::test(start_paused = true)]
async fn each_insert_that_is_refused_counts() {
    let timer = Timer::new();
    let (values, _stream) = DelayMap::with_limit(&timer, 1);
    let keys = DeadlineMap::with_limit(&timer, 1);
    assert!(values.insert(1, 1, HOUR).is_ok() && values.insert(1, 2, HOUR).is_ok());
    let _kept = keys.insert(1, HOUR).unwrap();
    assert_eq!(timer.metrics().refused, 0);
    assert!(values.insert(2, 2, HOUR).is_err() && keys.insert(2, HOUR).is_err());
    assert!(values.insert_if_absent(2, 2, HOUR).is_err());
    assert_eq!(timer.metrics().refused, 3);
    values.close();
    keys.close();
    assert!(values.insert(1, 1, HOUR).is_err() && keys.insert_if_absent(1, HOUR).is_err());
    assert!(values.insert_if_absent(1, 1, HOUR).is_err());
    assert_eq!(timer.metrics().refused, 6);
}

#[tokio::test(start_paused = true)]
async fn the_values_of_a_map_have_one_timer_while_a_stream_waits() {
    let timer = Timer::new();
    let (map, mut stream) = DelayMap::new(&timer);
    assert!((0..100).all(|key| map.insert(key, key, HOUR).is_ok()));
    assert_eq!((map.len(), timer.metrics().pending), (100, 0));
    let mut waiting = task::spawn(stream.recv());
    assert_pending!(waiting.poll());
    assert_eq!((map.len(), timer.metrics().pending), (100, 1));
}

#[tokio::test(start_paused = true)]
async fn each_waker_that_panics_counts() {
    struct Panicking;

    impl Wake for Panicking {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }

    let timer = Timer::new();
    let waker = Waker::from(Arc::new(Panicking));
    let mut cx = Context::from_waker(&waker);
    let mut poll = |deadline: &mut Deadline| {
        assert!(std::future::Future::poll(std::pin::Pin::new(deadline), &mut cx).is_pending());
    };
    let (mut fired, mut cancelled) = (timer.deadline(MS), timer.deadline(HOUR));
    poll(&mut fired);
    poll(&mut cancelled);
    assert_eq!(timer.metrics().waker_panics, 0);
    assert!(cancelled.handle().cancel());
    assert_eq!(timer.metrics().waker_panics, 1);
    sleep(5 * MS).await;
    assert_eq!(timer.metrics().waker_panics, 2);
}

#[test]
fn stalls_count_with_the_time_that_they_took() {
    let runtime = current_thread();
    runtime.block_on(async {
        let timer = Timer::new();
        let mut sleep = timer.sleep(20 * MS);
        assert!(poll_once(&mut sleep).is_pending());
        std::thread::sleep(300 * MS);
        sleep.await;
        let metrics = timer.metrics();
        assert!(
            metrics.stalls >= 1 && metrics.stalled >= 200 * MS,
            "{metrics:?}"
        );
        let lateness = timer.lateness();
        assert!(
            lateness.max() >= 200 * MS && lateness.p99() >= 200 * MS,
            "{lateness:?}"
        );
    });
}

#[tokio::test(start_paused = true)]
async fn values_that_nobody_takes_are_counted_in_each_map() {
    let (map, mut stream) = DelayMap::new(&Timer::current());
    for key in 0..1_000_u32 {
        map.insert(key, (), key * MS).unwrap();
    }
    for elapsed in [0, 10, 500, 999, 2_000] {
        sleep(elapsed * MS).await;
        let due = map.due_len();
        let expected = map
            .keys()
            .into_iter()
            .filter(|key| map.remaining(key) == Some(Duration::ZERO));
        assert_eq!(due, expected.count());
        if elapsed == 500 {
            assert!(stream.try_recv().is_ok());
            assert_eq!(map.due_len(), due - 1);
        }
    }
    assert_eq!((map.due_len(), map.len()), (999, 999));
}
