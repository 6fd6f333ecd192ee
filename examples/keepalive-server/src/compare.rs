//! How many live connections a pause of the process closes, in each way of closing idle ones.
//!
//! Each run is a process of its own, this program with `--way`. The ways take turns, so that what
//! else the machine does disturbs all of them alike.

use std::{fmt, io};

use clap::ValueEnum;

use crate::options::Options;
use crate::summary::{LIVE_CLOSED, NAME, figure};
use crate::ways::Way;

/// What was found of each way.
pub(crate) struct Comparison {
    /// The live connections that each run closed.
    closed: Vec<(Way, Vec<u64>)>,
    /// Of the ways that must survive a pause, those whose run failed, and what it printed.
    failures: Vec<(Way, String)>,
}

impl Comparison {
    /// Makes all runs.
    pub(crate) async fn make(options: &Options) -> io::Result<Comparison> {
        let mut comparison = Comparison::new();
        for round in 1..=options.rounds {
            eprintln!("Round {round} of {} …", options.rounds);
            for &way in Way::value_variants() {
                let run = options.run_another(format!("--way={}", way.name())).await?;
                let printed = String::from_utf8_lossy(&run.stdout).into_owned();
                comparison.add(way, printed, run.status.success())?;
            }
        }
        Ok(comparison)
    }

    pub(crate) fn new() -> Comparison {
        let ways = Way::value_variants().iter();
        Comparison {
            closed: ways.map(|&way| (way, Vec::new())).collect(),
            failures: Vec::new(),
        }
    }

    /// Adds what a run printed of itself.
    pub(crate) fn add(&mut self, way: Way, printed: String, passed: bool) -> io::Result<()> {
        let closed = figure(&printed, LIVE_CLOSED).and_then(|closed| closed.parse().ok());
        let problem = || io::Error::other(format!("no figure of {}: {printed}", way.name()));
        let closed = closed.ok_or_else(problem)?;
        let of_way = self.closed.iter_mut().find(|(known, _)| *known == way);
        of_way.expect("all ways are there").1.push(closed);
        if way.survives_a_pause() && !passed {
            self.failures.push((way, printed));
        }
        Ok(())
    }

    /// Whether the runs of the ways that must survive a pause have. The others show what it does.
    pub(crate) fn has_passed(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<NAME$}  live connections closed", "")?;
        for (way, closed) in &self.closed {
            let least = closed.iter().min().copied().unwrap_or_default();
            let most = closed.iter().max().copied().unwrap_or_default();
            let range = match least == most {
                true => least.to_string(),
                false => format!("{least} to {most}"),
            };
            writeln!(f, "{:<NAME$}  {range}", way.title())?;
        }
        for (way, printed) in &self.failures {
            writeln!(f, "\nA run with {} has failed:\n{printed}", way.title())?;
        }
        Ok(())
    }
}
