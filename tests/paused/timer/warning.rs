//! A deadline with a warning before it: when the warning comes, how often it wakes its task, and
//! that nothing of it is armed after the end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tickwheel::error::Cancelled;
use tickwheel::warn_before::{Stage, WarnBefore};
use tickwheel::{Deadline, DeadlineMap, Duration, Instant, ResetHandle, Timer};
use tokio_test::{assert_ready, task};

use crate::common::{HOUR, MS, assert_nothing_armed, current_thread, poll_once};
use crate::paused_clock::{idle_for, settle};

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
        let polled = self.idle.enter(|cx, mut idle| pin!(idle.wait()).poll(cx));
        self.must_poll = polled.is_ready();
        polled
    }
}

/// One poll of its next stage.
fn poll_stage(idle: &mut WarnBefore<Deadline>) -> Poll<Result<Stage, Cancelled>> {
    poll_once(&mut pin!(idle.wait()))
}

/// The plainest thing that does what a deadline with a warning must do, in milliseconds.
#[derive(Debug)]
struct Model {
    timeout: u64,
    notice: u64,
    due: u64,
    warned_of: Option<u64>,
    is_over: bool,
}

impl Model {
    fn expected(&mut self, now: u64) -> Poll<Result<Stage, Cancelled>> {
        if self.is_over || self.due <= now {
            self.is_over = true;
            return Poll::Ready(Ok(Stage::Expired));
        }
        if self.due - now <= self.notice && self.warned_of != Some(self.due) {
            self.warned_of = Some(self.due);
            return Poll::Ready(Ok(Stage::Warning));
        }
        Poll::Pending
    }
}

/// Resets alone are warned of exactly. A call that moves the deadline otherwise may lose a warning,
/// but makes none early, none twice, and no end late.
#[tokio::test(start_paused = true)]
async fn random_resets_warn_when_each_notice_begins() {
    let mut warnings = 0;
    for seed in 0..160 {
        let are_resets_alone = seed % 2 == 0;
        let mut random = fastrand::Rng::with_seed(seed);
        let timeout = random.u64(2..200);
        let notice = random.u64(..=timeout * 7 / 8).min(100);
        let idle = Timer::current().deadline(timeout as u32 * MS);
        let handle = idle.handle();
        let mut waiter = Waiter::new(idle.warn_before(notice as u32 * MS));
        let mut model = Model {
            timeout,
            notice,
            due: timeout,
            warned_of: None,
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
            let is_warning = expected == Poll::Ready(Ok(Stage::Warning));
            match !are_resets_alone && is_warning && told.is_pending() {
                // It may come later.
                true => model.warned_of = None,
                false => assert_eq!(told, expected, "{context}"),
            }
            if model.is_over {
                if random.bool() {
                    break;
                }
                waiter.idle.restart();
                waiter.must_poll = true;
                (model.is_over, model.due) = (false, now + model.timeout);
            }
            let moved = random.u64(1..150);
            match random.u8(..60) {
                0..6 if are_resets_alone => {
                    assert!(handle.reset());
                    model.due = now + model.timeout;
                }
                _ if are_resets_alone => {}
                0 | 1 => {
                    assert!(handle.reset());
                    model.due = model.due.max(now + model.timeout);
                }
                2 | 3 => {
                    assert!(handle.reset_after(moved as u32 * MS));
                    model.due = now + moved;
                }
                4 => {
                    assert!(handle.extend(moved as u32 * MS));
                    model.due += moved;
                }
                5 => {
                    // The idle time stays long enough for a look.
                    model.timeout = model.notice * 8 / 7 + moved;
                    assert!(handle.set_timeout(model.timeout as u32 * MS));
                    model.due = model.due.min(now + model.timeout);
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
async fn each_call_that_moves_a_warned_deadline_later_warns_again() {
    type Move = fn(&ResetHandle) -> bool;
    let moves: [(Move, u64); 4] = [
        (ResetHandle::reset, 105),
        (|handle| handle.reset_after(100 * MS), 145),
        (|handle| handle.extend(100 * MS), 150),
        (|handle| handle.set_timeout(160 * MS) && handle.reset(), 205),
    ];
    for (moves, warns_at) in moves {
        let start = Instant::now();
        let idle = Timer::current().deadline(60 * MS);
        let handle = idle.handle();
        let mut idle = idle.warn_before(10 * MS);
        assert_eq!(idle.wait().await, Ok(Stage::Warning));
        let task = tokio::spawn(async move { (idle.wait().await, idle) });
        tickwheel::sleep(5 * MS).await;
        assert!(moves(&handle));
        let (again, mut idle) = task.await.unwrap();
        let at = start.elapsed().as_millis();
        assert_eq!((again, at), (Ok(Stage::Warning), warns_at.into()));
        assert_eq!(idle.wait().await, Ok(Stage::Expired));
        assert_eq!(start.elapsed().as_millis(), u128::from(warns_at) + 10);
    }
}

/// Nor does one that was dropped.
#[tokio::test(start_paused = true)]
async fn an_ended_one_that_is_kept_pulls_no_clock_along() {
    type End = fn(WarnBefore<Deadline>) -> Option<WarnBefore<Deadline>>;
    let ends: [End; 3] = [
        |idle| idle.handle().expire().then_some(idle),
        |idle| idle.handle().cancel().then_some(idle),
        |_| None,
    ];
    let start = Instant::now();
    for end in ends {
        let mut idle = Timer::current().deadline(60 * MS).warn_before(10 * MS);
        assert!(poll_stage(&mut idle).is_pending());
        assert_eq!(Timer::current().metrics().pending, 2);
        let mut ended = end(idle);
        if let Some(idle) = &mut ended {
            assert_ne!(idle.wait().await, Ok(Stage::Warning));
        }
        assert_nothing_armed();
        idle_for(20 * MS).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}

/// The timeout is short, and the deadline was moved far away.
#[tokio::test(start_paused = true)]
async fn a_long_notice_wakes_its_task_few_times() {
    let idle = Timer::current().deadline(MS);
    let handle = idle.handle();
    assert!(handle.reset_after(HOUR));
    let mut idle = idle.warn_before(2 * HOUR);
    let mut polls = 0;
    let mut warnings = 0;
    let outcome = poll_fn(|cx| {
        polls += 1;
        let polled = pin!(idle.wait()).poll(cx);
        if polled == Poll::Ready(Ok(Stage::Warning)) {
            warnings += 1;
            return pin!(idle.wait()).poll(cx);
        }
        polled
    });
    assert_eq!(outcome.await, Ok(Stage::Expired));
    assert_eq!(warnings, 1);
    assert!(polls < 150, "{polls}");
}

#[tokio::test(start_paused = true)]
async fn the_task_that_polled_last_is_warned_and_told_of_the_end() {
    let mut idle = Timer::current().deadline(60 * MS).warn_before(10 * MS);
    let mut first = task::spawn(());
    assert!(first.enter(|cx, _| pin!(idle.wait()).poll(cx)).is_pending());
    let second = tokio::spawn(async move { (idle.wait().await, idle.wait().await) });
    let stages = second.await.unwrap();
    assert_eq!(stages, (Ok(Stage::Warning), Ok(Stage::Expired)));
    assert!(!first.is_woken());
}

#[tokio::test(start_paused = true)]
async fn a_restart_warns_again() {
    let mut idle = Timer::current().deadline(60 * MS).warn_before(60 * MS);
    for _ in 0..2 {
        assert_eq!(idle.wait().await, Ok(Stage::Warning));
        assert!(idle.handle().cancel());
        assert!(idle.wait().await.is_err());
        // In the same moment, so that it is due when it was before.
        idle.restart();
    }
    assert_eq!(idle.wait().await, Ok(Stage::Warning));
    assert_eq!(idle.wait().await, Ok(Stage::Expired));
}

#[test]
fn a_warning_on_a_runtime_that_ends_is_told_so() {
    for has_warned in [false, true] {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let notice = if has_warned { 2 * HOUR } else { MS };
        let mut idle = timer.deadline(HOUR).warn_before(notice);
        let stage = poll_stage(&mut idle);
        assert_eq!(stage.is_ready(), has_warned);
        assert!(poll_stage(&mut idle).is_pending());
        drop(runtime);
        let end = assert_ready!(poll_stage(&mut idle));
        assert!(end.unwrap_err().is_shutdown());
    }
}

#[tokio::test(start_paused = true)]
async fn a_keyed_deadline_warns_and_is_reset_by_its_key() {
    let timer = Timer::current();
    let map = DeadlineMap::new(&timer);
    let mut session = map.insert("alice", 60 * MS).unwrap().warn_before(20 * MS);
    assert_eq!(*session.get_ref().key(), "alice");
    assert_eq!(session.wait().await, Ok(Stage::Warning));
    assert!(map.reset("alice"));
    let newer = map.insert("alice", HOUR).unwrap();
    assert!(session.wait().await.unwrap_err().is_replaced());
    drop((session, newer));
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_notice_of_the_whole_timeout_warns_once_and_does_not_spin() {
    let idle = Timer::current().deadline(80 * MS);
    let handle = idle.handle();
    let mut waiter = Waiter::new(idle.warn_before(Duration::MAX));
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
        assert!(handle.reset());
        assert!(!waiter.idle.is_woken());
    }
    let mut inner = waiter.idle.into_inner();
    assert!(inner.handle().reset_after(MS));
    assert_eq!(inner.wait().await, Ok(Stage::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_restart_warns_when_the_notice_of_its_timeout_begins() {
    let begin = Instant::now();
    let idle = Timer::builder().build().unwrap().deadline(600 * MS);
    let handle = idle.handle();
    let mut idle = idle.warn_before(100 * MS);
    assert!(poll_stage(&mut idle).is_pending());
    assert!(handle.set_timeout(200 * MS));
    idle.restart();
    assert_eq!(idle.wait().await, Ok(Stage::Warning));
    assert_eq!(begin.elapsed(), 100 * MS);
}
