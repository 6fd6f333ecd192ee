//! Faults thrown in under the paused clock: wakers that panic or use the timer while they are
//! woken, keys and values whose own code panics or uses the map.

pub(crate) mod keys;
pub(crate) mod wakers;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::paused_clock::paused;
use crate::text_of;

/// Runs a future on a paused clock, until it is ready or panics.
fn on_paused_clock(what: String, future: impl Future<Output = ()>) -> Result<(), String> {
    let attempt = || paused().block_on(tokio::task::unconstrained(future));
    let outcome =
        crate::paused::watch::over(what.clone(), || catch_unwind(AssertUnwindSafe(attempt)));
    outcome.map_err(|panic| format!("{what}: {}", text_of(&*panic)))
}
