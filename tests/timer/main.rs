//! The timer itself: its making, its errors, its runtimes and their end, and the driver's life.

#[path = "../common/mod.rs"]
mod common;

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

use tickwheel::error::BuildError;
use tickwheel::{Deadline, Duration, Instant, Timer, interval, sleep, timeout};
use tokio::runtime::{self, Handle, Runtime};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, current_thread, idle_for_a_moment, multi_thread, paused};

thread_local! {
    /// Message and place of the last panic, while this thread asks for them.
    static CAPTURED: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Runs `misuse` and gives the message and the place of its panic.
fn panic_of<R>(misuse: impl FnOnce() -> R) -> (String, String) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if CAPTURED.with_borrow(Option::is_none) {
                return default(info);
            }
            let message = info.to_string();
            let place = info
                .location()
                .map(|at| format!("{}:{}", at.file(), at.line()))
                .unwrap_or_default();
            CAPTURED.set(Some((message, place)));
        }));
    });
    CAPTURED.set(Some(Default::default()));
    let outcome = catch_unwind(AssertUnwindSafe(misuse));
    let captured = CAPTURED.take().unwrap_or_default();
    assert!(outcome.is_err(), "it should have panicked");
    captured
}

/// Asserts that an expression panics on its own line, with a message that holds a text.
macro_rules! assert_panics_here {
    ($text:literal, $misuse:expr) => {{
        let line = line!();
        let (message, place) = panic_of(|| $misuse);
        assert!(message.contains($text), "{message}");
        assert_eq!(place, format!("{}:{line}", file!()));
    }};
}

#[test]
fn a_setting_out_of_range_is_an_error_that_names_it() {
    let runtime = current_thread();
    let build = |builder: tickwheel::Builder| builder.build_on(runtime.handle()).map(drop);
    let tick = Timer::builder().tick(Duration::ZERO);
    assert_eq!(build(tick), Err(BuildError::ZeroTick));
    let tick = Timer::builder().tick(HOUR + Duration::from_nanos(1));
    assert_eq!(
        build(tick),
        Err(BuildError::TickTooLong {
            tick: HOUR + Duration::from_nanos(1)
        })
    );
    assert_eq!(
        build(Timer::builder().shards(0)),
        Err(BuildError::ZeroShards)
    );
    let shards = Timer::builder().shards(1_025);
    assert_eq!(
        build(shards),
        Err(BuildError::TooManyShards { shards: 1_025 })
    );
    let shards = Timer::builder().shards(usize::MAX);
    assert_eq!(
        build(shards),
        Err(BuildError::TooManyShards { shards: usize::MAX })
    );
    assert_eq!(
        Timer::builder().build().map(drop),
        Err(BuildError::NoRuntime)
    );
    assert_eq!(
        Timer::builder().shards(0).build().map(drop),
        Err(BuildError::ZeroShards)
    );

    assert_eq!(
        runtime.metrics().num_alive_tasks(),
        0,
        "what was refused left nothing behind"
    );
    for tick in [Duration::from_nanos(1), HOUR] {
        build(Timer::builder().tick(tick)).unwrap();
    }
    for (asked, made) in [(1, 1), (3, 4), (1_024, 1_024)] {
        let timer = Timer::builder()
            .shards(asked)
            .build_on(runtime.handle())
            .unwrap();
        assert_eq!(timer.metrics().shards, made);
    }
    for slots in [0, usize::MAX] {
        build(Timer::builder().slots(slots)).unwrap();
    }

    for error in [
        BuildError::ZeroTick,
        BuildError::TickTooLong { tick: 2 * HOUR },
    ] {
        assert!(error.to_string().contains("tick"), "{error}");
    }
    for error in [
        BuildError::ZeroShards,
        BuildError::TooManyShards { shards: 9_999 },
    ] {
        assert!(error.to_string().contains("shards"), "{error}");
    }
}

#[test]
fn outside_a_runtime_the_callers_line_panics_with_what_to_do() {
    let now = Instant::now();
    assert_panics_here!("runtime", sleep(MS));
    assert_panics_here!("runtime", tickwheel::sleep_until(now));
    assert_panics_here!("build_on", timeout(MS, async {}));
    assert_panics_here!("runtime", tickwheel::timeout_at(now, async {}));
    assert_panics_here!("runtime", interval(MS));
    assert_panics_here!("runtime", tickwheel::interval_at(now, MS));
    assert_panics_here!("runtime", Timer::current());
    assert_panics_here!("runtime", Timer::new());
}

#[test]
fn without_a_time_driver_the_callers_line_panics_with_what_to_do() {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    let _context = runtime.enter();
    assert_panics_here!("enable_time", sleep(MS));
    assert_panics_here!("enable_time", timeout(MS, async {}));
    assert_panics_here!("enable_time", interval(MS));
    assert_panics_here!("enable_time", Timer::current());
    assert_panics_here!("enable_time", Timer::new());
    assert_panics_here!("enable_time", Timer::builder().build());
    assert_panics_here!("enable_time", Timer::builder().build_on(runtime.handle()));
}

#[test]
fn a_period_of_zero_panics_at_the_callers_line_even_outside_a_runtime() {
    let (now, zero) = (Instant::now(), Duration::ZERO);
    assert_panics_here!("must be non-zero", interval(zero));
    assert_panics_here!("must be non-zero", tickwheel::interval_at(now, zero));
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    assert_panics_here!("must be non-zero", timer.interval(zero));
    assert_panics_here!("must be non-zero", timer.interval_at(now, zero));
}

#[test]
fn each_runtime_has_one_timer_of_its_own() {
    let (first, second) = (multi_thread(2), multi_thread(2));
    let armed = |runtime: &Runtime| runtime.block_on(async { Timer::current().metrics().armed });
    for _ in 0..3 {
        first.block_on(async { sleep(MS).await });
        first.block_on(async { tokio::spawn(sleep(MS)).await.unwrap() });
        second.block_on(async { sleep(MS).await });
    }
    assert_eq!((armed(&first), armed(&second)), (6, 3));
    let nested = first.block_on(async {
        let _context = second.enter();
        Timer::current().metrics().armed
    });
    assert_eq!(nested, 3, "the entered runtime is the current one");
}

#[test]
fn runtimes_one_after_the_other_on_a_thread_are_never_confused() {
    for round in 0..200 {
        let runtime = if round % 3 == 0 {
            paused()
        } else {
            current_thread()
        };
        runtime.block_on(async {
            assert_eq!(Timer::current().metrics().armed, 0);
            let start = Instant::now();
            sleep(MS).await;
            assert!(start.elapsed() >= MS);
        });
    }
}

#[test]
fn two_equal_runs_under_the_paused_clock_see_equal_moments() {
    let run = || {
        paused().block_on(async {
            let start = Instant::now();
            let mut moments = Vec::new();
            for nanos in [1, 1_000, 300_000, 999_999, 1_000_001, 1_700_000] {
                sleep(Duration::from_nanos(nanos)).await;
                moments.push(start.elapsed());
            }
            moments
        })
    };
    let first = run();
    thread::sleep(Duration::from_micros(1_300));
    assert_eq!(run(), first);
}

fn pending_deadline(timer: &Timer) -> task::Spawn<Deadline> {
    let mut deadline = task::spawn(timer.deadline(HOUR));
    assert_pending!(deadline.poll());
    deadline
}

#[test]
fn when_the_runtime_shuts_down_everything_pending_is_woken_and_says_so() {
    for runtime in [current_thread(), paused(), multi_thread(2)] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let mut nap = task::spawn(timer.sleep(HOUR));
        let mut bounded = task::spawn(timer.timeout(HOUR, pending::<()>()));
        let mut beat = timer.interval_at(Instant::now() + HOUR, HOUR);
        let mut tick = task::spawn(beat.tick());
        let mut deadline = pending_deadline(&timer);
        let handle = deadline.handle();
        assert_pending!(nap.poll());
        assert_pending!(bounded.poll());
        assert_pending!(tick.poll());
        drop(runtime);
        assert!(nap.is_woken() && bounded.is_woken() && tick.is_woken() && deadline.is_woken());
        assert!(!nap.is_elapsed());
        for (message, _) in [
            panic_of(|| nap.poll()),
            panic_of(|| drop(bounded.poll())),
            panic_of(|| tick.poll().map(drop)),
            panic_of(|| task::spawn(timer.sleep(HOUR)).poll()),
        ] {
            assert!(
                message.contains("runtime") && message.contains("shut down"),
                "{message}"
            );
        }
        assert!(assert_ready!(deadline.poll()).unwrap_err().is_shutdown());
        assert!(!handle.reset() && !handle.cancel() && !handle.expire() && !handle.is_pending());
        deadline.restart();
        assert!(assert_ready!(deadline.poll()).unwrap_err().is_shutdown());
        assert_eq!(timer.metrics().pending, 0);
    }
}

#[test]
fn what_had_fired_before_the_shutdown_is_ready_after_it() {
    let runtime = paused();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let mut nap = task::spawn(timer.sleep(5 * MS));
    let mut deadline = task::spawn(timer.deadline(5 * MS));
    assert_pending!(nap.poll());
    runtime.block_on(timer.sleep(10 * MS));
    drop(runtime);
    assert!(nap.is_elapsed());
    assert_ready!(nap.poll());
    assert_eq!(assert_ready!(deadline.poll()), Ok(()));
}

#[test]
fn what_had_passed_before_the_shutdown_has_expired_though_the_driver_was_not_there() {
    let runtime = paused();
    let timer = Timer::builder()
        .slots(16)
        .build_on(runtime.handle())
        .unwrap();
    let (mut nap, mut deadline) = (
        task::spawn(timer.sleep(5 * MS)),
        task::spawn(timer.deadline(5 * MS)),
    );
    assert_pending!(nap.poll());
    assert_pending!(deadline.poll());
    let context = runtime.enter();
    let mut advance = task::spawn(tokio::time::advance(5 * MS));
    let _ = advance.poll();
    drop(advance);
    drop(context);
    drop(runtime);
    assert_ready!(nap.poll());
    assert_eq!(assert_ready!(deadline.poll()), Ok(()));
    assert_eq!(timer.snapshot().shards[0].levels[0].slots.len(), 16);
    assert_eq!(timer.metrics().armed, 2);
}

#[test]
fn a_restart_on_a_runtime_that_is_gone_is_pending_at_no_time() {
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let mut deadline = timer.deadline(HOUR);
    let handle = deadline.handle();
    drop(runtime);
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(!handle.reset() && !handle.is_pending());
            }
        });
        for _ in 0..100_000 {
            deadline.restart();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn what_is_made_on_a_runtime_that_is_gone_says_so_at_once() {
    let runtime = current_thread();
    let handle = runtime.handle().clone();
    let before = Timer::builder().build_on(&handle).unwrap();
    drop(runtime);
    let after = Timer::builder().build_on(&handle).unwrap();
    for timer in [before, after] {
        let mut deadline = task::spawn(timer.deadline(HOUR));
        let handle = deadline.handle();
        assert!(!handle.reset() && !handle.reset_after(MS) && !handle.set_timeout(MS));
        assert!(assert_ready!(deadline.poll()).unwrap_err().is_shutdown());
        assert_ready!(task::spawn(timer.sleep(Duration::ZERO)).poll());
        assert!(timer.metrics().pending == 0 && timer.snapshot().pending() == 0);
    }
    let _context = handle.enter();
    for _ in 0..3 {
        assert!(assert_ready!(task::spawn(Timer::current().deadline(HOUR)).poll()).is_err());
    }
}

#[test]
fn a_task_that_awaits_at_shutdown_does_not_hang_it() {
    for runtime in [current_thread(), multi_thread(2)] {
        for _ in 0..100 {
            runtime.spawn(sleep_from(runtime.handle()));
            runtime.spawn(async { Timer::current().deadline(HOUR).await });
        }
        runtime.block_on(sleep_from(runtime.handle()));
        drop(runtime);
    }
}

/// A short or a long sleep on the timer of a runtime, made in its context.
fn sleep_from(handle: &Handle) -> tickwheel::Sleep {
    let _context = handle.enter();
    sleep(MS)
}

#[test]
fn a_sleep_runs_on_the_clock_of_its_own_runtime_wherever_it_is_polled() {
    let (frozen, real) = (paused(), current_thread());
    let timer = Timer::builder().build_on(frozen.handle()).unwrap();
    let (nap, deadline) = (timer.sleep(HOUR), timer.deadline(HOUR));
    let handle = deadline.handle();
    let waiting = thread::spawn(move || {
        real.block_on(async {
            nap.await;
            deadline.await.unwrap();
        });
    });
    // An hour of real time has not passed, but of the frozen runtime's it has.
    frozen.block_on(async { tokio::time::sleep(HOUR + MS).await });
    frozen.block_on(async {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    });
    waiting.join().unwrap();
    assert!(!handle.reset());
}

#[test]
fn the_real_time_of_another_runtime_does_not_make_a_sleep_of_a_frozen_one_early() {
    let (frozen, real) = (paused(), current_thread());
    let timer = Timer::builder().build_on(frozen.handle()).unwrap();
    let mut nap = task::spawn(timer.sleep(5 * MS));
    let mut deadline = task::spawn(timer.deadline(5 * MS));
    real.block_on(async {
        tokio::time::sleep(10 * MS).await;
        assert_pending!(nap.poll());
        assert_pending!(deadline.poll());
    });
    assert_pending!(nap.poll());
    frozen.block_on(async { tokio::time::advance(5 * MS).await });
    real.block_on(async {
        assert_ready!(nap.poll());
        assert_eq!(assert_ready!(deadline.poll()), Ok(()));
    });
}

#[test]
fn a_plain_thread_goes_by_the_clock_of_the_timers_runtime() {
    let runtime = paused();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let deadline = timer.deadline(HOUR);
    let handle = deadline.handle();
    runtime.block_on(async {
        let start = Instant::now();
        tokio::time::advance(HOUR / 2).await;
        let now = Instant::now();
        thread::spawn({
            let timer = timer.clone();
            move || {
                assert_eq!(handle.remaining(), Some(HOUR / 2));
                assert!(handle.reset());
                assert_eq!(handle.remaining(), Some(HOUR));
                assert_eq!(timer.sleep(MS).deadline(), now + MS);
                assert!(handle.reset_after(2 * HOUR));
            }
        })
        .join()
        .unwrap();
        deadline.await.unwrap();
        assert_eq!(start.elapsed(), HOUR / 2 + 2 * HOUR);
    });
}

#[test]
fn a_timer_serves_plain_threads_and_blocking_tasks() {
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let plain = thread::spawn({
        let timer = timer.clone();
        move || futures::executor::block_on(timer.sleep(5 * MS))
    });
    runtime.block_on(async {
        let blocking = tokio::task::spawn_blocking({
            let timer = timer.clone();
            move || futures::executor::block_on(timer.timeout(5 * MS, pending::<()>())).is_err()
        });
        assert!(blocking.await.unwrap());
        let current = tokio::task::spawn_blocking(|| futures::executor::block_on(sleep(5 * MS)));
        current.await.unwrap();
    });
    plain.join().unwrap();
    assert_eq!(timer.metrics().fired, 2);
}

#[test]
fn a_timer_has_no_task_and_what_is_pending_fires_when_its_handles_have_gone() {
    let runtime = paused();
    runtime.block_on(async {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let timer = Timer::new();
        let unarmed = timer.sleep(5 * MS);
        let deadline = timer.deadline(10 * MS);
        drop(timer.clone());
        drop(timer);
        assert_eq!(tasks(), 0);
        unarmed.await;
        deadline.await.unwrap();
        assert_eq!(tasks(), 0);
    });
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_what_every_level_holds() {
    let timer = Timer::builder()
        .tick(10 * MS)
        .slots(8)
        .shards(1)
        .build()
        .unwrap();
    let empty = timer.snapshot();
    assert_eq!((empty.pending(), empty.shards[0].levels.len()), (0, 1));
    let deadlines: Vec<_> = [1, 1, 5, 30, 700]
        .map(|ticks| timer.deadline(ticks * 10 * MS))
        .into();
    let full = timer.snapshot();
    assert_eq!(full.pending(), 5);
    let levels = &full.shards[0].levels;
    assert_eq!(
        levels
            .iter()
            .map(|level| level.pending())
            .collect::<Vec<_>>(),
        [3, 1, 0, 1]
    );
    assert_eq!((levels[0].slots[1], levels[1].slots[3]), (2, 1));
    assert_eq!(levels[3].slot_width, 5_120 * MS);
    println!("{full}");
    drop(deadlines);
    assert_eq!(timer.snapshot(), empty);
}

#[test]
fn public_types_are_send_and_sync_unpin_and_debug() {
    fn send_sync_unpin<T: Send + Sync + Unpin + std::fmt::Debug + 'static>() {}
    send_sync_unpin::<Timer>();
    send_sync_unpin::<tickwheel::Builder>();
    send_sync_unpin::<tickwheel::Sleep>();
    send_sync_unpin::<tickwheel::Timeout<std::future::Ready<()>>>();
    send_sync_unpin::<tickwheel::Interval>();
    send_sync_unpin::<Deadline>();
    send_sync_unpin::<tickwheel::ResetHandle>();
    send_sync_unpin::<tickwheel::Metrics>();
    send_sync_unpin::<tickwheel::Snapshot>();
    send_sync_unpin::<tickwheel::error::Elapsed>();
    send_sync_unpin::<tickwheel::error::Cancelled>();
    send_sync_unpin::<BuildError>();
    send_sync_unpin::<tickwheel::wheel::Wheel<u8>>();
    send_sync_unpin::<tickwheel::wheel::Key>();
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let deadline = timer.deadline(MS);
    let shown = format!(
        "{timer:?} {:?} {deadline:?} {:?}",
        timer.sleep(MS),
        deadline.handle()
    );
    assert!(
        shown.contains("Timer") && shown.contains("Sleep") && shown.contains("pending"),
        "{shown}"
    );
}

/// A new map comes as the old one's task is still on its way out. That is no end of the runtime.
#[test]
fn a_map_that_follows_another_does_not_run_the_paused_clock() {
    let runtime = paused();
    runtime.block_on(async {
        let timer = Timer::new();
        let start = Instant::now();
        for _ in 0..3 {
            drop(tickwheel::DelayMap::<u8, u8>::new(&timer));
            let map = tickwheel::DelayMap::<u8, u8>::new(&timer);
            tokio::task::spawn_blocking(|| thread::sleep(MS))
                .await
                .unwrap();
            // A thread wakes the runtime: it waits without a timer, and no time passes.
            idle_for_a_moment().await;
            drop(map);
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    });
}

/// A local of a thread that is destroyed after tokio's own pushes a deadline of a running runtime
/// back.
#[test]
fn a_reset_from_a_thread_that_ends_ends_no_timer_of_a_runtime_that_runs() {
    struct ResetsAtTheEnd(Option<tickwheel::ResetHandle>);
    impl Drop for ResetsAtTheEnd {
        fn drop(&mut self) {
            if let Some(handle) = self.0.take() {
                assert!(handle.reset_after(30 * MS));
            }
        }
    }
    thread_local! {
        static KEPT: std::cell::RefCell<ResetsAtTheEnd> =
            const { std::cell::RefCell::new(ResetsAtTheEnd(None)) };
    }
    for tokio_first in [false, true] {
        let runtime = current_thread();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let other = timer.deadline(HOUR);
        let deadline = timer.deadline(HOUR);
        let handle = deadline.handle();
        runtime.block_on(async {
            tokio::time::sleep(20 * MS).await;
            let start = Instant::now();
            thread::spawn(move || {
                if tokio_first {
                    // What is used first is destroyed last.
                    let _ = Handle::try_current();
                    KEPT.with_borrow_mut(|kept| kept.0 = Some(handle));
                } else {
                    KEPT.with_borrow_mut(|kept| kept.0 = Some(handle));
                    let _ = Handle::try_current();
                }
            })
            .join()
            .unwrap();
            assert_eq!(deadline.await, Ok(()));
            assert!(start.elapsed() >= 30 * MS);
            assert!(other.handle().is_pending());
        });
    }
}

#[test]
#[cfg(target_os = "linux")]
fn runtimes_that_have_ended_are_not_kept() {
    fn open_files() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }
    // Other tests of this process open files too; the fewest of some looks are this one's.
    let fewest = || (0..50).map(|_| open_files()).min().unwrap();
    let round = |build: fn() -> Runtime| build().block_on(async { sleep(MS).await });
    for build in [|| multi_thread(2), current_thread as fn() -> Runtime] {
        round(build);
        let before = fewest();
        for _ in 0..60 {
            round(build);
        }
        let more = fewest().saturating_sub(before);
        assert!(more < 60, "{more} files more after 60 runtimes");
    }
}
