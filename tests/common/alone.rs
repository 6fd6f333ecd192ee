//! One test at a time, for programs whose tests count what the whole process does.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the test's turn, which lasts until the guard is dropped.
///
/// A test that fails while it has its turn does not fail the others.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
