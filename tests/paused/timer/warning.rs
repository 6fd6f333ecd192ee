//! A deadline with a warning before it: when the warning comes, how often it wakes its task, and
//! that nothing of it is armed after the end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tickwheel::error::Cancelled;
use tickwheel::warn_before::{Stage, WarnBefore};
use tickwheel::{Deadline, DeadlineMap, Duration, Instant, ResetHandle, Timer};
use tokio_test::{assert_ready, task};

use crate::common::{HOUR, MS, SECOND, assert_nothing_armed, current_thread, poll_once};
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
    /// The warning of the due comes at this time at the latest.
    warns_by: u64,
    /// After a warning: a due that is set now is seen by then.
    is_seen_by: u64,
    is_over: bool,
}

impl Model {
    fn new(timeout: u64, notice: u64) -> Model {
        Model {
            timeout,
            notice,
            due: timeout,
            warned_of: None,
            warns_by: timeout - notice,
            is_seen_by: 0,
            is_over: false,
        }
    }

    /// Whether a poll at `now` may return this.
    fn accepts(&mut self, now: u64, polled: Poll<Result<Stage, Cancelled>>) -> bool {
        self.is_over |= self.due <= now;
        if self.is_over {
            return polled == Poll::Ready(Ok(Stage::Expired));
        }
        let has_warning = self.warned_of != Some(self.due) && self.begins() <= now;
        let is_accepted = match polled {
            Poll::Pending => !has_warning || now < self.warns_by,
            Poll::Ready(stage) => has_warning && stage == Ok(Stage::Warning),
        };
        if polled.is_ready() {
            self.warned_of = Some(self.due);
        }
        if self.warned_of == Some(self.due) {
            self.is_seen_by = now + self.notice.div_ceil(8);
        }
        is_accepted
    }

    fn begins(&self) -> u64 {
        self.due.saturating_sub(self.notice)
    }

    fn reset(&mut self, now: u64) {
        self.move_to(self.due.max(now + self.timeout), true);
    }

    fn set_timeout(&mut self, now: u64, timeout: u64) {
        self.timeout = timeout;
        self.move_to(self.due.min(now + timeout), false);
    }

    fn set_notice(&mut self, notice: u64) {
        self.notice = notice;
        self.warns_by = self.begins();
    }

    fn move_to(&mut self, due: u64, is_reset: bool) {
        let is_seen_in_time = is_reset || due < self.due;
        if due != self.due {
            self.due = due;
            self.warns_by = self.begins();
            if !is_seen_in_time {
                self.warns_by = self.warns_by.max(self.is_seen_by);
            }
        }
    }
}

/// The task polls only when it was woken.
#[tokio::test(start_paused = true)]
async fn random_moves_and_notices_warn_of_each_due() {
    let (mut warnings, mut at_once) = (0, 0);
    for seed in 0..160 {
        let mut random = fastrand::Rng::with_seed(seed);
        let is_busy = random.bool();
        let timeout = random.u64(8..200);
        // The idle time stays long enough for a look.
        let notice_of = |random: &mut fastrand::Rng, timeout| random.u64(..=timeout * 7 / 8);
        let notice = notice_of(&mut random, timeout);
        let idle = Timer::current().deadline(timeout as u32 * MS);
        let handle = idle.handle();
        let mut waiter = Waiter::new(idle.warn_before(notice as u32 * MS));
        let mut model = Model::new(timeout, notice);
        for now in 0..600_u64 {
            let has_begun = model.warns_by < now;
            loop {
                let polled = waiter.poll_if_woken();
                let is_accepted = model.accepts(now, polled);
                assert!(is_accepted, "seed {seed}, {now} ms: {polled:?}, {model:?}");
                if polled != Poll::Ready(Ok(Stage::Warning)) {
                    break;
                }
                warnings += 1;
                at_once += u32::from(has_begun);
            }
            if model.is_over {
                if random.bool() {
                    break;
                }
                waiter.idle.restart();
                waiter.must_poll = true;
                model = Model {
                    due: now + model.timeout,
                    warns_by: now + model.timeout - model.notice,
                    warned_of: None,
                    is_over: false,
                    ..model
                };
            }
            // Some calls come together, before the task looks.
            let calls = match random.u8(..if is_busy { 8 } else { 40 }) {
                0 => 3,
                1 | 2 => 1,
                _ => 0,
            };
            for _ in 0..calls {
                let by = random.u64(1..200);
                let moved = match random.u8(..16) {
                    0..4 => {
                        model.reset(now);
                        handle.reset()
                    }
                    4..7 => {
                        model.move_to(now + by, false);
                        handle.reset_after(by as u32 * MS)
                    }
                    7..9 => {
                        // At most as far ahead as it is.
                        let left = 1 + by % (model.due - now);
                        model.move_to(now + left, false);
                        handle.reset_at(Instant::now() + left as u32 * MS)
                    }
                    9 | 10 => {
                        model.move_to(model.due + by, false);
                        handle.extend(by as u32 * MS)
                    }
                    11..14 => {
                        let timeout = by.max(model.notice * 8 / 7 + 8);
                        model.set_timeout(now, timeout);
                        handle.set_timeout(timeout as u32 * MS)
                    }
                    _ => {
                        let notice = notice_of(&mut random, model.timeout);
                        model.set_notice(notice);
                        waiter.idle.set_notice(notice as u32 * MS);
                        waiter.must_poll = true;
                        true
                    }
                };
                assert!(moved, "seed {seed}, {now} ms: {model:?}");
            }
            tokio::time::advance(MS).await;
            settle().await;
        }
    }
    assert!(warnings > 1_000, "{warnings}");
    assert!(at_once > 500, "{at_once}");
}

/// A keepalive as QUIC, MQTT and WebSocket negotiate it: the peer asks for a shorter one, and
/// answers each ping. A deadline alone is not woken.
#[tokio::test(start_paused = true)]
async fn a_negotiated_shorter_keepalive_pings_before_each_end() {
    type Negotiate = fn(&ResetHandle) -> bool;
    let calls: [Negotiate; 3] = [
        |peer| peer.set_timeout(20 * SECOND),
        |peer| peer.set_timeout(20 * SECOND) && peer.reset_after(20 * SECOND),
        |peer| peer.reset_at(Instant::now() + 20 * SECOND) && peer.set_timeout(20 * SECOND),
    ];
    for negotiate in calls {
        let start = Instant::now();
        let timer = Timer::current();
        let sessions = DeadlineMap::new(&timer);
        let session = sessions.insert("alice", 60 * SECOND).unwrap();
        let mut session = session.warn_before(3 * SECOND);
        let mut idle = timer.deadline(60 * SECOND).warn_before(3 * SECOND);
        let peers = [idle.handle(), sessions.handle("alice").unwrap()];
        tokio::spawn(async move {
            tickwheel::sleep(5 * SECOND).await;
            assert!(peers.iter().all(negotiate));
        });
        for pings in 0..3 {
            let stages = futures::join!(idle.wait(), session.wait());
            let pinged_at = 22 + 17 * pings;
            assert_eq!(stages, (Ok(Stage::Warning), Ok(Stage::Warning)));
            assert_eq!(start.elapsed(), pinged_at * SECOND);
            assert!(idle.handle().reset() && sessions.reset("alice"));
        }
    }
}

/// For a deadline alone the call moves its timer, and that is all.
#[tokio::test(start_paused = true)]
async fn a_move_to_earlier_wakes_the_task_that_awaits_a_warning_and_no_other() {
    type Call = fn(&ResetHandle) -> bool;
    let calls: [(Call, bool); 7] = [
        (|handle| handle.set_timeout(20 * SECOND), true),
        (|handle| handle.reset_after(20 * SECOND), true),
        (|handle| handle.reset_at(Instant::now() + 59 * SECOND), true),
        (|handle| handle.set_timeout(60 * SECOND), false),
        (|handle| handle.set_timeout(HOUR), false),
        (|handle| handle.reset_after(HOUR), false),
        (|handle| handle.extend(HOUR), false),
    ];
    for (number, (call, is_earlier)) in calls.into_iter().enumerate() {
        let alone = Timer::current().deadline(60 * SECOND);
        let handle = alone.handle();
        let mut alone = task::spawn(alone);
        assert!(alone.poll().is_pending());
        assert!(call(&handle));
        assert!(!alone.is_woken(), "call {number}");

        let idle = Timer::current().deadline(60 * SECOND);
        let handle = idle.handle();
        let mut waiter = Waiter::new(idle.warn_before(SECOND));
        assert!(waiter.poll_if_woken().is_pending());
        assert!(call(&handle));
        assert_eq!(waiter.idle.is_woken(), is_earlier, "call {number}");
        // Each call is seen once the task has polled.
        assert!(waiter.poll_if_woken().is_pending());
        assert!(handle.reset_after(SECOND));
        assert_eq!(waiter.poll_if_woken(), Poll::Ready(Ok(Stage::Warning)));
        assert!(waiter.poll_if_woken().is_pending(), "once");
    }
}

/// The notice begins a second after the call, and the previous due is seven seconds ahead.
#[tokio::test(start_paused = true)]
async fn a_postponed_due_is_warned_of_with_most_of_its_notice() {
    let calls: [fn(&ResetHandle) -> bool; 3] = [
        |handle| handle.reset_after(9 * SECOND),
        |handle| handle.reset_at(Instant::now() + 9 * SECOND),
        |handle| handle.extend(2 * SECOND),
    ];
    for postpone in calls {
        let start = Instant::now();
        let idle = Timer::current().deadline(60 * SECOND);
        let handle = idle.handle();
        let mut idle = idle.warn_before(8 * SECOND);
        assert_eq!(idle.wait().await, Ok(Stage::Warning));
        let task = tokio::spawn(async move { (idle.wait().await, idle) });
        tickwheel::sleep(SECOND).await;
        assert!(postpone(&handle));
        let (again, mut idle) = task.await.unwrap();
        let at = start.elapsed();
        assert_eq!(again, Ok(Stage::Warning));
        assert!(at >= 54 * SECOND && at <= 55 * SECOND, "{at:?}");
        assert_eq!(idle.wait().await, Ok(Stage::Expired));
        assert_eq!(start.elapsed(), 62 * SECOND);
    }
}

/// The timeout was as long as can be, so an eighth of it is six days. At the warning less than a
/// millisecond is left.
#[tokio::test(start_paused = true)]
async fn a_warning_in_the_last_millisecond_misses_no_shorter_timeout() {
    let idle = Timer::current().deadline(Duration::MAX);
    let handle = idle.handle();
    assert!(handle.reset_after(10 * MS));
    let mut idle = idle.warn_before(Duration::MAX);
    tokio::time::advance(Duration::from_micros(9_500)).await;
    assert_eq!(poll_stage(&mut idle), Poll::Ready(Ok(Stage::Warning)));
    let task = tokio::spawn(async move { (idle.wait().await, idle.wait().await) });
    settle().await;
    // The due becomes later, so the call wakes no task.
    assert!(handle.set_timeout(10 * SECOND) && handle.reset());
    let stages = task.await.unwrap();
    assert_eq!(stages, (Ok(Stage::Warning), Ok(Stage::Expired)));
}

#[tokio::test(start_paused = true)]
async fn a_changed_notice_counts_for_the_present_due() {
    let start = Instant::now();
    let mut idle = Timer::current().deadline(HOUR).warn_before(SECOND);
    assert!(poll_stage(&mut idle).is_pending());
    for (notice, has_warning) in [
        (HOUR - 2 * SECOND, false),
        (HOUR / 2, false),
        (HOUR - SECOND, true),
        (HOUR, false),
    ] {
        idle.set_notice(notice);
        assert_eq!(Timer::current().metrics().pending(), 1, "the deadline");
        tokio::time::advance(MS * 500).await;
        let stage = poll_stage(&mut idle);
        assert_eq!(stage.is_ready(), has_warning, "{notice:?}");
    }
    // One warning for each due, whatever its notice.
    assert_eq!(idle.wait().await, Ok(Stage::Expired));
    idle.restart();
    idle.set_notice(SECOND);
    assert_eq!(idle.wait().await, Ok(Stage::Warning));
    assert_eq!(start.elapsed(), 2 * HOUR - SECOND);
    assert!(idle.handle().cancel());
    assert!(idle.wait().await.is_err());
    idle.set_notice(HOUR);
    assert!(idle.wait().await.is_err());
    assert_nothing_armed();
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
async fn an_ended_deadline_leaves_no_warning_armed() {
    type End = fn(WarnBefore<Deadline>) -> Option<WarnBefore<Deadline>>;
    let ends: [End; 5] = [
        |idle| idle.handle().reset_at(Instant::now()).then_some(idle),
        |idle| idle.handle().set_timeout(Duration::ZERO).then_some(idle),
        |idle| idle.handle().expire().then_some(idle),
        |idle| idle.handle().cancel().then_some(idle),
        |_| None,
    ];
    let start = Instant::now();
    for end in ends {
        let mut idle = Timer::current().deadline(60 * MS).warn_before(10 * MS);
        assert!(poll_stage(&mut idle).is_pending());
        assert_eq!(Timer::current().metrics().pending(), 2);
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

/// The restarted deadline is due at the tick of which it has warned.
#[tokio::test(start_paused = true)]
async fn a_restart_in_the_tick_of_the_warning_warns_again() {
    let mut idle = Timer::current().deadline(SECOND).warn_before(SECOND);
    for restarts in 0..3 {
        assert_eq!(idle.wait().await, Ok(Stage::Warning), "{restarts}");
        idle.restart();
    }
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
fn a_warning_on_a_runtime_that_ends_reports_the_end() {
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
    assert_eq!(*session.as_ref().key(), "alice");
    assert_eq!(session.wait().await, Ok(Stage::Warning));
    assert!(map.reset("alice"));
    let newer = map.insert("alice", HOUR).unwrap();
    assert!(session.wait().await.unwrap_err().is_replaced());
    drop((session, newer));
    assert_eq!(timer.metrics().pending(), 0);
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
    assert_eq!(inner.wait().await, Ok(Stage::Warning));
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
