//! How many live connections a stall of the server closes, in each way of closing idle ones, by
//! what holds up the server and for how long.
//!
//! Each run is a process of its own, this program with `--way`. The ways take turns, and so do the
//! stalls, so that what else the machine does disturbs all of them alike.
//!
//! The table is Markdown, so that README can have it.

use std::{io, iter};

use clap::ValueEnum;
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use tickwheel::Duration;

use crate::options::Options;
use crate::stall::Cause;
use crate::summary::{LIVE_CLOSED, figure};
use crate::ways::Way;

/// Above the column of the ways.
const HEAD: &str = "how the server finds idle connections";

/// What the runs with one stall closed.
pub(crate) struct Column {
    pub(crate) cause: Cause,
    pub(crate) stall: Duration,
    /// For each way, one number a run.
    pub(crate) closed: Vec<Vec<u64>>,
}

impl Column {
    pub(crate) fn new(cause: Cause, stall: Duration) -> Column {
        let closed = vec![Vec::new(); Way::value_variants().len()];
        Column {
            cause,
            stall,
            closed,
        }
    }
}

/// Makes all runs, and returns what they counted. An error if a stall has harmed a way that has a
/// grace.
pub(crate) async fn compare(options: &Options) -> io::Result<String> {
    let mut left_out = String::new();
    let mut columns = Vec::new();
    for &cause in &options.causes {
        match cause.missing() {
            Some(problem) => left_out += &format!("\n{} is left out: {problem}.", cause.name()),
            None => columns.extend(
                options
                    .stalls
                    .iter()
                    .map(|&stall| Column::new(cause, stall)),
            ),
        }
    }
    for round in 1..=options.rounds {
        for column in &mut columns {
            let (cause, stall) = (column.cause, column.stall);
            let rounds = options.rounds;
            eprintln!("Round {round} of {rounds}, {} …", column_head(cause, stall));
            let options = options.with_stall(cause, stall);
            for (way, closed) in Way::value_variants().iter().zip(&mut column.closed) {
                let run = options.run_another(format!("--way={}", way.name())).await?;
                let printed = String::from_utf8_lossy(&run.stdout);
                closed.push(judge(*way, &printed, run.status.success())?);
            }
        }
    }
    let (condition, table) = (condition(options), table(&columns));
    Ok(format!("{condition}{left_out}\n\n{table}"))
}

/// How many live connections a run closed, by what it printed.
pub(crate) fn judge(way: Way, printed: &str, has_passed: bool) -> io::Result<u64> {
    let closed = figure(printed, LIVE_CLOSED).and_then(|closed| closed.parse().ok());
    let closed = closed.filter(|_| has_passed || !way.has_grace());
    closed.ok_or_else(|| io::Error::other(format!("{} has failed:\n{printed}", way.title())))
}

/// What the table counts, and which stalls close a live connection at all.
pub(crate) fn condition(options: &Options) -> String {
    format!(
        "Live connections closed, of {}: the fewest to the most, with --rounds {}.\n\
         SIGSTOP: the process is stopped by that signal. blocked: tasks block all workers.\n\
         quota: the process has used up the CPU quota of its cgroup.\n\
         A stall costs live connections where it is longer than the timeout less the time\n\
         between two heartbeats, here {:?}.",
        options.connections,
        options.rounds,
        options.harmless_stall()
    )
}

/// A line for each way, and a column for each stall with the fewest and the most that its runs
/// closed. It is aligned, so that a terminal shows it too.
pub(crate) fn table(columns: &[Column]) -> String {
    let stalls = columns.iter();
    let stalls = stalls.map(|column| column_head(column.cause, column.stall));
    let head = iter::once(HEAD.to_string()).chain(stalls);
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(head);
    for (number, way) in Way::value_variants().iter().enumerate() {
        let ranges = columns.iter().map(|column| range(&column.closed[number]));
        table.add_row(iter::once(way.title()).chain(ranges));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn column_head(cause: Cause, stall: Duration) -> String {
    format!("{}, {} s", cause.name(), stall.as_secs_f64())
}

fn range(closed: &[u64]) -> String {
    match (closed.iter().min(), closed.iter().max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (least, _) => least.map_or("-".to_string(), u64::to_string),
    }
}
