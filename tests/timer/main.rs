//! The timer itself: how it is built, its runtimes, their clocks and their end.

mod build;
mod clocks;
#[path = "../common/mod.rs"]
mod common;
mod end;
mod runtimes;

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

use tickwheel::error::BuildError;
use tickwheel::{Deadline, Timer, sleep};
use tokio::runtime::Handle;

use crate::common::{MS, current_thread, multi_thread, paused};

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

/// A short or a long sleep on the timer of a runtime, made in its context.
fn sleep_from(handle: &Handle) -> tickwheel::Sleep {
    let _context = handle.enter();
    sleep(MS)
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
fn a_timer_has_no_task_and_fires_after_its_handles_have_gone() {
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
