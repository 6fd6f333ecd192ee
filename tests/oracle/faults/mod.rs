//! Faults thrown in under the paused clock: wakers that panic or use the timer while they are
//! woken, keys and values whose own code panics or uses the map.

pub(crate) mod keys;
pub(crate) mod wakers;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a future on a paused clock, until it is ready or panics.
fn on_paused_clock(what: String, future: impl Future<Output = ()>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be built");
    let unconstrained = tokio::task::unconstrained(future);
    let attempt = || runtime.block_on(unconstrained);
    let outcome =
        crate::paused::watch::over(what.clone(), || catch_unwind(AssertUnwindSafe(attempt)));
    outcome.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        format!("{what}: {}", text.unwrap_or_default())
    })
}

/// Lets the driver do all that there is to do.
async fn settle() {
    for _ in 0..30 {
        tokio::task::yield_now().await;
    }
}
