//! The verdict and the table at the end.

use std::fmt;

use cpu_time::ProcessTime;
use indicatif::HumanCount;
use tickwheel::{Duration, Metrics};

use crate::load::Clients;
use crate::server::Report;

/// All that is known when the run is over.
pub(crate) struct Summary {
    pub(crate) clients: Clients,
    pub(crate) server: Report,
    pub(crate) timer: Metrics,
    pub(crate) wall_time: Duration,
}

impl Summary {
    pub(crate) fn has_passed(&self) -> bool {
        self.violations().is_empty()
    }

    /// What must not be, in words; nothing if all is well.
    fn violations(&self) -> Vec<String> {
        let Summary {
            clients, server, ..
        } = self;
        let soonest = server.early.iter().min().copied().unwrap_or_default();
        let closed_early = format!(
            "closed early: the timeout is {:?}, and the soonest was closed {soonest:?} after its last reset",
            server.site.timeout
        );
        let longest = clients.closed_in_time.iter().max().copied();
        let closed_in_time = format!(
            "closed although they sent in time, never more than {:?} apart",
            longest.unwrap_or_default()
        );
        let mut violations: Vec<String> = [
            (server.early.len(), &*closed_early),
            (clients.closed_in_time.len(), &*closed_in_time),
            (
                clients.left_open,
                "not closed although they had fallen silent",
            ),
            (server.cancelled, "deadlines cancelled, by nobody"),
            (clients.stuck, "clients without an end"),
            (
                server.cut_off,
                "connections still open when all clients had gone",
            ),
            (clients.panics + server.panics, "tasks panicked"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", human(count as u64)))
        .collect();
        if clients.not_connected == clients.total {
            violations.push("no client could connect, so nothing was tried".to_string());
        }
        violations
    }

    fn praise(&self) -> &'static str {
        if self.clients.interrupted > 0 {
            "Interrupted; until then no connection was closed early, and none that sent in time."
        } else {
            "Passed: no connection closed early, none that sent in time, and each that fell silent."
        }
    }

    /// What every run has to tell.
    fn figures(&self) -> Vec<(&'static str, String)> {
        let Summary {
            clients,
            server,
            timer,
            wall_time,
        } = self;
        let counters = &server.site.counters;
        let late = |micros: u64| match server.late.len() {
            0 => "-".to_string(),
            _ => format!("{:.3} ms", micros as f64 / 1000.0),
        };
        vec![
            ("connections served", human(counters.served.get())),
            ("heartbeats", human(counters.heartbeats.get())),
            ("resets", human(counters.resets.get())),
            (
                "closed by deadline",
                human(counters.closed_by_deadline.get()),
            ),
            (
                "closed by the client",
                human(counters.closed_by_client.get()),
            ),
            (
                "closed late by, p50",
                late(server.late.value_at_quantile(0.5)),
            ),
            (
                "closed late by, p99",
                late(server.late.value_at_quantile(0.99)),
            ),
            ("closed late by, max", late(server.late.max())),
            (
                "clients that fell silent, closed",
                human(clients.closed_when_silent as u64),
            ),
            ("clients that lived to the end", human(clients.lived as u64)),
            ("wall time", seconds(*wall_time)),
            (
                "CPU time, server and clients",
                ProcessTime::try_now()
                    .map_or("unknown".to_string(), |time| seconds(time.as_duration())),
            ),
            ("timers armed", human(timer.armed)),
            ("wake-ups of the timer's driver", human(timer.wake_ups)),
        ]
    }

    /// What is worth a line if there was any.
    fn incidents(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Summary {
            clients, server, ..
        } = self;
        let counters = &server.site.counters;
        [
            ("clients that never connected", clients.not_connected as u64),
            ("clients cut short by Ctrl-C", clients.interrupted as u64),
            (
                "clients late themselves, and closed",
                clients.excused as u64,
            ),
            ("kept open at the second look", counters.second_looks.get()),
            ("errors of accept", counters.accept_errors.get()),
            ("errors of connections", counters.connection_errors.get()),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| (what, human(count)))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, value) in self.figures().into_iter().chain(self.incidents()) {
            writeln!(f, "{what:<36}{value:>14}")?;
        }
        if let Some(error) = &self.clients.first_connect_error {
            writeln!(f, "\nThe first client that never connected: {error}.")?;
        }
        let violations = self.violations();
        for violation in &violations {
            write!(f, "\nVIOLATION: {violation}")?;
        }
        if violations.is_empty() {
            write!(f, "\n{}", self.praise())?;
        }
        Ok(())
    }
}

fn human(count: u64) -> String {
    HumanCount(count).to_string()
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}
