//! Readings, windows and what is told, on the system's clock and on a paused one.
//!
//! Invariant: no test asserts that something was fast. With ticks of an hour the driver is in time.
//! With an epoch in the past and short ticks it is late.

use std::thread;

use super::*;
use crate::time::due::StampedDue;
use crate::time::tick::Span;

const HOUR: Duration = Duration::from_secs(60 * 60);
const MILLISECOND: Duration = Duration::from_millis(1);

/// How long ago the epoch of the system's clock is here. A machine has been up for that long.
const PAST: Duration = Duration::from_secs(1);

/// The system's clock, whose epoch lies in the past.
fn system(tick: Duration) -> Clock {
    let tick = TickLength::new(tick).unwrap();
    let epoch = system_now().checked_sub(PAST).unwrap();
    Clock::from(Source::System, tick, epoch)
}

/// The clock of the current runtime, which begins now.
fn of_runtime() -> Clock {
    let tick = TickLength::new(MILLISECOND).unwrap();
    Clock::new(&Handle::current(), tick, Instant::now())
}

fn after_epoch(nanos: u64) -> Moment {
    Moment::after_epoch(Duration::from_nanos(nanos))
}

fn stamped(stamp: u64, ticks: u64) -> StampedDue {
    StampedDue::new(Stamp::of(stamp), ticks)
}

#[test]
fn a_stamp_is_what_was_published_last() {
    let clock = system(HOUR);
    assert_eq!(clock.stamp(), None);
    clock.publish(Some(0));
    assert_eq!(clock.stamp(), Some(Stamp::of(0)));
    clock.publish(Some(7));
    assert_eq!(clock.stamp(), Some(Stamp::of(7)));
    clock.publish(None);
    assert_eq!(clock.stamp(), None);
}

#[test]
fn readings_do_not_go_back() {
    let clock = system(MILLISECOND);
    let mut last = clock.now();
    assert!(last >= Moment::after_epoch(PAST));
    for _ in 0..1_000 {
        let now = clock.now();
        assert!(now >= last);
        last = now;
    }
}

#[test]
fn an_exact_due_passes_at_its_moment() {
    let clock = system(MILLISECOND);
    let due = Due::At(after_epoch(1_000));
    assert!(!clock.has_passed(due, after_epoch(999)));
    assert!(clock.has_passed(due, after_epoch(1_000)));
    assert!(clock.has_passed_by(due, Start::At(after_epoch(1_000))));
}

#[test]
fn a_due_by_an_open_window_is_not_known() {
    let clock = system(MILLISECOND);
    clock.publish(Some(3));
    let due = stamped(3, 10);
    assert_eq!(clock.log().true_due(due), None);
    assert_eq!(clock.log().window_end(due.stamp), None);
    // To publish the same tick again keeps the window open.
    clock.publish(Some(3));
    assert_eq!(clock.log().true_due(due), None);
    assert!(!clock.has_passed(Due::Stamped(due), Moment::MAX));
    assert!(!clock.is_due_now(Due::Stamped(due)));
}

#[test]
fn a_window_that_ends_in_time_leaves_the_due_where_it_is() {
    let clock = system(HOUR);
    clock.publish(Some(0));
    clock.publish(Some(1));
    let due = stamped(0, 10);
    assert_eq!(clock.log().window_end(due.stamp), Some(2));
    assert_eq!(clock.log().true_due(due), Some(due.scheduled_tick));
    let passes_at = clock.tick().start_of(due.scheduled_tick);
    assert!(!clock.has_passed(Due::Stamped(due), passes_at.just_before()));
    assert!(clock.has_passed(Due::Stamped(due), passes_at));
}

#[test]
fn a_window_that_ends_late_moves_the_due_by_that() {
    let clock = system(MILLISECOND);
    clock.publish(Some(0));
    let before = clock.now();
    clock.publish(None);
    let after = clock.now();
    let end = clock.log().window_end(Stamp::of(0)).unwrap();
    assert!(clock.tick().due(before) <= end && end <= clock.tick().due(after));
    assert_eq!(clock.log().true_due(stamped(0, 10)), Some(end + 10));
    let due = Due::Stamped(stamped(0, 10));
    let passes_at = clock.tick().start_of(end + 10);
    assert!(!clock.has_passed(due, passes_at.just_before()));
    assert!(clock.has_passed(due, passes_at));
}

#[test]
fn of_two_windows_of_a_stamp_the_later_end_counts() {
    let clock = system(MILLISECOND);
    clock.publish(Some(0));
    clock.publish(None);
    clock.publish(Some(0));
    assert_eq!(clock.log().window_end(Stamp::of(0)), None, "open again");
    let before = clock.now();
    clock.publish(None);
    let end = clock.log().window_end(Stamp::of(0)).unwrap();
    assert!(clock.tick().due(before) <= end);
}

#[test]
fn by_a_stamp_a_due_passes_when_the_driver_has_come_to_it() {
    let clock = system(MILLISECOND);
    let due = Due::At(after_epoch(5_000_000));
    assert!(!clock.has_passed_by(due, Start::Stamp(Stamp::of(4))));
    assert!(clock.has_passed_by(due, Start::Stamp(Stamp::of(5))));
    // The stamp is ahead of the clock. Then the clock tells.
    let ahead = Due::At(Moment::after_epoch(1_000 * HOUR));
    assert!(!clock.has_passed_by(ahead, Start::Stamp(Stamp::of(u64::MAX / 2))));
}

#[test]
fn what_is_told_lies_between_the_call_and_the_true_due() {
    let clock = system(MILLISECOND);
    clock.publish(Some(0));
    let ten_ticks = Span::from(10 * MILLISECOND);
    let due = stamped(0, 10);
    let call = clock.now();
    let told_early = clock.reported_start(due.stamp);
    clock.publish(None);
    let told_late = clock.reported_start(due.stamp);
    let true_due = clock.log().true_due(due).unwrap();
    for told in [told_early, told_late].map(|start| start.after(ten_ticks)) {
        assert!(told >= call.after(ten_ticks));
        assert!(told <= clock.tick().start_of(true_due));
    }
}

#[test]
fn what_is_told_after_the_window_counts_from_its_end() {
    let clock = system(MILLISECOND);
    clock.publish(Some(0));
    clock.publish(None);
    let end = clock.log().window_end(Stamp::of(0)).unwrap();
    let end = clock.tick().start_of(end);
    while clock.now() < end {
        thread::yield_now();
    }
    assert_eq!(clock.reported_start(Stamp::of(0)), end);
}

#[test]
fn ticking_that_is_wanted_is_taken_once() {
    let clock = system(MILLISECOND);
    assert!(!clock.take_ticking_wanted());
    clock.want_ticking();
    clock.want_ticking();
    assert!(clock.take_ticking_wanted());
    assert!(!clock.take_ticking_wanted());
}

#[test]
fn instants_and_moments_turn_into_each_other() {
    let clock = system(MILLISECOND);
    for instant in [
        clock.epoch,
        clock.epoch + HOUR,
        clock.epoch.checked_sub(MILLISECOND).unwrap(),
    ] {
        assert_eq!(clock.instant(clock.moment(instant)), instant);
    }
    assert!(clock.instant(Moment::MAX) > clock.epoch + HOUR);
    assert!(clock.long_ago() < clock.epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_multi_thread_runtime_has_the_systems_clock() {
    let clock = of_runtime();
    assert!(!clock.is_pausable() && !clock.is_virtual() && !clock.was_virtual());
}

#[tokio::test]
async fn a_clock_is_virtual_for_ever_after_a_pause() {
    let clock = of_runtime();
    assert!(clock.is_pausable() && !clock.is_virtual() && !clock.was_virtual());
    tokio::time::pause();
    tokio::time::advance(HOUR).await;
    assert!(clock.is_virtual());
    tokio::time::resume();
    assert!(clock.is_virtual() && clock.was_virtual());
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_reads_the_same_on_every_thread() {
    let clock = of_runtime();
    assert_eq!(clock.now(), Moment::EPOCH);
    tokio::time::advance(5 * MILLISECOND).await;
    let here = clock.now();
    assert_eq!(here, Moment::after_epoch(5 * MILLISECOND));
    assert_eq!(clock.current_tick(), 5);
    let elsewhere = thread::scope(|scope| scope.spawn(|| clock.now()).join().unwrap());
    assert_eq!(elsewhere, here);
}

#[tokio::test(start_paused = true)]
async fn on_a_paused_clock_a_due_waits_for_its_tick() {
    let clock = of_runtime();
    let due = Due::At(after_epoch(500_000));
    tokio::time::advance(Duration::from_micros(600)).await;
    assert!(clock.has_passed(due, clock.now()));
    assert!(!clock.is_due_now(due), "its tick has not begun");
    tokio::time::advance(Duration::from_micros(400)).await;
    assert!(clock.is_due_now(due));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_stopped_stands_still() {
    let clock = of_runtime();
    clock.publish(Some(0));
    tokio::time::advance(3 * MILLISECOND).await;
    let stopped = clock.stop();
    assert_eq!(stopped, Moment::after_epoch(3 * MILLISECOND));
    assert_eq!(clock.stamp(), None);
    tokio::time::advance(HOUR).await;
    assert_eq!(clock.now(), stopped);
    assert_eq!(clock.stop(), stopped);
    let elsewhere = thread::scope(|scope| scope.spawn(|| clock.now()).join().unwrap());
    assert_eq!(elsewhere, stopped);
}

#[tokio::test(start_paused = true)]
async fn an_instant_lies_ahead_until_the_clock_has_come_to_it() {
    let clock = of_runtime();
    let instant = Instant::now() + MILLISECOND;
    assert_eq!(clock.is_ahead(instant), Some(true));
    tokio::time::advance(MILLISECOND).await;
    assert_eq!(clock.is_ahead(instant), Some(false));
}

#[test]
fn the_callers_clock_is_known_without_a_reading() {
    let build = |mut builder: tokio::runtime::Builder| builder.enable_time().build().unwrap();
    let current_thread = || build(tokio::runtime::Builder::new_current_thread());
    let (one, other) = (current_thread(), current_thread());
    let several = build(tokio::runtime::Builder::new_multi_thread());

    let system = system(MILLISECOND);
    let of_one = one.block_on(async { of_runtime() });
    assert!(system.is_callers() && !of_one.is_callers(), "outside");
    let known = async || (system.is_callers(), of_one.is_callers());
    assert_eq!(several.block_on(known()), (true, false));
    assert_eq!(one.block_on(known()), (false, true));
    assert_eq!(other.block_on(known()), (false, false));
    of_one.stop();
    assert_eq!(one.block_on(known()), (false, false), "it stands still");
}
