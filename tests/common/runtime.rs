//! The runtimes that tests run on. None of them reads events of sockets.

use tokio::runtime::{Builder, Runtime};

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
