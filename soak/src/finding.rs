//! What was found: the impossible things that programs have seen, each with the seed of its
//! program.

use std::sync::atomic::{AtomicUsize, Ordering};

pub use tickwheel_soak_model::Kind;
use tokio::time::Instant;

use crate::world::message_of;

/// All that this run has found.
pub struct Findings {
    start: Instant,
    number: AtomicUsize,
}

/// So many are printed. The others most likely say the same.
const PRINTED: usize = 50;

impl Default for Findings {
    fn default() -> Findings {
        Findings {
            start: Instant::now(),
            number: AtomicUsize::new(0),
        }
    }
}

impl Findings {
    /// Counts a finding and prints it. `program` says how to run the program again.
    pub fn report(&self, kind: Kind, program: &str, text: &str) {
        if self.number.fetch_add(1, Ordering::Relaxed) < PRINTED {
            let after = self.start.elapsed().as_secs_f64();
            println!("FOUND after {after:.1} s: {kind}: {text}\n      [{program}]");
        }
    }

    pub fn len(&self) -> usize {
        self.number.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Panics of timers whose runtime has ended are not printed.
pub fn quiet_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !message_of(info.payload()).contains("shut") {
            default(info);
        }
    }));
}
