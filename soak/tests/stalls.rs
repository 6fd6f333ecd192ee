//! Stalls do not count: a deadline that comes due while the driver cannot run does not end before
//! the heartbeats that lie unread can be read.
//!
//! Each stall is made by blocking the only thread of a runtime for much longer than the 50 ms that
//! make a stall. A longer stall gives a longer grace, so most of what is held here holds however
//! late the machine is, and a grace that has to be over is awaited. The rest is held within a time.
//! Where the machine has taken longer, the try has shown nothing, and twenty such tries fail the
//! test.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Wake, Waker};
use std::thread;

use tickwheel::warn_before::{Stage, WarnBefore};
use tickwheel::{
    Deadline, DeadlineMap, Duration, Instant, ResetHandle, Sleep, Timer, timer::Builder,
};
use tokio::runtime::Runtime;

use crate::common::{
    HOUR, MS, arm, current_thread, is_shown_in, multi_thread, poll_once, poll_with,
};

/// `None` if the machine was so slow that it has shown nothing.
type Try = Option<()>;

/// Call this after what was seen, and before it is judged.
fn within(most: Duration, start: Instant) -> Try {
    (start.elapsed() < most).then_some(())
}

/// Tries until something was shown.
fn conclude(mut attempt: impl FnMut() -> Try) {
    let is_shown = is_shown_in(20, || attempt().is_some());
    assert!(is_shown, "inconclusive: the machine is too slow");
}

/// Runs a test on the only thread that can turn the wheels, in each flavour.
fn on_the_only_thread<F>(test: impl Fn(Timer) -> F)
where
    F: Future<Output = Try> + Send + 'static,
{
    on_timers(Timer::builder(), test);
}

/// As `on_the_only_thread`, with timers of these settings.
fn on_timers<F>(builder: Builder, test: impl Fn(Timer) -> F)
where
    F: Future<Output = Try> + Send + 'static,
{
    for make in [|| multi_thread(1), current_thread as fn() -> Runtime] {
        conclude(|| {
            let runtime = make();
            let timer = builder.clone().build_on(runtime.handle()).unwrap();
            let task = runtime.spawn(test(timer));
            runtime.block_on(task).unwrap()
        });
    }
}

/// Nothing but this runs on the thread meanwhile.
fn stall() {
    thread::sleep(400 * MS);
}

/// As `stall`, where the driver has had something to do from the beginning on. So the grace of what
/// passes after 200 ms lasts for some 200 ms after it.
fn early_stall(timer: &Timer) -> Sleep {
    loop {
        let mut early = timer.sleep(10 * MS);
        if poll_once(&mut early).is_pending() {
            stall();
            return early;
        }
    }
}

/// A deadline that passes within `stall`, and its handle. The driver knows of it.
async fn short_deadline(timer: &Timer) -> (Deadline, ResetHandle) {
    let mut deadline = timer.deadline(200 * MS);
    assert!(poll_once(&mut deadline).is_pending());
    let handle = deadline.handle();
    (deadline, handle)
}

/// As `short_deadline`, with a warning that passes within `stall` too.
fn warned_deadline(timer: &Timer) -> (WarnBefore<Deadline>, ResetHandle) {
    let idle = timer.deadline(200 * MS);
    let handle = idle.handle();
    let mut idle = idle.warn_before(100 * MS);
    assert!(poll_once(&mut Box::pin(idle.wait())).is_pending());
    (idle, handle)
}

/// The driver comes by, and settles what it settles.
async fn let_the_driver_turn(timer: &Timer) {
    timer.sleep(2 * MS).await;
}

/// The timeout was as long as can be, so an eighth of it is six days. In a grace no time is left.
#[test]
fn a_warning_in_a_grace_misses_no_shorter_timeout() {
    on_the_only_thread(|timer| async move {
        let idle = timer.deadline(Duration::MAX);
        let handle = idle.handle();
        assert!(handle.reset_after(200 * MS));
        let mut idle = idle.warn_before(Duration::MAX);
        stall();
        assert_eq!(idle.wait().await, Ok(Stage::Warning));
        assert!(poll_once(&mut Box::pin(idle.wait())).is_pending());
        let task = tokio::spawn(async move { idle.wait().await });
        tokio::task::yield_now().await;
        // The due becomes later, so the call wakes no task.
        assert!(handle.set_timeout(1000 * MS) && handle.reset());
        assert_eq!(task.await.unwrap(), Ok(Stage::Warning));
        Some(())
    });
}

#[test]
fn a_stall_over_the_grace_and_the_end_gives_the_warning_first() {
    on_the_only_thread(|timer| async move {
        let (mut idle, handle) = warned_deadline(&timer);
        stall();
        assert_eq!(idle.wait().await, Ok(Stage::Warning));
        assert!(handle.reset(), "the pong lay unread in the socket");
        assert_eq!(idle.wait().await, Ok(Stage::Warning));
        assert_eq!(idle.wait().await, Ok(Stage::Expired));
        Some(())
    });
}

#[test]
fn a_poll_or_a_reset_after_a_stall_finds_the_deadline_pending() {
    on_the_only_thread(|timer| async move {
        let (mut polled, handle) = short_deadline(&timer).await;
        let (reset, reset_handle) = short_deadline(&timer).await;
        let reported = handle.deadline().unwrap();
        stall();
        assert!(reported < Instant::now());
        assert!(poll_once(&mut polled).is_pending());
        assert!(handle.is_pending());
        assert_eq!(
            handle.deadline(),
            Some(reported),
            "it does not change by itself"
        );
        assert_eq!(handle.remaining(), Some(Duration::ZERO));
        assert!(reset_handle.reset());
        assert!(reset_handle.deadline().unwrap() > Instant::now());
        assert_eq!(
            timer.metrics().spared(),
            1,
            "the reset came before the turn"
        );
        drop(reset);
        Some(())
    });
}

#[test]
fn the_late_turn_leaves_the_deadline_pending_for_a_grace() {
    on_the_only_thread(|timer| async move {
        let (mut live, handle) = short_deadline(&timer).await;
        let (silent, _) = short_deadline(&timer).await;
        let stopped = Instant::now();
        let _early = early_stall(&timer);
        let went_on = Instant::now();
        let_the_driver_turn(&timer).await;
        let is_pending = poll_once(&mut live).is_pending();
        // It has passed all the same. The driver does not come to it before its grace is over.
        let is_pending = is_pending && handle.set_timeout(250 * MS);
        let_the_driver_turn(&timer).await;
        let is_reset = handle.reset() && handle.is_pending();
        within(150 * MS, went_on)?; // of a grace of 200 ms
        assert!(is_pending);
        assert!(is_reset, "a heartbeat in the grace is in time");
        let metrics = timer.metrics();
        assert_eq!(metrics.spared(), 2, "each once");
        assert!(metrics.stalls() >= 1 && metrics.stalled() >= 100 * MS);
        assert_eq!(silent.await, Ok(()));
        assert!(
            stopped.elapsed() >= 400 * MS + 180 * MS,
            "its due, and the length of the stall"
        );
        within(750 * MS, stopped)?;
        let late = timer.metrics().fired_lateness_sum() - metrics.fired_lateness_sum();
        assert!(late < 200 * MS, "{late:?} after its grace");
        Some(())
    });
}

#[test]
fn a_deadline_is_spared_once_between_two_resets() {
    on_the_only_thread(|timer| async move {
        let (mut deadline, handle) = short_deadline(&timer).await;
        stall();
        let_the_driver_turn(&timer).await;
        stall(); // The grace ends within this.
        let outcome = poll_once(&mut deadline);
        assert!(outcome.is_ready(), "no second grace");
        assert!(!handle.reset());
        deadline.restart();
        stall();
        assert!(poll_once(&mut deadline).is_pending(), "it was reset");
        Some(())
    });
}

#[test]
fn a_deadline_moved_into_the_past_expires_in_a_grace_too() {
    on_the_only_thread(|timer| async move {
        let start = Instant::now();
        let (by_instant, handle) = short_deadline(&timer).await;
        let long = timer.deadline(HOUR);
        let long_handle = long.handle();
        let _early = early_stall(&timer);
        let_the_driver_turn(&timer).await;
        let passed = start + 300 * MS; // Within the stall.
        let is_moved = handle.reset_at(passed);
        within(550 * MS, start)?;
        assert!(is_moved, "it was in its grace");
        assert!(!handle.is_pending(), "an instant that has passed");
        assert_eq!(by_instant.await, Ok(()));
        assert!(long_handle.reset_at(passed));
        assert_eq!(long.await, Ok(()));
        let (expired, handle) = short_deadline(&timer).await;
        assert!(handle.set_timeout(Duration::ZERO));
        assert_eq!(expired.await, Ok(()), "with the next tick");
        assert_eq!(timer.deadline(Duration::ZERO).await, Ok(()));
        within(750 * MS, start)
    });
}

/// As `in_a_grace`, before the driver has come and after.
fn in_each_grace(is_right: fn(&ResetHandle, &DeadlineMap<u8>) -> bool) {
    for has_turned in [false, true] {
        in_a_grace(has_turned, is_right);
    }
}

/// Makes a deadline that a stall gives a grace, and calls `is_right` on it.
fn in_a_grace(has_turned: bool, is_right: fn(&ResetHandle, &DeadlineMap<u8>) -> bool) {
    on_the_only_thread(|timer| async move {
        let map = DeadlineMap::new(&timer);
        let mut keyed = map.insert(1, 200 * MS).unwrap();
        assert!(poll_once(&mut keyed).is_pending());
        let _early = early_stall(&timer);
        let went_on = Instant::now();
        if has_turned {
            let_the_driver_turn(&timer).await;
        }
        let is_right = is_right(&keyed.handle(), &map);
        within(150 * MS, went_on)?; // of a grace of 200 ms
        assert!(is_right, "its grace is another, turned: {has_turned}");
        Some(())
    });
}

#[test]
fn in_its_grace_a_deadline_is_moved_as_a_call_says() {
    // A timeout that is no shorter ends nothing.
    in_each_grace(|handle, _| handle.set_timeout(200 * MS) && handle.reset());
    in_each_grace(|handle, map| handle.set_timeout(250 * MS) && map.reset(&1));
    in_each_grace(|handle, _| handle.set_timeout(400 * MS) && handle.reset());
    // An extension counts from now, and is rounded up to its tick.
    in_each_grace(|handle, _| {
        let before = Instant::now();
        let is_extended = handle.extend(HOUR);
        let (due, left) = (handle.deadline(), handle.remaining());
        assert!(due.is_none_or(|due| due >= before + HOUR));
        assert!(left.is_none_or(|left| left < HOUR + MS));
        is_extended && left.is_some()
    });
    in_each_grace(|handle, _| handle.extend(Duration::ZERO) && handle.reset());
    // One that ends before the grace does leaves the deadline its grace, as long as the stall.
    in_each_grace(|handle, _| {
        let before = handle.deadline();
        let is_extended = handle.extend(105 * MS);
        is_extended && handle.deadline() >= before.map(|due| due + 380 * MS)
    });
    // A shorter one ends the grace when it has passed.
    in_a_grace(true, |handle, _| {
        let is_set = handle.set_timeout(60 * MS);
        thread::sleep(62 * MS);
        is_set && !handle.is_pending()
    });
    // A reset that counts from before the stall moves nothing, or no further than its grace.
    in_each_grace(|handle, _| {
        let long_ago = Instant::now() - 550 * MS;
        handle.reset_from(long_ago) && handle.is_pending()
    });
    in_each_grace(|_, map| {
        let is_reset = map.reset_from(&1, Instant::now() - 199 * MS);
        is_reset && map.handle(&1).is_some_and(|handle| handle.is_pending())
    });
    in_each_grace(|handle, _| handle.extend(Duration::MAX) && handle.is_pending());
}

/// An extension, and a renewal that was sent before the stall and was answered after it.
#[test]
fn what_is_due_soon_after_a_stall_keeps_its_grace() {
    on_the_only_thread(|timer| async move {
        // The driver knows of the stall by this one.
        let (_first, _) = short_deadline(&timer).await;
        let made = Instant::now();
        let deadlines = [450, 450, 390].map(|due| timer.deadline(due * MS));
        let [extended, in_time, passed] = deadlines.each_ref().map(Deadline::handle);
        let map = DeadlineMap::new(&timer);
        let _keyed = map.insert(1, 390 * MS).unwrap();
        stall();
        let_the_driver_turn(&timer).await;
        // All would be due some 530 ms after they were made, and too late for a grace.
        let is_extended = extended.extend(80 * MS);
        let are_reset = in_time.reset_from(made + 80 * MS)
            && passed.reset_from(made + 140 * MS)
            && map.reset_from(&1, made + 140 * MS);
        within(430 * MS, made)?;
        // By key too, it counts from the sending and not from now, which would be 790 ms after it
        // was made. Its grace is over by 630 ms.
        let due = map.handle(&1).and_then(|handle| handle.deadline());
        assert!(due.is_some_and(|due| due < made + 700 * MS), "{due:?}");
        timer.sleep_until(made + 560 * MS).await;
        let are_kept = [extended, in_time, passed].map(|handle| handle.is_pending());
        within(570 * MS, made)?;
        assert!(is_extended && are_reset);
        assert_eq!(are_kept, [true; 3]);
        Some(())
    });
}

#[test]
fn a_deadline_set_to_100_ms_after_a_stall_is_due_then() {
    on_the_only_thread(|timer| async move {
        let (deadline, handle) = short_deadline(&timer).await;
        stall();
        let went_on = Instant::now();
        let_the_driver_turn(&timer).await;
        let reset = Instant::now();
        let is_reset = handle.reset_after(100 * MS);
        within(90 * MS, went_on)?; // of a grace of 100 ms
        thread::sleep(101 * MS);
        let is_pending = handle.is_pending();
        within(140 * MS, reset)?; // or there is a stall of its own
        assert!(is_reset && !is_pending, "the grace is not for this");
        assert_eq!(deadline.await, Ok(()));
        Some(())
    });
}

#[test]
fn stalls_that_are_counted_give_no_grace() {
    on_timers(Timer::builder().stall_grace(false), |timer| async move {
        let (mut lease, handle) = short_deadline(&timer).await;
        let (late, _) = short_deadline(&timer).await;
        // What is left for the driver to come late to.
        let mut sleep = timer.sleep(100 * MS);
        assert!(poll_once(&mut sleep).is_pending());
        stall();
        assert!(!handle.reset() && !handle.is_pending());
        assert_eq!(poll_once(&mut lease), std::task::Poll::Ready(Ok(())));
        assert_eq!(late.await, Ok(()));
        sleep.await;
        let metrics = timer.metrics();
        assert_eq!(metrics.spared(), 0);
        assert!(metrics.stalls() >= 1);
        Some(())
    });
}

#[test]
fn a_timer_that_is_used_again_after_a_while_has_not_stalled() {
    on_the_only_thread(|timer| async move {
        let start = Instant::now();
        timer.sleep(20 * MS).await;
        tokio::time::sleep(200 * MS).await;
        timer.sleep(20 * MS).await;
        within(285 * MS, start)?; // or it stalls by itself
        assert_eq!(timer.metrics().stalls(), 0);
        Some(())
    });
}

#[test]
fn a_sleep_set_to_the_past_on_an_idle_timer_is_no_stall() {
    on_the_only_thread(|timer| async move {
        let start = Instant::now();
        tokio::time::sleep(20 * MS).await;
        let past = Instant::now();
        // No turn is made meanwhile.
        tokio::time::sleep(600 * MS).await;
        let mut sleep = timer.sleep(HOUR);
        assert!(poll_once(&mut sleep).is_pending());
        sleep.reset_at(past);
        sleep.await;
        let_the_driver_turn(&timer).await;
        within(1_000 * MS, start)?;
        let metrics = timer.metrics();
        assert!(metrics.stalled() < 500 * MS, "{metrics:?}");
        assert!(metrics.fired_lateness_sum() < 500 * MS, "{metrics:?}");
        Some(())
    });
}

/// The first heartbeat that is caught up with moves the alarm that was overdue.
#[test]
fn a_reset_after_a_stall_hides_it_from_no_other_deadline() {
    for is_dropped in [false, true] {
        on_the_only_thread(|timer| async move {
            let first = timer.deadline(200 * MS);
            let second = timer.deadline(380 * MS);
            let third = timer.deadline(380 * MS);
            let handle = first.handle();
            stall();
            if is_dropped {
                drop(first);
            } else {
                assert!(handle.reset());
            }
            assert!(second.handle().reset());
            let went_on = Instant::now();
            let_the_driver_turn(&timer).await;
            let is_pending = third.handle().is_pending();
            within(150 * MS, went_on)?; // of a grace of 180 ms
            assert!(is_pending, "dropped: {is_dropped}");
            Some(())
        });
    }
}

/// What waited is due later now. On a clock that can be paused no turn comes for it any more.
#[test]
fn a_stall_lasts_until_what_was_overdue_is_put_off() {
    on_the_only_thread(|timer| async move {
        let start = Instant::now();
        let (deadline, handle) = short_deadline(&timer).await;
        stall();
        let is_reset = handle.reset();
        let longest = start.elapsed() - 200 * MS;
        let again = Instant::now();
        assert_eq!(deadline.await, Ok(()));
        let late = again.elapsed().saturating_sub(200 * MS);
        let metrics = timer.metrics();
        within(300 * MS, again)?; // or it was spared once more
        assert!(is_reset && metrics.stalls() >= 1, "{metrics:?}");
        assert!(
            metrics.stalled() <= longest + late,
            "{longest:?} {late:?} {metrics:?}"
        );
        Some(())
    });
}

/// The waker of a sleep holds the driver up in its turn. It knows of one deadline before that, and
/// learns of the other only after it.
#[test]
fn deadlines_that_pass_while_a_turn_is_held_up_are_spared() {
    struct Blocks(Sender<()>);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
            thread::sleep(600 * MS);
        }
    }
    let runtime = multi_thread(1);
    let own = Timer::builder().build_on(runtime.handle()).unwrap();
    for timer in [own, Timer::global().clone()] {
        conclude(|| {
            let (begun, begins) = channel();
            let known = timer.deadline(200 * MS);
            let mut sleep = timer.sleep(20 * MS);
            arm(&mut sleep, &Waker::from(Arc::new(Blocks(begun))));
            begins.recv().unwrap();
            let held_up = Instant::now();
            let new = timer.deadline(200 * MS);
            thread::sleep(620 * MS);
            let are_in_time = [known, new].map(|deadline| deadline.handle().reset());
            within(750 * MS, held_up)?; // The grace is 200 ms from when the driver is free.
            assert_eq!(are_in_time, [true; 2]);
            Some(())
        });
    }
}

/// tokio lets an alarm fire within the call that sets it to the past. The stall goes on.
#[test]
fn a_sleep_that_is_reset_to_the_past_does_not_end_a_stall() {
    conclude(|| {
        let runtime = multi_thread(1);
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let mut sleep = timer.sleep(HOUR);
        arm(&mut sleep, Waker::noop());
        let before = Instant::now();
        let (begun, begins) = channel();
        runtime.spawn(async move {
            // tokio's time driver works up to a tick after `before`.
            tokio::time::sleep(20 * MS).await;
            begun.send(Instant::now()).unwrap();
            thread::sleep(1_000 * MS);
        });
        let begun = begins.recv().unwrap();
        let deadline = timer.deadline(100 * MS);
        thread::sleep(200 * MS);
        sleep.reset_at(before);
        thread::sleep(250 * MS);
        // Within the block, and more than 50 ms after its due.
        let is_in_time = deadline.handle().reset();
        within(950 * MS, begun)?;
        assert!(is_in_time);
        Some(())
    });
}

#[test]
fn sleeps_timeouts_and_delayed_values_know_no_grace() {
    on_the_only_thread(|timer| async move {
        let mut sleep = timer.sleep(200 * MS);
        let mut timeout = Box::pin(timer.timeout(200 * MS, std::future::pending::<()>()));
        let (map, mut expired) = tickwheel::DelayMap::new(&timer);
        assert!(poll_once(&mut sleep).is_pending());
        assert!(poll_once(&mut timeout).is_pending());
        map.insert(1, (), 200 * MS).unwrap();
        stall();
        assert!(expired.try_recv().is_ok());
        sleep.await;
        assert!(timeout.await.is_err());
        Some(())
    });
}

/// A message comes each 200 ms, and those of the stop lie unread.
#[test]
fn a_stop_closes_no_live_connection_on_a_coarse_tick() {
    on_timers(Timer::builder().tick(100 * MS), |timer| async move {
        let deadline = timer.deadline(1_000 * MS);
        let handle = deadline.handle();
        tokio::time::sleep(200 * MS).await;
        assert!(handle.reset());
        thread::sleep(1_500 * MS);
        let went_on = Instant::now();
        tokio::time::sleep(2 * MS).await; // The driver comes by.
        let is_in_time = handle.reset();
        within(90 * MS, went_on)?;
        assert!(is_in_time);
        Some(())
    });
}

/// Wakers that work, none of them for long, take 150 ms together.
#[test]
fn the_time_of_a_turn_itself_is_no_stall() {
    struct Works;
    impl Wake for Works {
        fn wake(self: Arc<Self>) {
            let begun = Instant::now();
            while begun.elapsed() < MS / 120 {}
        }
    }
    on_the_only_thread(|timer| async move {
        let waker = Waker::from(Arc::new(Works));
        let due = Instant::now() + 600 * MS;
        let mut sleeps: Vec<_> = (0..18_000).map(|_| timer.sleep_until(due)).collect();
        let is_armed = |sleep: &mut Sleep| poll_with(sleep, &waker).is_pending();
        // One that is ready was armed too late.
        sleeps.iter_mut().all(is_armed).then_some(())?;
        // In the turn after that.
        timer.sleep_until(due + 10 * MS).await;
        let by_the_machine = due.elapsed().saturating_sub(150 * MS);
        let stalled = timer.metrics().stalled();
        // As long as the turn's own time would be seen.
        within(1_700 * MS, due)?;
        // The machine may have stopped the turn for all of that, each time in a batch of a
        // millisecond or two.
        assert!(stalled <= by_the_machine * 15 / 14 + 20 * MS, "{stalled:?}");
        Some(())
    });
}
