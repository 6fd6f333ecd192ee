//! A deadline with a warning before it: when the warning comes, and that no wake-up is lost.

use std::task::Poll;

use tickwheel::error::Cancelled;
use tickwheel::{Deadline, DeadlineMap, Duration, Instant, Stage, Timer, WarnBefore};
use tokio_test::task;

use crate::common::{HOUR, MS, settle};

/// Waits with a waker that counts, and polls only when it was woken.
struct Waiter {
    idle: task::Spawn<WarnBefore<Deadline>>,
    must_poll: bool,
}

impl Waiter {
    fn new(idle: WarnBefore<Deadline>) -> Waiter {
        Waiter {
            idle: task::spawn(idle),
            must_poll: true,
        }
    }

    fn poll_if_woken(&mut self) -> Poll<Result<Stage, Cancelled>> {
        if !self.must_poll && !self.idle.is_woken() {
            return Poll::Pending;
        }
        let polled = self.idle.enter(|cx, mut idle| idle.poll_wait(cx));
        self.must_poll = polled.is_ready();
        polled
    }
}

/// The plainest thing that does what a deadline with a warning must do, in milliseconds.
#[derive(Debug)]
struct Model {
    timeout: u64,
    grace: u64,
    due: u64,
    warned_of: Option<u64>,
    /// When the timeout counts from, unless the due was set for once.
    counts_from: Option<u64>,
    is_over: bool,
}

impl Model {
    fn expected(&mut self, now: u64) -> Poll<Result<Stage, Cancelled>> {
        if self.is_over || self.due <= now {
            self.is_over = true;
            return Poll::Ready(Ok(Stage::Expired));
        }
        if self.due - now <= self.grace && self.warned_of != Some(self.due) {
            self.warned_of = Some(self.due);
            return Poll::Ready(Ok(Stage::Warning));
        }
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn random_resets_warn_when_each_grace_begins() {
    let mut warnings = 0;
    for seed in 0..80 {
        let mut random = fastrand::Rng::with_seed(seed);
        let timeout = random.u64(2..200);
        let grace = random.u64(..=timeout * 7 / 8).min(100);
        let idle = Timer::current().deadline(timeout as u32 * MS);
        let handle = idle.handle();
        let mut waiter = Waiter::new(idle.warn_before(grace as u32 * MS));
        let mut model = Model {
            timeout,
            grace,
            due: timeout,
            warned_of: None,
            counts_from: Some(0),
            is_over: false,
        };
        for now in 0..600_u64 {
            let context = format!("seed {seed}, {now} ms: {model:?}");
            let mut told = waiter.poll_if_woken();
            let mut expected = model.expected(now);
            while told.is_ready() && told == expected && told != Poll::Ready(Ok(Stage::Expired)) {
                warnings += 1;
                told = waiter.poll_if_woken();
                expected = model.expected(now);
            }
            assert_eq!(told, expected, "{context}");
            if model.is_over {
                if random.bool() {
                    break;
                }
                waiter.idle.restart();
                waiter.must_poll = true;
                (model.is_over, model.due) = (false, now + model.timeout);
                model.counts_from = Some(now);
            }
            let moved = random.u64(1..150);
            match random.u8(..60) {
                0 | 1 => {
                    assert!(handle.reset());
                    (model.due, model.counts_from) = (now + model.timeout, Some(now));
                }
                2 | 3 => {
                    assert!(handle.reset_after(moved as u32 * MS));
                    (model.due, model.counts_from) = (now + moved, None);
                }
                4 => {
                    assert!(handle.extend(moved as u32 * MS));
                    (model.due, model.counts_from) = (model.due + moved, None);
                }
                5 => {
                    // The idle time stays long enough for a look.
                    model.timeout = model.grace * 8 / 7 + moved;
                    assert!(handle.set_timeout(model.timeout as u32 * MS));
                    if let Some(from) = model.counts_from {
                        model.due = from + model.timeout;
                    }
                }
                _ => {}
            }
            tokio::time::advance(MS).await;
            settle().await;
        }
    }
    assert!(warnings > 80, "{warnings}");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_in_the_grace_is_in_time_to_its_last_moment() {
    let idle = Timer::current().deadline(60 * MS);
    let handle = idle.handle();
    let mut idle = idle.warn_before(10 * MS);
    assert_eq!(idle.wait().await, Ok(Stage::Warning));
    for _ in 0..100 {
        let left = handle.remaining().unwrap();
        assert!(left <= 10 * MS);
        tickwheel::sleep(left - MS).await;
        assert!(handle.reset(), "a millisecond before the end");
        assert_eq!(idle.wait().await, Ok(Stage::Warning));
    }
    assert_eq!(idle.wait().await, Ok(Stage::Expired));
    assert_eq!(idle.wait().await, Ok(Stage::Expired), "and so it stays");
    assert!(!handle.reset());
}

/// It leaves its grace, and comes back to the time of which it has warned already, or before it.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_comes_back_into_its_grace_warns_again() {
    let start = Instant::now();
    let idle = Timer::current().deadline(60 * MS);
    let handle = idle.handle();
    let mut idle = idle.warn_before(10 * MS);
    assert_eq!(idle.wait().await, Ok(Stage::Warning));
    tickwheel::sleep(MS).await;
    assert!(handle.reset());
    tickwheel::sleep(MS).await;
    assert!(handle.reset_after(6 * MS));
    assert_eq!(
        (idle.wait().await, start.elapsed()),
        (Ok(Stage::Warning), 52 * MS)
    );
    assert!(handle.reset_after(14 * MS));
    assert_eq!(
        (idle.wait().await, start.elapsed()),
        (Ok(Stage::Warning), 56 * MS)
    );
    assert_eq!(
        (idle.wait().await, start.elapsed()),
        (Ok(Stage::Expired), 66 * MS)
    );
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_moved_earlier_warns_before_it() {
    let start = Instant::now();
    let idle = Timer::current().deadline(HOUR);
    let handle = idle.handle();
    let mut idle = idle.warn_before(10 * MS);
    let task = tokio::spawn(async move { (idle.wait().await, Instant::now(), idle.wait().await) });
    settle().await;
    assert!(handle.reset_after(50 * MS));
    let (first, at, second) = task.await.unwrap();
    assert_eq!((first, at - start), (Ok(Stage::Warning), 40 * MS));
    assert_eq!((second, start.elapsed()), (Ok(Stage::Expired), 50 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_ends_before_its_grace_warns_of_nothing() {
    let end = |act: fn(&tickwheel::ResetHandle) -> bool| async move {
        let idle = Timer::current().deadline(HOUR);
        let handle = idle.handle();
        let mut idle = idle.warn_before(10 * MS);
        let task = tokio::spawn(async move { idle.wait().await });
        settle().await;
        assert!(act(&handle));
        task.await.unwrap()
    };
    assert_eq!(end(|handle| handle.expire()).await, Ok(Stage::Expired));
    assert!(end(|handle| handle.cancel()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_keyed_deadline_warns_and_is_reset_by_its_key() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let mut session = map.insert("alice", 60 * MS).unwrap().warn_before(20 * MS);
    assert_eq!(
        (*session.get_ref().key(), session.grace()),
        ("alice", 20 * MS)
    );
    assert_eq!(session.wait().await, Ok(Stage::Warning));
    assert!(map.reset("alice"));
    let newer = map.insert("alice", HOUR).unwrap();
    assert!(session.wait().await.unwrap_err().is_replaced());
    drop((session, newer));
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_grace_of_the_whole_timeout_warns_at_once_and_does_not_spin() {
    let idle = Timer::current().deadline(80 * MS);
    let handle = idle.handle();
    let mut waiter = Waiter::new(idle.warn_before(HOUR));
    assert_eq!(waiter.poll_if_woken(), Poll::Ready(Ok(Stage::Warning)));
    let (mut polls, mut warnings) = (0, 0);
    for millisecond in 1..800 {
        if waiter.must_poll || waiter.idle.is_woken() {
            polls += 1;
            warnings += usize::from(waiter.poll_if_woken().is_ready());
        }
        if millisecond % 40 == 0 {
            assert!(handle.reset());
        }
        tokio::time::advance(MS).await;
        settle().await;
    }
    assert_eq!(warnings, 19, "of each reset");
    assert!(polls < 150, "{polls}");
}

#[tokio::test(start_paused = true)]
async fn a_reset_wakes_no_task_that_waits_for_a_warning() {
    let idle = Timer::current().deadline(HOUR);
    let handle = idle.handle();
    let mut waiter = Waiter::new(idle.warn_before(HOUR / 2));
    assert!(waiter.poll_if_woken().is_pending());
    for _ in 0..50 {
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(handle.reset() && handle.reset_after(2 * HOUR) && handle.reset());
        waiter.idle.is_woken().then(|| waiter.poll_if_woken());
    }
    let inner = waiter.idle.into_inner().into_inner();
    assert!(inner.handle().reset_after(MS), "no longer watched");
    assert_eq!(inner.await, Ok(()));
}
