//! What the crate needs of tokio beside its timers and its clock: one place to import it from. A
//! port to another runtime replaces what is named here, `driver::tokio_alarm`, and the two clocks
//! in `time`.
//!
//! | what | for |
//! |---|---|
//! | [`Handle`], [`Id`], [`TryCurrentError`] | finding the current runtime, and stepping into another one |
//! | [`RuntimeFlavor`] | whether the clock of a runtime can be paused |
//! | [`worker_index`], [`try_id`], [`TaskId`] | which worker a thread is, and which task it runs |
//! | [`JoinHandle`] | learning that a runtime drops its tasks |
//! | [`coop`] | the budget of a task, which a timer that makes progress takes from |
//!
//! Invariant: nothing here is part of the crate's own mechanism.

pub(crate) use tokio::runtime::{Handle, Id, RuntimeFlavor, TryCurrentError, worker_index};
pub(crate) use tokio::task::{Id as TaskId, JoinHandle, coop, try_id};
