//! How many live connections a pause of the process closes, in each way of closing idle ones.
//!
//! Each run is a process of its own, this program with `--way`. The ways take turns, so that what
//! else the machine does disturbs all of them alike.

use std::io;

use clap::ValueEnum;

use crate::options::Options;
use crate::summary::{LIVE_CLOSED, NAME, figure};
use crate::ways::Way;

/// Makes all runs, and returns the table. An error if a pause has harmed a way that survives one.
pub(crate) async fn compare(options: &Options) -> io::Result<String> {
    let ways = Way::value_variants();
    let mut closed = vec![Vec::new(); ways.len()];
    for round in 1..=options.rounds {
        eprintln!("Round {round} of {} …", options.rounds);
        for (way, closed) in ways.iter().zip(&mut closed) {
            let run = options.run_another(format!("--way={}", way.name())).await?;
            let printed = String::from_utf8_lossy(&run.stdout);
            closed.push(judge(*way, &printed, run.status.success())?);
        }
    }
    Ok(table(&closed))
}

/// How many live connections a run closed, by what it printed.
pub(crate) fn judge(way: Way, printed: &str, has_passed: bool) -> io::Result<u64> {
    let closed = figure(printed, LIVE_CLOSED).and_then(|closed| closed.parse().ok());
    let closed = closed.filter(|_| has_passed || !way.survives_a_pause());
    closed.ok_or_else(|| io::Error::other(format!("{} has failed:\n{printed}", way.title())))
}

/// A line for each way, with the fewest and the most that its runs closed.
pub(crate) fn table(closed: &[Vec<u64>]) -> String {
    let mut table = format!("{:<NAME$}  {LIVE_CLOSED}", "");
    for (way, closed) in Way::value_variants().iter().zip(closed) {
        let range = match (closed.iter().min(), closed.iter().max()) {
            (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
            (least, _) => least.map_or("-".to_string(), u64::to_string),
        };
        table += &format!("\n{:<NAME$}  {range}", way.title());
    }
    table
}
