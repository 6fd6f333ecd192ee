//! How long and how often to measure, and where to build what is measured.

use std::path::PathBuf;
use std::time::Duration;

/// How long and how often to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A smoke run: everything is short, and large numbers are smaller.
    pub quick: bool,
    /// How many samples each contender has.
    pub rounds: usize,
    /// How long a contender runs before its time is taken.
    pub warm_up: Duration,
    /// How long its time is then taken.
    pub sample: Duration,
}

impl Settings {
    pub fn new(quick: bool) -> Settings {
        let [warm_up, sample] = if quick { [5, 10] } else { [10, 20] }.map(Duration::from_millis);
        Settings {
            quick,
            rounds: if quick { 5 } else { 21 },
            warm_up,
            sample,
        }
    }

    /// `full`, or `quick` in a smoke run.
    pub fn either<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Two folders up from the program: `target/release/tickwheel-bench`.
pub fn target_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.to_owned())
}
