//! The same run on both timers, one after the other, and their summaries side by side.
//!
//! Each run is a process of its own, this program with `--timer`. So neither inherits the other's
//! heap, sockets or CPU time. The processor is the same, and so are the options. The CPU time is
//! that of a program in service only where tokio's `test-util` is not in the build: in the package
//! `tickwheel-bench`, which has this program too.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::process::Command;

use crate::options::Options;
use crate::summary;
use crate::timer::TimerKind;

/// What was found of each timer.
pub(crate) struct Comparison {
    tickwheel: Found,
    tokio: Found,
}

/// What one run printed of itself.
struct Found {
    /// The lines of the summary: what, and how much.
    figures: Vec<(String, String)>,
    /// What stands below them.
    verdict: Vec<String>,
    has_passed: bool,
}

impl Comparison {
    /// Makes both runs. `tell` prints a line.
    pub(crate) async fn make(
        options: &Options,
        tell: impl Fn(fmt::Arguments<'_>),
    ) -> io::Result<Comparison> {
        // Ctrl-C is for the runs, which end in order. It does not end this process any more.
        let interrupted = tokio::spawn(tokio::signal::ctrl_c());
        let mut found = Vec::new();
        for (number, timer) in [TimerKind::Tickwheel, TimerKind::Tokio].iter().enumerate() {
            tell(format_args!(
                "Run {} of 2, by the timers of {timer} …",
                number + 1
            ));
            found.push(run(options, *timer).await?);
            if interrupted.is_finished() {
                return Err(io::Error::other("interrupted before both had run"));
            }
        }
        interrupted.abort();
        let tokio = found.pop().ok_or(io::ErrorKind::UnexpectedEof)?;
        let tickwheel = found.pop().ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Comparison { tickwheel, tokio })
    }

    /// Whether tickwheel's run has. The other one may have closed live connections after the pause,
    /// which is what the comparison shows.
    pub(crate) fn has_passed(&self) -> bool {
        self.tickwheel.has_passed
    }
}

async fn run(options: &Options, timer: TimerKind) -> io::Result<Found> {
    let output = Command::new(std::env::current_exe()?)
        .args(options.for_a_run_on(timer))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?
        .wait_with_output()
        .await?;
    let printed = String::from_utf8_lossy(&output.stdout);
    Found::in_summary(&printed, output.status)
        .ok_or_else(|| io::Error::other(format!("the run on {timer} ended with {}", output.status)))
}

impl Found {
    /// `None` if the run did not come to its summary.
    fn in_summary(printed: &str, status: ExitStatus) -> Option<Found> {
        let from = printed.lines().position(|line| is_figure(line, "timer"))?;
        let mut lines = printed.lines().skip(from);
        let figures = lines
            .by_ref()
            .take_while(|line| !line.is_empty())
            .filter_map(summary::figure)
            .collect();
        Some(Found {
            figures,
            verdict: lines.map(str::to_string).collect(),
            has_passed: status.success(),
        })
    }

    fn figure(&self, what: &str) -> Option<&str> {
        let (_, value) = self.figures.iter().find(|(known, _)| known == what)?;
        Some(value)
    }

    /// The number that a figure begins with.
    fn number(&self, what: &str) -> Option<f64> {
        let number = self.figure(what)?.split(' ').next()?;
        number.replace(',', "").parse().ok()
    }

    fn nanos_for_a_heartbeat(&self) -> Option<f64> {
        let heartbeats = self.number("heartbeats").filter(|count| *count > 0.0)?;
        Some(self.number("CPU time, server")? * 1e9 / heartbeats)
    }
}

fn is_figure(line: &str, what: &str) -> bool {
    summary::figure(line).is_some_and(|(known, _)| known == what)
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { tickwheel, tokio } = self;
        let mut line =
            |what: &str, ours: &str, other: &str| writeln!(f, "{what:<36}{ours:>14}{other:>14}");
        for (what, ours) in &tickwheel.figures {
            line(what, ours, tokio.figure(what).unwrap_or("-"))?;
        }
        for (what, other) in &tokio.figures {
            if tickwheel.figure(what).is_none() {
                line(what, "-", other)?;
            }
        }
        let [ours, other] = [tickwheel, tokio].map(|found| {
            let nanos = found.nanos_for_a_heartbeat();
            nanos.map_or("-".to_string(), |nanos| format!("{:.2} us", nanos / 1e3))
        });
        line("the server's CPU for a heartbeat", &ours, &other)?;
        let verdict = |found: &Found| if found.has_passed { "passed" } else { "failed" };
        line("verdict", verdict(tickwheel), verdict(tokio))?;

        let closed = "live connections closed";
        if let (Some(ours), Some(other)) = (tickwheel.figure(closed), tokio.figure(closed)) {
            write!(
                f,
                "\nConnections that were closed although their clients had sent in time:\n\
                 {ours} with tickwheel, {other} with tokio's timers."
            )?;
            if let Some(pause) = tickwheel.figure(summary::STOPPED) {
                write!(f, " The server was stopped for {pause}.")?;
            }
        }
        if !tickwheel.has_passed {
            for line in &tickwheel.verdict {
                write!(f, "\n{line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(printed: &str) -> Found {
        Found::in_summary(printed, ExitStatus::default()).expect("there is a summary")
    }

    fn line(what: &str, value: &str) -> String {
        format!("{what:<36}{value:>14}\n")
    }

    #[test]
    fn two_summaries_stand_side_by_side_within_80_columns() {
        let shared = [
            line("heartbeats", "1,000"),
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
            line("live connections closed", "3"),
            line("errors of accept", "1"),
        );
        let comparison = Comparison {
            tickwheel: found(&ours),
            tokio: found(&other),
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
        assert_eq!(row("errors of accept"), ["-", "1"]);
        assert_eq!(
            row("the server's CPU for a heartbeat"),
            ["500.00", "us", "500.00", "us"]
        );
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
}
