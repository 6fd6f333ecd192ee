//! How a row is measured: a [`Race`] lets operations take turns, a [`load()`] whole servers and
//! clients, and a [`Record`] is what comes out of each.
//!
//! ```text
//!   race         contenders that take turns on a runtime
//!   sample       one sample of one contender, in a task
//!   operation    what a contender does, and the durations and futures that it takes
//!   load         contenders that stand in a server, a client or a proxy
//!   standing     the sleep that is armed next to each contender
//!   record       samples, their medians and quartiles
//! ```

mod load;
mod operation;
mod race;
mod record;
mod sample;
mod standing;

use std::hint::black_box;

use tokio::runtime::{Builder, Runtime};

pub use load::{Client, Scene, load};
pub use operation::{
    Durations, Hand, Inner, Operation, PendingOnce, operation, pending_once, polled_once,
};
pub use race::{Race, at_once, core_time, in_turn};
pub use record::{Quartiles, Record};
pub use sample::{Pace, StartingLine, Took, batch, sample};
pub use standing::{STANDING, Standing, TIMEOUT};

/// A runtime of the kind that programs use, with this many workers; with 0 it is on the current
/// thread.
pub fn runtime(workers: usize) -> Runtime {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let builder = builder.worker_threads(workers.max(1)).enable_all();
    builder.build().expect("the runtime starts")
}

/// Makes the heap that of a program that has run for a while, which has freed a large block before.
///
/// Until a block of nearly 32 MB is freed, glibc maps each large block by itself, and gives the end
/// of its heap back whenever 128 KB of it are free. And with a large block it joins all small ones
/// that were freed before, so that no later measurement pays for that.
pub fn settle_the_allocator() {
    drop(black_box(vec![1_u8; 31 << 20]));
}
