//! `Deadline` and `ResetHandle` under the paused clock: examples, and a model under random
//! operations.

mod common;

use proptest::prelude::*;
use tickwheel::error::Cancelled;
use tickwheel::{Deadline, Duration, Instant, ResetHandle, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, assert_ready_eq, task};

use crate::common::{HOUR, MS, move_the_clock_only, paused, settle};

fn deadline(timeout: Duration) -> (task::Spawn<Deadline>, ResetHandle) {
    let deadline = Timer::current().deadline(timeout);
    let handle = deadline.handle();
    (task::spawn(deadline), handle)
}

#[tokio::test(start_paused = true)]
async fn expires_when_its_timeout_has_passed_since_its_last_reset() {
    let start = Instant::now();
    let (deadline, handle) = deadline(10 * MS);
    tokio::spawn(async move {
        for _ in 0..20 {
            sleep(9 * MS).await;
            assert!(handle.reset());
        }
    });
    deadline.into_inner().await.unwrap();
    assert_eq!(start.elapsed(), 190 * MS);
}

#[tokio::test(start_paused = true)]
async fn runs_from_its_making_whether_or_not_it_is_polled() {
    let (mut deadline, handle) = deadline(10 * MS);
    sleep(11 * MS).await;
    assert!(!handle.is_pending());
    assert!(!handle.reset());
    assert_ready_eq!(deadline.poll(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn gives_the_same_answer_when_polled_again() {
    let (mut expired, _) = deadline(Duration::ZERO);
    let (mut cancelled, handle) = deadline(HOUR);
    assert!(handle.cancel());
    for _ in 0..3 {
        assert_ready_eq!(expired.poll(), Ok(()));
        let error = assert_ready!(cancelled.poll()).unwrap_err();
        assert!(!error.is_replaced() && !error.is_shutdown());
        sleep(MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_and_expire_wake_the_waiter_and_only_the_first_counts() {
    type Act = fn(&ResetHandle) -> bool;
    let acts: [(Act, bool); 2] = [(ResetHandle::cancel, false), (ResetHandle::expire, true)];
    for (act, expired) in acts {
        let (mut deadline, handle) = deadline(HOUR);
        assert_pending!(deadline.poll());
        assert!(act(&handle));
        assert!(deadline.is_woken());
        assert!(!handle.cancel() && !handle.expire() && !handle.reset() && !handle.is_pending());
        assert!(
            !handle.reset_after(MS) && !handle.reset_at(Instant::now()) && !handle.set_timeout(MS)
        );
        assert_eq!((handle.deadline(), handle.remaining()), (None, None));
        assert_eq!(assert_ready!(deadline.poll()).is_ok(), expired);
    }
    assert_eq!(Timer::current().metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_it_disarms_it_and_its_handles_answer_false() {
    let (mut deadline, handle) = deadline(HOUR);
    assert_pending!(deadline.poll());
    assert_eq!(Timer::current().metrics().pending, 1);
    drop(deadline);
    assert_eq!(Timer::current().metrics().pending, 0);
    assert!(!handle.reset() && !handle.cancel() && !handle.expire() && !handle.is_pending());
}

#[tokio::test(start_paused = true)]
async fn reset_after_moves_it_once_earlier_or_later() {
    let start = Instant::now();
    let (mut deadline, handle) = deadline(100 * MS);
    assert_pending!(deadline.poll());
    assert!(handle.reset_after(10_000 * MS));
    sleep(9_000 * MS).await;
    assert!(!deadline.is_woken());
    assert!(
        handle.reset(),
        "and the next reset counts the timeout again, though that is earlier"
    );
    assert_eq!(handle.remaining(), Some(100 * MS));
    assert!(handle.reset_after(5 * MS));
    deadline.into_inner().await.unwrap();
    assert_eq!(start.elapsed(), 9_005 * MS);
}

#[tokio::test(start_paused = true)]
async fn reset_to_the_past_wakes_the_waiter() {
    sleep(HOUR).await;
    for back in [Duration::ZERO, MS, 10 * HOUR] {
        let (mut deadline, handle) = deadline(HOUR);
        assert_pending!(deadline.poll());
        settle().await;
        assert!(handle.reset_at(Instant::now() - back));
        settle().await;
        assert!(deadline.is_woken());
        assert_ready_eq!(deadline.poll(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_is_too_late_before_the_driver_saw_it_pass() {
    type Act = fn(&ResetHandle) -> bool;
    let acts: [Act; 7] = [
        |handle| handle.reset(),
        |handle| handle.reset_after(HOUR),
        |handle| handle.reset_at(Instant::now() + HOUR),
        |handle| handle.set_timeout(HOUR),
        |handle| handle.cancel(),
        |handle| handle.expire(),
        |handle| handle.is_pending() || handle.remaining().is_some() || handle.deadline().is_some(),
    ];
    for once in [false, true] {
        for act in acts {
            let (mut deadline, handle) = deadline(30 * MS);
            assert_pending!(deadline.poll());
            if once {
                assert!(handle.reset_after(20 * MS));
            }
            settle().await;
            move_the_clock_only(30 * MS);
            assert!(!act(&handle));
            assert!(deadline.is_woken(), "who finds out tells the waiter");
            assert_ready_eq!(deadline.poll(), Ok(()));
        }
    }
    assert_eq!(Timer::current().metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn set_timeout_counts_from_the_last_reset_and_leaves_a_due_set_once() {
    let start = Instant::now();
    let (first, handle) = deadline(100 * MS);
    sleep(30 * MS).await;
    assert!(handle.reset());
    sleep(10 * MS).await;
    assert!(handle.set_timeout(50 * MS));
    assert_eq!(handle.timeout(), 50 * MS);
    assert_eq!(handle.deadline(), Some(start + 80 * MS));
    assert!(handle.reset_after(500 * MS));
    assert_eq!(handle.deadline(), Some(start + 540 * MS));
    sleep(5 * MS).await;
    assert!(handle.set_timeout(20 * MS));
    assert_eq!(handle.deadline(), Some(start + 540 * MS), "it stands");
    sleep(5 * MS).await;
    assert!(handle.reset(), "from here on the new timeout counts");
    first.into_inner().await.unwrap();
    assert_eq!(start.elapsed(), 70 * MS);

    let (mut second, handle) = deadline(100 * MS);
    assert_pending!(second.poll());
    sleep(50 * MS).await;
    assert!(handle.set_timeout(20 * MS), "which has passed already");
    settle().await;
    assert!(second.is_woken());
    assert_ready_eq!(second.poll(), Ok(()));
    assert!(!handle.set_timeout(70 * MS));
    assert_eq!(handle.timeout(), 70 * MS, "holds from a restart on");
}

#[tokio::test(start_paused = true)]
async fn restart_arms_it_after_any_outcome_and_keeps_old_handles_good() {
    let (mut deadline, handle) = deadline(10 * MS);
    for end in ["expired", "cancelled", "pending"] {
        match end {
            "expired" => assert_eq!((&mut *deadline).await, Ok(())),
            "cancelled" => assert!(handle.cancel()),
            _ => sleep(5 * MS).await,
        }
        let start = Instant::now();
        deadline.restart();
        assert!(handle.is_pending());
        assert_pending!(deadline.poll());
        sleep(9 * MS).await;
        assert!(handle.reset());
        assert_eq!((&mut *deadline).await, Ok(()));
        assert_eq!(start.elapsed(), 19 * MS, "after {end}");
        deadline.restart();
    }
    assert_eq!(Timer::current().metrics().pending, 1);
}

#[tokio::test(start_paused = true)]
async fn the_longest_timeouts_saturate() {
    let (mut deadline, handle) = deadline(Duration::MAX);
    assert_eq!(handle.timeout(), Duration::MAX);
    assert_pending!(deadline.poll());
    assert!(
        handle.reset() && handle.reset_after(Duration::MAX) && handle.set_timeout(Duration::MAX)
    );
    assert!(handle.remaining().unwrap() > 100 * 365 * 24 * HOUR);
    sleep(100 * 365 * 24 * HOUR).await;
    assert!(handle.reset());
    assert_pending!(deadline.poll());
}

#[tokio::test(start_paused = true)]
async fn handles_outlive_their_deadline_and_its_timer() {
    let timer = Timer::new();
    let deadline = timer.deadline(10 * MS);
    let handle = deadline.handle();
    drop(timer);
    sleep(5 * MS).await;
    assert!(handle.clone().reset(), "what is pending lives on");
    let start = Instant::now();
    deadline.await.unwrap();
    assert_eq!(start.elapsed(), 10 * MS, "and fires");
    assert!(!handle.reset());
}

#[tokio::test(start_paused = true)]
async fn the_task_that_polled_last_is_the_one_that_is_woken() {
    let (deadline, handle) = deadline(HOUR);
    let mut deadline = deadline.into_inner();
    let (mut first, mut second) = (task::spawn(()), task::spawn(()));
    for waiter in [&mut first, &mut second] {
        waiter.enter(|cx, _| assert!(std::pin::Pin::new(&mut deadline).poll(cx).is_pending()));
    }
    handle.expire();
    assert!(!first.is_woken());
    assert!(second.is_woken());
}

#[tokio::test(start_paused = true)]
async fn every_keepalive_expires_once_a_timeout_after_its_last_reset() {
    let timer = Timer::builder().slots(2).build().unwrap();
    for phase in 0..5 {
        for timeout in 1..20 {
            for gap in 0..timeout {
                sleep(phase * MS).await;
                let deadline = timer.deadline(timeout * MS);
                let handle = deadline.handle();
                for _ in 0..3 {
                    sleep(gap * MS).await;
                    assert!(handle.reset());
                }
                let last_reset = Instant::now();
                deadline.await.unwrap();
                assert_eq!(last_reset.elapsed(), timeout * MS);
                assert!(!handle.reset());
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Advance(u32),
    Reset,
    ResetAfter(u32),
    ResetAt(i32),
    SetTimeout(u32),
    Cancel,
    Expire,
    Restart,
    Poll,
}

fn operation() -> impl Strategy<Value = Operation> {
    let span = || prop_oneof![4 => 0..12_u32, 1 => 0..200_u32, 1 => 0..100_000_u32];
    prop_oneof![
        8 => span().prop_map(Operation::Advance),
        6 => Just(Operation::Reset),
        3 => span().prop_map(Operation::ResetAfter),
        2 => (-50..200_i32).prop_map(Operation::ResetAt),
        2 => span().prop_map(Operation::SetTimeout),
        1 => Just(Operation::Cancel),
        1 => Just(Operation::Expire),
        1 => Just(Operation::Restart),
        4 => Just(Operation::Poll),
    ]
}

/// What a deadline must do, in whole milliseconds.
struct Model {
    timeout: u32,
    last_reset: Instant,
    /// The due was set by `reset_after` or `reset_at`.
    is_set_once: bool,
    /// `Ok` with the due while it is pending, `Err` with whether it has expired after.
    state: Result<Instant, bool>,
}

impl Model {
    /// The driver, and each poll, expire what is due.
    fn expire_if_due(&mut self) {
        if self.state.is_ok_and(|due| due <= Instant::now()) {
            self.state = Err(true);
        }
    }

    fn set_due(&mut self, due: Instant) -> bool {
        let pending = self.state.is_ok();
        if pending {
            self.state = Ok(due);
        }
        pending
    }

    fn end(&mut self, expired: bool) -> bool {
        let pending = self.state.is_ok();
        if pending {
            self.state = Err(expired);
        }
        pending
    }
}

async fn run(timeout: u32, slots: usize, operations: Vec<Operation>) {
    let timer = Timer::builder().slots(slots).build().unwrap();
    let mut deadline = task::spawn(timer.deadline(timeout * MS));
    let handle = deadline.handle();
    let now = Instant::now();
    let mut model = Model {
        timeout,
        last_reset: now,
        is_set_once: false,
        state: Ok(now + timeout * MS),
    };
    settle().await;
    model.expire_if_due();
    for operation in operations {
        let now = Instant::now();
        match operation {
            Operation::Advance(by) => tokio::time::advance(by * MS).await,
            Operation::Reset => {
                let moved = model.set_due(now + model.timeout * MS);
                assert_eq!(handle.reset(), moved);
                if moved {
                    model.last_reset = now;
                    model.is_set_once = false;
                }
            }
            Operation::ResetAfter(delay) => {
                let moved = model.set_due(now + delay * MS);
                assert_eq!(handle.reset_after(delay * MS), moved);
                if moved {
                    model.is_set_once = true;
                }
            }
            Operation::ResetAt(offset) => {
                let offset_length = offset.unsigned_abs() * MS;
                let at = if offset < 0 {
                    now - offset_length
                } else {
                    now + offset_length
                };
                // What lies before the timer's epoch counts as the epoch: both have passed.
                let moved = model.set_due(at);
                assert_eq!(handle.reset_at(at), moved);
                if moved {
                    model.is_set_once = true;
                }
            }
            Operation::SetTimeout(timeout) => {
                model.timeout = timeout;
                let due = match model.state {
                    Ok(due) if model.is_set_once => due,
                    _ => model.last_reset + timeout * MS,
                };
                let moved = model.set_due(due);
                assert_eq!(handle.set_timeout(timeout * MS), moved);
            }
            Operation::Cancel => assert_eq!(handle.cancel(), model.end(false)),
            Operation::Expire => assert_eq!(handle.expire(), model.end(true)),
            Operation::Restart => {
                deadline.restart();
                model.last_reset = now;
                model.is_set_once = false;
                model.state = Ok(now + model.timeout * MS);
            }
            Operation::Poll => {}
        }
        if matches!(operation, Operation::Poll) {
            model.expire_if_due();
        } else {
            // A due that has passed expires at the driver's next turn.
            settle().await;
            model.expire_if_due();
        }
        assert_eq!(handle.is_pending(), model.state.is_ok());
        assert_eq!(handle.deadline(), model.state.ok());
        assert_eq!(timer.metrics().pending, usize::from(model.state.is_ok()));
        assert_eq!(handle.timeout(), model.timeout * MS);
        match (deadline.poll(), model.state) {
            (std::task::Poll::Pending, Ok(_)) => {}
            (std::task::Poll::Ready(result), Err(expired)) => assert_eq!(result.is_ok(), expired),
            (polled, expected) => panic!("polled {polled:?}, expected {expected:?}"),
        }
    }
    if let Ok(due) = model.state {
        assert_eq!(deadline.into_inner().await, Ok::<(), Cancelled>(()));
        assert_eq!(Instant::now(), due, "auto-advance jumps to the deadline");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn a_deadline_does_what_its_model_does(
        timeout in 0..50_u32,
        slots in prop_oneof![Just(64_usize), Just(2)],
        operations in proptest::collection::vec(operation(), 0..60),
    ) {
        let runtime = paused();
        runtime.block_on(run(timeout, slots, operations));
    }
}
