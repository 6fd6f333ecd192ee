//! The end of a runtime: its own tasks are dropped while they are pending, as with tokio's timers.
//! What waits from elsewhere is told.

#[path = "../common/mod.rs"]
mod common;
mod elsewhere;
mod tasks;
mod waits;

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Once, mpsc};
use std::task::Poll;
use std::thread;

use futures::FutureExt;
use tickwheel::{Duration, Instant, Sleep, Timer};

use crate::common::{HOUR, current_thread, multi_thread, poll_once};
use crate::waits::{End, TOKIOS_SENTENCE, Waiting, end_of};

const MINUTE: Duration = Duration::from_secs(60);

/// The panics that tell of a shutdown are caught here, and need not be printed.
fn print_no_panics_of_a_shutdown() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let at = info.location().map(|at| Path::new(at.file()));
            let is_ours = at.is_some_and(|at| at.starts_with(Path::new(file!()).parent().unwrap()));
            let message = info.to_string();
            if is_ours || !(message.contains("shut down") || message.contains("shutdown")) {
                default(info);
            }
        }));
    });
}

/// Runs a test on a thread of its own, so that one which hangs fails.
fn bounded<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    print_no_panics_of_a_shutdown();
    let (sender, outcome) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(test()).unwrap());
    match outcome.recv_timeout(MINUTE) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => resume_unwind(thread.join().unwrap_err()),
    }
}

/// Polls a future once, and says how that ended if it did.
fn outcome_of_poll<F: Future + Unpin>(future: &mut F) -> Result<Poll<F::Output>, String> {
    catch_unwind(AssertUnwindSafe(|| poll_once(future))).map_err(|_| "a panic".to_owned())
}

#[test]
fn the_panic_after_a_shutdown_has_tokios_sentence_beside_ours() {
    for runtime in [multi_thread(2), current_thread()] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let mut armed: Sleep = timer.sleep(HOUR);
        assert_eq!(outcome_of_poll(&mut armed), Ok(Poll::Pending));
        let unarmed = timer.sleep(HOUR);
        drop(runtime);
        let late = timer.sleep(HOUR);
        let bounded_late = timer.timeout(HOUR, pending::<()>());
        let mut beat = timer.interval_at(Instant::now() + HOUR, HOUR);
        let told: [Waiting; 5] = [
            Box::pin(armed.map(|()| End::Elapsed)),
            Box::pin(unarmed.map(|()| End::Elapsed)),
            Box::pin(late.map(|()| End::Elapsed)),
            Box::pin(bounded_late.map(|_| End::Elapsed)),
            Box::pin(async move {
                beat.tick().await;
                End::Elapsed
            }),
        ];
        for waiting in told {
            let end = futures::executor::block_on(end_of(waiting));
            let End::Panicked(message) = end else {
                panic!("{end:?}")
            };
            assert!(message.contains("has shut down"), "{message}");
            assert!(message.contains(TOKIOS_SENTENCE), "{message}");
        }
    }
}

/// Threads arm timers while the runtime ends. None is told that its time has come before it has.
#[test]
fn nothing_elapses_early_as_a_runtime_ends() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    for round in 0..60_u64 {
        let runtime = current_thread();
        let timer = tickwheel::Timer::builder()
            .build_on(runtime.handle())
            .unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (timer, done) = (&timer, &done);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let timeout = Duration::from_micros(300 + 100 * number);
                        let start = Instant::now();
                        let ended = futures::executor::block_on(timer.deadline(timeout));
                        let taken = start.elapsed();
                        assert!(
                            ended.is_err() || taken >= timeout,
                            "{taken:?} of {timeout:?}"
                        );
                    }
                });
            }
            runtime.block_on(async { tokio::time::sleep(Duration::from_micros(50 * round)).await });
            drop(runtime);
            done.store(true, Ordering::Relaxed);
        });
    }
}
