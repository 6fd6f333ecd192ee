//! The crate's imports from tokio, beside its timers and its clock. A port to another runtime
//! replaces these names, `driver::tokio_alarm`, and the two clocks in `time`.
//!
//! | what | for |
//! |---|---|
//! | [`Handle`], [`Id`], [`TryCurrentError`] | finding the current runtime, and stepping into another one |
//! | [`RuntimeFlavor`] | whether the clock of a runtime can be paused |
//! | [`worker_index`], [`TELLS_WORKERS`], [`try_id`], [`TaskId`] | which worker a thread is, and which task it runs |
//! | [`JoinHandle`] | learning that a runtime drops its tasks |
//! | [`coop`] | the budget of a task, charged by a timer that makes progress |
//!
//! Invariant: nothing here is part of the crate's own mechanism.

pub(crate) use tokio::runtime::{Handle, Id, RuntimeFlavor, TryCurrentError};
pub(crate) use tokio::task::{Id as TaskId, JoinHandle, coop, try_id};
pub(crate) use worker::{TELLS_WORKERS, index as worker_index};

/// tokio reports from 1.54 on which worker a thread is; its older LTS releases do not. A glob
/// import within a block shadows the stand-in function, as `clock::pausable` explains.
mod worker {
    pub(crate) const TELLS_WORKERS: bool = {
        #[allow(unused_imports)] // Without the function nothing of it is used.
        use tokio::runtime::*;
        is_told(&worker_index)
    };

    #[inline(always)]
    pub(crate) fn index() -> Option<usize> {
        #[allow(unused_imports)]
        use tokio::runtime::*;
        worker_index().told()
    }

    #[allow(dead_code)] // It stands in where tokio has none.
    fn worker_index() -> Untold {
        Untold
    }

    #[allow(dead_code)]
    struct Untold;

    const fn is_told<T: MaybeTold, F: Fn() -> T>(_: &F) -> bool {
        T::IS_TOLD
    }

    trait MaybeTold {
        const IS_TOLD: bool;

        fn told(self) -> Option<usize>;
    }

    impl MaybeTold for Untold {
        const IS_TOLD: bool = false;

        fn told(self) -> Option<usize> {
            None
        }
    }

    impl MaybeTold for Option<usize> {
        const IS_TOLD: bool = true;

        #[inline(always)]
        fn told(self) -> Option<usize> {
            self
        }
    }
}
