//! How near the runtime of a driver is to its end, as far as anybody has noticed.
//!
//! ```text
//!   running --(its tasks are dropped, and somebody waits)--> expected --(it takes no task any more)--> refusing
//!                                                                                                     |    ^
//!                                                                      (a thread looks for the end)   v    | (it need not look)
//!                                                                                                   looked for
//! ```
//!
//! Invariant: the stage never goes back, except from `LookedFor` to `Refusing`. The driver has
//! ended only when `Driver::has_ended` says so. These are the stages before that.

use std::sync::atomic::{AtomicU8, Ordering};

/// The stage, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Running,
    /// The runtime is shutting down, and somebody waits for that.
    Expected,
    /// The runtime takes no task any more.
    Refusing,
    /// The runtime takes no task any more, and a thread looks for the end.
    LookedFor,
}

#[derive(Debug)]
pub(super) struct Ending(AtomicU8);

impl Ending {
    pub(super) fn far() -> Ending {
        Ending(AtomicU8::new(Stage::Running as u8))
    }

    // Relaxed, here and below: a thread that changes the stage then rings the bell, and the
    // attendant that takes its request sees the change.
    pub(super) fn stage(&self) -> Stage {
        match self.0.load(Ordering::Relaxed) {
            0 => Stage::Running,
            1 => Stage::Expected,
            2 => Stage::Refusing,
            _ => Stage::LookedFor,
        }
    }

    pub(super) fn expect(&self) {
        self.0.fetch_max(Stage::Expected as u8, Ordering::Relaxed);
    }

    pub(super) fn refuse_tasks(&self) {
        self.0.fetch_max(Stage::Refusing as u8, Ordering::Relaxed);
    }

    /// `true` if the caller has to look for the end: tasks are refused, and nobody looks.
    pub(super) fn begin_to_look(&self) -> bool {
        self.change(Stage::Refusing, Stage::LookedFor)
    }

    pub(super) fn stop_looking(&self) {
        self.change(Stage::LookedFor, Stage::Refusing);
    }

    fn change(&self, from: Stage, to: Stage) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.0
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_advances_and_only_one_thread_looks_at_a_time() {
        let ending = Ending::far();
        assert!(!ending.begin_to_look());
        ending.refuse_tasks();
        ending.expect();
        assert_eq!(ending.stage(), Stage::Refusing);
        assert!(ending.begin_to_look());
        assert!(!ending.begin_to_look());
        ending.refuse_tasks();
        assert_eq!(ending.stage(), Stage::LookedFor);
        ending.stop_looking();
        assert!(ending.begin_to_look());
    }
}
