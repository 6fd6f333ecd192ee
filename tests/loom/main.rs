//! The crate's own files, compiled against loom's atomics and locks. Loom runs the interleavings of
//! what threads do with them: all of them, or those with few preemptions.

#![allow(dead_code, unreachable_pub, unused_imports)] // Not every part of the files is used here.

mod clock;
mod driver;
#[path = "../../src/error.rs"]
mod error;
mod keyed;
mod lock_held;
mod models;
#[path = "../../src/report.rs"]
mod report;
mod shard;
mod sync;
#[path = "../../src/io/waiters.rs"]
mod waiters;
