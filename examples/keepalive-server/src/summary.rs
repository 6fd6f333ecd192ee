//! The verdict and the table at the end.
//!
//! A client that was held up is excused, because it cannot know what held it up. But a server that
//! holds up everything must not pass for that reason. So half of the clients must be judged, and no
//! closing may be later than [`grace`].
//!
//! A row that would show 0 is left out, but for the one that the verdict is about.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cpu_time::ProcessTime;
use hdrhistogram::Histogram;
use tickwheel::Duration;

use crate::load::{Clients, Outcome, grace};
use crate::server::{Report, Site};
use crate::stall::Cause;

/// The line about clients that were in time.
pub(crate) const LIVE_CLOSED: &str = "live connections closed";

/// How wide the columns of the table are.
const NAME: usize = 40;
const VALUE: usize = 14;

/// The figure in a row of the table.
pub(crate) fn figure<'a>(table: &'a str, row: &str) -> Option<&'a str> {
    let line = table.lines().find_map(|line| line.strip_prefix(row))?;
    Some(line.trim())
}

/// All that is known when the run is over.
pub(crate) struct Summary {
    pub(crate) clients: Clients,
    pub(crate) site: Arc<Site>,
    pub(crate) server: Report,
    /// What has held up the server, and for how long.
    pub(crate) stall: Option<(Cause, Duration)>,
}

impl Summary {
    pub(crate) fn has_passed(&self) -> bool {
        self.violations().is_empty()
    }

    /// The violations, in words; none if all is well.
    fn violations(&self) -> Vec<String> {
        let (clients, server) = (&self.clients, &self.server);
        let count = |outcome| clients.count(outcome);
        let stall = self.stall.map(|(_, length)| length);
        let soonest = server.early.iter().min();
        let early = format!("closed early, the soonest {soonest:?} after its last reset");
        let gap = clients.values(Outcome::ClosedInTime).next();
        let in_time = format!("closed although they sent in time, one with no gap above {gap:?}");
        let late = server.late.iter().filter(|late| **late > grace(stall));
        // A verdict on few clients is none, because the server may have held up the others.
        let unjudged = count(Outcome::NotConnected) + count(Outcome::Excused);
        let total = clients.0.len();
        let is_verdict = total > 0 && unjudged <= total / 2;
        let violations = [
            (server.early.len(), &*early),
            (count(Outcome::ClosedInTime), &*in_time),
            (count(Outcome::LeftOpen), "fell silent and were not closed"),
            (server.cut_off, "connections left when all clients had gone"),
            (count(Outcome::Panicked) + server.panics, "tasks panicked"),
            (late.count(), "closed too late"),
        ];
        let violations = violations.into_iter().filter(|(count, _)| *count > 0);
        let unjudged = format!("{unjudged} never connected, or were late themselves");
        violations
            .map(|(count, what)| format!("{count} {what}"))
            .chain((!is_verdict).then_some(unjudged))
            .collect()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clients, server) = (&self.clients, &self.server);
        let metrics = self.site.timer.metrics();
        let heartbeats = self.site.heartbeats.load(Ordering::Relaxed);
        let [p50, p99, max] = late(&server.late);
        let count = |outcome| clients.count(outcome).to_string();
        let silent = count(Outcome::ClosedWhenSilent);
        let cause = self
            .stall
            .map_or("-", |(cause, _)| cause.name())
            .to_string();
        let held_up = seconds(self.stall.map_or(Duration::ZERO, |(_, length)| length));
        let cpu = ProcessTime::now().as_duration();
        let each = cpu.as_secs_f64() * 1e6 / heartbeats.max(1) as f64;
        let by_deadline = server.late.len() + server.early.len();
        let rows = [
            ("way", self.site.way.name()),
            ("connections served", server.served.to_string()),
            ("heartbeats", heartbeats.to_string()),
            ("closed by deadline", by_deadline.to_string()),
            ("closed by the client", server.closed_by_client.to_string()),
            ("closed late by, p50", p50),
            ("closed late by, p99", p99),
            ("closed late by, max", max),
            ("silent connections closed", silent),
            (LIVE_CLOSED, count(Outcome::ClosedInTime)),
            ("clients that lived to the end", count(Outcome::Lived)),
            ("CPU time, server", seconds(cpu)),
            ("the server's CPU for a heartbeat", format!("{each:.2} us")),
            ("the server was held up by", cause),
            ("the server was held up for", held_up),
            ("stalls of the timer's driver", metrics.stalls().to_string()),
            ("deadlines given a grace", metrics.spared().to_string()),
            ("clients that never connected", count(Outcome::NotConnected)),
            ("closed, but late themselves", count(Outcome::Excused)),
            ("errors of accept", server.accept_errors.to_string()),
            ("errors of connections", server.socket_errors.to_string()),
        ];
        for (what, value) in rows {
            if what == LIVE_CLOSED || !["0", "-", "0.00 s"].contains(&&*value) {
                writeln!(f, "{what:<NAME$}{value:>VALUE$}")?;
            }
        }
        if let Some(error) = clients.values(Outcome::NotConnected).next() {
            writeln!(f, "\nThe first client that never connected: {error}.")?;
        }
        let violations = self.violations();
        for violation in &violations {
            writeln!(f, "\nVIOLATION: {violation}")?;
        }
        if violations.is_empty() {
            f.write_str("\nPassed: no live connection was closed, and all silent ones were.\n")?;
        }
        if self.stall.is_some() && !server.late.is_empty() {
            f.write_str(
                "\nA deadline that passes in the stall is late by the rest of it. A `Deadline`\n\
                 then has a grace, so that heartbeats that lie unread are read first.",
            )?;
        }
        Ok(())
    }
}

/// The median, what 99 % do not exceed, and the largest.
fn late(all: &[Duration]) -> [String; 3] {
    let mut micros = Histogram::<u64>::new(3).expect("three digits are allowed");
    all.iter()
        .for_each(|late| micros += late.as_micros() as u64);
    [0.5, 0.99, 1.0].map(|share| {
        if all.is_empty() {
            "-".to_string()
        } else {
            format!("{:.1} ms", micros.value_at_quantile(share) as f64 / 1e3)
        }
    })
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
