//! The end of a runtime: its own tasks are dropped while they are pending, as with tokio's timers.
//! What waits elsewhere learns of the end.

mod abort;
mod adapters;
mod after;
mod hook;
mod odd_places;
#[cfg(feature = "test-util")]
mod paused;
mod tasks;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Once, mpsc};
use std::task::Poll;

use tickwheel::error::Cancelled;
use tickwheel::{Deadline, Duration, Sleep, Timer};

use crate::common::{in_time, poll_once};

/// Fails where a test hangs.
fn bounded<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    print_no_panics_of_a_shutdown();
    in_time(test)
}

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What the panic hook has seen on this thread, oldest first.
fn panics_seen_here() -> Vec<String> {
    PANICS.with_borrow(Vec::clone)
}

/// The panics that report a shutdown are caught here, and need not be printed.
fn print_no_panics_of_a_shutdown() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_ours = info
                .location()
                .is_some_and(|at| at.file().contains("tests/real"));
            let message = info.to_string();
            let _ = PANICS.try_with(|panics| panics.borrow_mut().push(message.clone()));
            if is_ours || !(message.contains("shut down") || message.contains("shutdown")) {
                default(info);
            }
        }));
    });
}

/// Polls a future once, and says how that ended if it did.
fn outcome_of_poll<F: Future + Unpin>(future: &mut F) -> Result<Poll<F::Output>, String> {
    catch_unwind(AssertUnwindSafe(|| poll_once(future))).map_err(|_| "a panic".to_owned())
}

/// A sleep and a deadline that wait.
struct Armed {
    sleep: Sleep,
    deadline: Deadline,
}

impl Armed {
    fn on(timer: &Timer, length: Duration) -> Armed {
        let (mut sleep, mut deadline) = (timer.sleep(length), timer.deadline(length));
        assert!(poll_once(&mut sleep).is_pending() && poll_once(&mut deadline).is_pending());
        Armed { sleep, deadline }
    }
}

/// What a task that the shutdown drops sees of its timers.
#[derive(Debug)]
struct Seen {
    remaining: Option<Duration>,
    is_pending: bool,
    was_reset: bool,
    sleep: Result<Poll<()>, String>,
    deadline: Result<Poll<Result<(), Cancelled>>, String>,
}

impl Seen {
    /// Nothing of the end.
    #[track_caller]
    fn assert_waits(&self) {
        let waits = self.is_pending && self.was_reset && self.remaining.is_some();
        let polls = (&self.sleep, &self.deadline);
        assert!(
            waits && polls == (&Ok(Poll::Pending), &Ok(Poll::Pending)),
            "{self:?}"
        );
    }
}

/// Held by a task, to look at its timers a last time.
struct LastLook(Armed, mpsc::Sender<Seen>);

impl Drop for LastLook {
    fn drop(&mut self) {
        let LastLook(Armed { sleep, deadline }, sender) = self;
        let handle = deadline.handle();
        let look = AssertUnwindSafe(|| Seen {
            remaining: handle.remaining(),
            is_pending: handle.is_pending(),
            sleep: outcome_of_poll(sleep),
            deadline: outcome_of_poll(deadline),
            was_reset: handle.reset(),
        });
        if let Ok(seen) = catch_unwind(look) {
            let _ = sender.send(seen);
        }
    }
}

/// Runs something when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}
