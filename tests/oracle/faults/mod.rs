//! Faults thrown in under the paused clock: wakers that panic or use the timer while they are
//! woken, keys and values whose own code panics or uses the map.

pub(crate) mod keys;
pub(crate) mod wakers;

use std::future::Future;

use crate::common::{catch, ended};
use crate::paused_clock::paused;

/// Runs a future on a paused clock, until it is ready or panics.
fn on_paused_clock<F: Future<Output = ()>>(
    what: String,
    make: impl FnOnce() -> F + Send + 'static,
) -> Result<(), String> {
    let attempt = move || paused().block_on(tokio::task::unconstrained(make()));
    let outcome = ended(|| catch(attempt)).unwrap_or_else(|| panic!("this hangs: {what}"));
    outcome.map_err(|(message, _)| format!("{what}: {message}"))
}
