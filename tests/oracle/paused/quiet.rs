//! Panics that a program expects, without the words that the hook would say of each.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::thread;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Catches a panic in `run`, which nobody hears of otherwise.
pub(super) fn catch<R>(run: impl FnOnce() -> R) -> thread::Result<R> {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                before(panic);
            }
        }));
    });
    let was_quiet = IS_QUIET.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(run));
    IS_QUIET.set(was_quiet);
    outcome
}
