//! What was found: the impossible things that programs have seen, each with the seed of its
//! program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use tokio::time::{Duration, Instant};

/// The kinds of findings. The summary counts them by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Early,
    LostWakeUp,
    TwoOutcomes,
    WrongAnswer,
    ValueLost,
    Counts,
    Memory,
    Panic,
    Lateness,
    Hang,
    /// A program of the oracle did what its model does not allow.
    Model,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Early => "early",
            Kind::LostWakeUp => "lost wake-up",
            Kind::TwoOutcomes => "two outcomes",
            Kind::WrongAnswer => "wrong answer",
            Kind::ValueLost => "value lost",
            Kind::Counts => "counts",
            Kind::Memory => "memory",
            Kind::Panic => "panic",
            Kind::Lateness => "lateness",
            Kind::Hang => "hang",
            Kind::Model => "model",
        })
    }
}

/// All that this run has found.
pub struct Findings {
    start: Instant,
    /// How often each kind was found, and when first.
    by_kind: Mutex<BTreeMap<(Kind, String), (usize, Duration)>>,
}

/// Of one kind in one program, so many are printed in full.
const PRINTED: usize = 8;

impl Findings {
    pub fn new() -> Findings {
        Findings {
            start: Instant::now(),
            by_kind: Mutex::default(),
        }
    }

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
