//! Tokio's paused clock: let the runtime come round, move the clock alone, and let it be idle.
//!
//! It needs tokio's `test-util`, so it is no part of `common`, which is compiled without that too.
//! A test program says `#[path = "common/paused_clock.rs"] mod paused_clock;`.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime, Runtime};
use tokio::sync::oneshot;

/// One thread, whose clock stands until something moves it.
pub(crate) fn paused() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

/// The same for tasks that are not `Send`.
pub(crate) fn paused_local() -> LocalRuntime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default())
        .unwrap()
}

/// Lets the runtime do all that is ready now, without moving its clock.
///
/// A paused clock jumps to the next timer only while no task is ready. This task always is, so the
/// clock stands. Each yield gives one round to the other tasks and to the runtime's time driver.
/// What follows from a fired timer takes several rounds: the turn of the driver, the task that it
/// wakes, and the tasks that this one wakes in turn. Twenty rounds are more than any test needs.
pub(crate) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Moves the paused clock, and returns before the driver has seen that it moved.
///
/// The first poll of tokio's `advance` moves the clock. The next one would let the runtime fire
/// what is due, so there is none.
pub(crate) fn move_the_clock_only(by: Duration) {
    let _ = pin!(tokio::time::advance(by)).poll(&mut Context::from_waker(Waker::noop()));
}

/// Leaves the runtime idle until a plain thread has slept for that long.
///
/// A paused clock jumps to whatever is armed meanwhile. Where nothing is, it stands.
pub(crate) async fn idle_for(time: Duration) {
    let (sender, receiver) = oneshot::channel();
    let sleeping = thread::spawn(move || {
        thread::sleep(time);
        sender.send(())
    });
    receiver.await.unwrap();
    // Its memory is given back now, for tests that count it.
    sleeping.join().unwrap().unwrap();
}
