//! The verdict and the table at the end.
//!
//! A client that was held up is excused, because it cannot tell what held it up. But a server that
//! holds up everything must not pass for that reason. So half of the clients must be judged, and no
//! closing may be later than [`grace`].
//!
//! A connection that was silent through a stall is closed after its grace, not late. So what was
//! closed after a stall has rows of its own, and the others tell how late the timer is.
//!
//! A row that would show 0 is left out, but for the one that the verdict is about.

use std::sync::Arc;
use std::{fmt, io};

use cpu_time::ProcessTime;
use tickwheel::Duration;
use tokio::process::Command;

use crate::keepalives::TimerKind;
use crate::load::{Clients, grace};
use crate::server::{Report, Site};

/// The line about the pause.
pub(crate) const STOPPED: &str = "the server's process was stopped for";

/// The line about clients that were in time.
pub(crate) const LIVE_CLOSED: &str = "live connections closed";

/// How wide the columns of the table are.
pub(crate) const NAME: usize = 40;
pub(crate) const VALUE: usize = 14;

/// What a line of the table says, and how much.
pub(crate) fn figure(line: &str) -> Option<(String, String)> {
    let (what, value) = line.split_at_checked(NAME)?;
    Some((what.trim_end().to_string(), value.trim().to_string()))
}

/// All that is known when the run is over.
pub(crate) struct Summary {
    pub(crate) clients: Clients,
    pub(crate) site: Arc<Site>,
    pub(crate) server: Report,
    pub(crate) timer: TimerKind,
    /// How long the server's process was stopped.
    pub(crate) pause: Duration,
    pub(crate) wall_time: Duration,
}

impl Summary {
    pub(crate) fn has_passed(&self) -> bool {
        self.violations().is_empty()
    }

    /// The violations, in words; none if all is well.
    fn violations(&self) -> Vec<String> {
        let (clients, server) = (&self.clients, &self.server);
        let soonest = server.early.iter().min().copied().unwrap_or_default();
        let closed_early = format!(
            "closed early: the timeout is {:?}, and the soonest was closed {soonest:?} after its last reset",
            self.site.timeout
        );
        let in_time = &clients.closed_in_time;
        let longest = in_time.iter().max().copied().unwrap_or_default();
        let closed_in_time =
            format!("closed although they sent in time, never more than {longest:?} apart");
        let late = server.late.iter().chain(&server.late_after_stall);
        let latest = late.max().copied().unwrap_or_default();
        let violations = [
            (server.early.len(), &*closed_early),
            (in_time.len(), &*closed_in_time),
            (
                clients.left_open,
                "not closed although they had fallen silent",
            ),
            (server.cut_off, "connections left when all clients had gone"),
            (clients.panics + server.panics, "tasks panicked"),
        ];
        let violations = violations.into_iter().filter(|(count, _)| *count > 0);
        let too_late = latest > grace(self.pause);
        violations
            .map(|(count, what)| format!("{count} {what}"))
            .chain(too_late.then(|| format!("a connection was closed {latest:?} late")))
            .chain(self.too_little_tried())
            .collect()
    }

    /// A verdict on few clients is none, because the server may have held up the others.
    fn too_little_tried(&self) -> Option<String> {
        let clients = &self.clients;
        if clients.not_connected == clients.total {
            return Some("no client could connect, so nothing was tried".to_string());
        }
        let unjudged = clients.not_connected + clients.excused;
        (unjudged > clients.total / 2).then(|| {
            format!(
                "{unjudged} of {} clients cannot be judged: they never connected, or were late themselves",
                clients.total
            )
        })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clients, server) = (&self.clients, &self.server);
        let metrics = self.site.keepalives.metrics();
        let counters = &self.site.counters;
        let mut row = |what: &str, value: &dyn fmt::Display| {
            let value = value.to_string();
            let is_nothing = ["0", "-", "0.00 s"].contains(&&*value) && what != LIVE_CLOSED;
            if is_nothing {
                return Ok(());
            }
            writeln!(f, "{what:<NAME$}{value:>VALUE$}")
        };
        row("timer", &self.timer.name())?;
        row("connections served", &counters.served.get())?;
        row("heartbeats", &counters.heartbeats.get())?;
        row("resets", &counters.resets.get())?;
        row("closed by deadline", &counters.closed_by_deadline.get())?;
        let after_stall = server.late_after_stall.len();
        row("of these, closed after a stall", &after_stall)?;
        row("closed by the client", &counters.closed_by_client.get())?;
        let [p50, p99, max] = late(&server.late);
        row("closed late by, p50", &p50)?;
        row("closed late by, p99", &p99)?;
        row("closed late by, max", &max)?;
        let [_, _, max] = late(&server.late_after_stall);
        row("closed after a stall, late by, max", &max)?;
        row(
            "silent clients that were closed",
            &clients.closed_when_silent,
        )?;
        row(LIVE_CLOSED, &clients.closed_in_time.len())?;
        row("clients that lived to the end", &clients.lived)?;
        row("wall time", &seconds(self.wall_time))?;
        if let Ok(cpu) = ProcessTime::try_now() {
            let cpu = cpu.as_duration();
            let each = cpu.as_secs_f64() * 1e6 / counters.heartbeats.get().max(1) as f64;
            row("CPU time, server", &seconds(cpu))?;
            row("the server's CPU for a heartbeat", &format!("{each:.2} us"))?;
        }
        if self.pause > Duration::ZERO {
            row(STOPPED, &seconds(self.pause))?;
        }
        if let Some(metrics) = &metrics {
            row("timers armed", &metrics.armed)?;
            row("deadlines put off when they came", &metrics.rescheduled)?;
            row("wake-ups of the timer's driver", &metrics.wake_ups)?;
            row("stalls of the timer's driver", &metrics.stalls)?;
            row("stalled for, in all", &seconds(metrics.stalled))?;
            row("deadlines given a grace by a stall", &metrics.spared)?;
        }
        row("clients that never connected", &clients.not_connected)?;
        row("clients cut short by Ctrl-C", &clients.interrupted)?;
        row("clients late themselves, and closed", &clients.excused)?;
        row("errors of accept", &counters.accept_errors.get())?;
        row("errors of connections", &counters.connection_errors.get())?;
        if let Some(error) = &clients.first_connect_error {
            writeln!(f, "\nThe first client that never connected: {error}.")?;
        }
        let violations = self.violations();
        for violation in &violations {
            write!(f, "\nVIOLATION: {violation}")?;
        }
        if violations.is_empty() {
            f.write_str(match clients.interrupted {
                0 => "\nPassed: nobody was closed early or while sending, and all that fell silent were.",
                _ => "\nInterrupted; until then nobody was closed early or while sending.",
            })?;
            if self.pause > Duration::ZERO && metrics.is_some() && after_stall > 0 {
                let [pause, grace] = [self.pause, self.pause.min(self.site.timeout)].map(seconds);
                write!(
                    f,
                    "\nThose that were closed after a stall are not late: a deadline that passes in the\n\
                     pause of {pause} stays pending until its end, and then for a grace of at most\n\
                     {grace}, so that heartbeats that lie unread are read first."
                )?;
            }
        }
        Ok(())
    }
}

/// The median, what 99 % do not exceed, and the largest.
pub(crate) fn late(all: &[Duration]) -> [String; 3] {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    [0.5, 0.99, 1.0].map(|share| {
        let rank = (sorted.len() as f64 * share).ceil() as usize;
        let late = sorted.get(rank.saturating_sub(1));
        late.map_or("-".to_string(), |late| {
            format!("{:.3} ms", late.as_secs_f64() * 1e3)
        })
    })
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

/// Stops this process for a while, as a virtual machine that is migrated or a container that is
/// throttled: no thread runs, and then all go on.
///
/// A process that is stopped cannot wake itself, so the child sends both signals.
pub(crate) async fn stop_this_process(pause: Duration) -> io::Result<()> {
    // Ctrl-C is for the whole group. A child that it ended would leave this process stopped.
    let script = r#"trap '' INT; kill -STOP "$1" && sleep "$2" && kill -CONT "$1""#;
    let status = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::process::id().to_string())
        .arg(format!("{:.3}", pause.as_secs_f64()))
        .status()
        .await?;
    let problem = format!("this process could not be stopped and let go on: {status}");
    status
        .success()
        .then_some(())
        .ok_or(io::Error::other(problem))
}
