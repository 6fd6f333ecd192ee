//! What was found: the impossible things that programs have seen, each with the seed of its
//! program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

pub use tickwheel_soak_model::Kind;
use tokio::time::{Duration, Instant};

/// All that this run has found.
pub struct Findings {
    start: Instant,
    /// How often each kind was found, and when first.
    by_kind: Mutex<BTreeMap<(Kind, String), (usize, Duration)>>,
}

/// Of one kind in one program, so many are printed in full.
const PRINTED: usize = 8;

impl Default for Findings {
    fn default() -> Findings {
        Findings {
            start: Instant::now(),
            by_kind: Mutex::default(),
        }
    }
}

impl Findings {
    /// Keeps a finding and prints it. `program` says how to run the program again.
    pub fn report(&self, kind: Kind, name: &str, program: &str, text: &str) {
        let at = self.start.elapsed();
        let mut by_kind = self.by_kind.lock().unwrap();
        let (times, _) = by_kind.entry((kind, name.to_owned())).or_insert((0, at));
        *times += 1;
        if *times <= PRINTED {
            let after = at.as_secs_f64();
            println!("FOUND after {after:.1} s: {kind}: {text}\n      [{program}]");
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_kind.lock().unwrap().is_empty()
    }

    pub fn len(&self) -> usize {
        let by_kind = self.by_kind.lock().unwrap();
        by_kind.values().map(|(times, _)| times).sum()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((kind, name), (times, first)) in &*self.by_kind.lock().unwrap() {
            let first = first.as_secs_f64();
            writeln!(
                f,
                "  {kind:<13} {name:<13} {times:>6} times, first after {first:.1} s"
            )?;
        }
        Ok(())
    }
}
