//! The same run on both timers, one after the other, and their summaries side by side.
//!
//! Each run is a process of its own, this program with `--timer`. So neither inherits the other's
//! heap, sockets or CPU time. The processor is the same, and so are the options. Nothing in this
//! package turns on tokio's `test-util`, so the CPU time is that of a program in service.

use std::process::ExitStatus;
use std::{fmt, io};

use crate::keepalives::TimerKind;
use crate::options::Options;
use crate::summary::{self, NAME, VALUE};

/// What was found of each timer.
pub(crate) struct Comparison {
    pub(crate) tickwheel: Found,
    pub(crate) tokio: Found,
    pub(crate) warning: Option<String>,
}

/// What one run printed of itself.
pub(crate) struct Found {
    /// The lines of the summary: what, and how much.
    figures: Vec<(String, String)>,
    /// What stands below them.
    verdict: String,
    has_passed: bool,
}

impl Comparison {
    /// Makes both runs. `tell` prints a line.
    pub(crate) async fn make(options: &Options, tell: impl Fn(&str)) -> io::Result<Comparison> {
        let warning = options.pause_is_too_short();
        warning.iter().for_each(|warning| tell(warning));
        let interrupted = tokio::spawn(tokio::signal::ctrl_c());
        tell("Run 1 of 2, by the timers of tickwheel …");
        let tickwheel = run(options, TimerKind::Tickwheel).await?;
        if interrupted.is_finished() {
            return Err(io::Error::other("interrupted before both had run"));
        }
        tell("Run 2 of 2, by the timers of tokio …");
        let tokio = run(options, TimerKind::Tokio).await?;
        Ok(Comparison {
            tickwheel,
            tokio,
            warning,
        })
    }

    /// Whether tickwheel's run has. The other one may have closed live connections after the pause,
    /// which is what the comparison shows.
    pub(crate) fn has_passed(&self) -> bool {
        self.tickwheel.has_passed
    }
}

async fn run(options: &Options, timer: TimerKind) -> io::Result<Found> {
    let name = timer.name();
    let output = options.run_another(format!("--timer={name}")).await?;
    let printed = String::from_utf8_lossy(&output.stdout);
    Found::in_summary(&printed, output.status)
        .ok_or_else(|| io::Error::other(format!("the run on {name} ended with {}", output.status)))
}

impl Found {
    /// `None` if the run did not come to its summary.
    pub(crate) fn in_summary(printed: &str, status: ExitStatus) -> Option<Found> {
        let from = printed
            .lines()
            .position(|line| line.starts_with("timer  "))?;
        let mut lines = printed.lines().skip(from);
        let figures = lines
            .by_ref()
            .take_while(|line| !line.is_empty())
            .filter_map(summary::figure)
            .collect();
        Some(Found {
            figures,
            verdict: lines.collect::<Vec<_>>().join("\n"),
            has_passed: status.success(),
        })
    }

    fn figure(&self, what: &str) -> Option<&str> {
        let (_, value) = self.figures.iter().find(|(known, _)| known == what)?;
        Some(value)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tickwheel, tokio) = (&self.tickwheel, &self.tokio);
        let mut line = |what: &str, ours: &str, other: &str| {
            writeln!(f, "{what:<NAME$}{ours:>VALUE$}{other:>VALUE$}")
        };
        for (what, ours) in &tickwheel.figures {
            line(what, ours, tokio.figure(what).unwrap_or("-"))?;
        }
        // A summary leaves out the rows that are 0.
        for (what, other) in &tokio.figures {
            if tickwheel.figure(what).is_none() {
                line(what, "-", other)?;
            }
        }
        let verdict = |found: &Found| if found.has_passed { "passed" } else { "failed" };
        line("verdict", verdict(tickwheel), verdict(tokio))?;

        let closed = summary::LIVE_CLOSED;
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
        if let Some(warning) = &self.warning {
            write!(f, "\n{warning}")?;
        }
        if !tickwheel.has_passed {
            write!(f, "\n{}", tickwheel.verdict)?;
        }
        Ok(())
    }
}
