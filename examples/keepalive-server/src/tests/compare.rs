//! The table of both runs, and its warning.

use std::process::ExitStatus;

use clap::Parser;

use crate::compare::{Comparison, Found};
use crate::options::Options;
use crate::summary::{NAME, VALUE};

fn found(printed: &str) -> Found {
    Found::in_summary(printed, ExitStatus::default()).expect("there is a summary")
}

fn line(what: &str, value: &str) -> String {
    format!("{what:<NAME$}{value:>VALUE$}\n")
}

#[test]
fn two_summaries_stand_side_by_side_within_80_columns() {
    let shared = [
        line("heartbeats", "1000"),
        line("CPU time, server", "0.50 s"),
    ]
    .concat();
    let ours = format!(
        "10 connections for 8s\n\n{}{shared}{}{}\nPassed: well.\n",
        line("timer", "tickwheel"),
        line("live connections closed", "0"),
        line("timers armed", "7"),
    );
    let other = format!(
        "{}{shared}{}{}\nVIOLATION: 3 closed\n",
        line("timer", "tokio"),
        line("errors of connections", "2"),
        line("live connections closed", "3"),
    );
    let comparison = Comparison {
        tickwheel: found(&ours),
        tokio: found(&other),
        warning: None,
    };
    let table = comparison.to_string();
    let row = |what: &str| {
        let line = table.lines().find_map(|line| line.strip_prefix(what));
        let values = line.unwrap_or_else(|| panic!("no {what} in {table}"));
        values
            .split_whitespace()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(row("timer "), ["tickwheel", "tokio"]);
    assert_eq!(row("live connections closed"), ["0", "3"]);
    assert_eq!(row("timers armed"), ["7", "-"]);
    assert_eq!(row("errors of connections"), ["-", "2"]);
    assert!(table.contains("0 with tickwheel, 3 with tokio"), "{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
}

#[test]
fn a_run_that_does_not_come_to_its_summary_is_none() {
    let printed = "10 connections for 8s\nAdmin port: 127.0.0.1:1\n";
    assert!(Found::in_summary(printed, ExitStatus::default()).is_none());
}

#[test]
fn a_pause_too_short_to_close_a_live_connection_is_warned_of() {
    let note = |pause: &str| {
        let line = format!("keepalive-server --timeout 2s --pause={pause}");
        Options::parse_from(line.split(' ')).pause_is_too_short()
    };
    assert_eq!(note("2s"), None);
    let note = note("1s").unwrap();
    assert!(note.ends_with("Try --run-time 8s."), "{note}");
}
