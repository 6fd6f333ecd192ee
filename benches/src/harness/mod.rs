//! How a row is measured: a [`Race`] lets operations take turns, a [`load()`] whole servers and
//! clients, and a [`Record`] is what comes out of each.
//!
//! ```text
//!   race         contenders that take turns on a runtime
//!   sample       one sample of one contender, in a task
//!   operation    what a contender does, and the durations and futures that it takes
//!   load         contenders that stand in a server, a client or a proxy
//!   standing     the sleep that is armed beside each contender
//!   record       samples, their medians and quartiles
//! ```

mod load;
mod operation;
mod race;
mod record;
mod sample;
mod standing;

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
