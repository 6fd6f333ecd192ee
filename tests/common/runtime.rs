//! The runtimes that tests run on. None of them reads events of sockets.

use tokio::runtime::{Builder, Runtime};

/// Whether tokio says which worker a thread is, as it does from 1.54 on. Where it does not, a free
/// function finds its timer at the call. The glob import shadows the function that stands in.
pub(crate) fn tells_workers() -> bool {
    #[allow(unused_imports)]
    use tokio::runtime::*;
    current_thread().block_on(async { worker_index().is_some() })
}

#[allow(dead_code)]
fn worker_index() -> Option<usize> {
    None
}

/// One thread, whose clock is that of the system.
pub(crate) fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

/// So many workers, whose clock is that of the system. In a build with `--cfg tokio_unstable` they
/// have tokio's alternative timer.
pub(crate) fn multi_thread(workers: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_time();
    #[cfg(tokio_unstable)]
    builder.enable_alt_timer();
    builder.build().unwrap()
}
