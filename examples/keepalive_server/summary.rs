//! The verdict and the table at the end.
//!
//! What the admin did is no violation, but it excuses nothing else. The clients know nothing of the
//! admin: one that was kicked or drained saw that it was closed though it was in time. The server
//! reports whose connections ended by a cancelled deadline, and whose were allowed a longer
//! silence. The verdict leaves out just those clients, each by its address. They connect once each,
//! so an address stands for one client. The server's report must not hold more cancelled deadlines
//! than the admin was told that it cancelled.
//!
//! A client that was held up is excused, because it cannot tell what held it up. But a server that
//! holds up everything must not pass for that reason. So half of the clients must be judged, and no
//! closing may be later than [`grace`].

use std::convert::Infallible;
use std::fmt;
use std::io::{self, IsTerminal};

use cpu_time::ProcessTime;
use hdrhistogram::Histogram;
use indicatif::{HumanCount, ProgressBar, ProgressFinish, ProgressStyle};
use tickwheel::{Duration, Metrics};
use tokio::process::Command;

use crate::load::{Clients, ClosedInTime, grace};
use crate::server::Report;
use crate::server::{Count, Counters};
use crate::timer::{AnyTimer, TimerKind};

/// The line about the pause.
pub(crate) const STOPPED: &str = "the server's process was stopped for";

/// How wide the first column of the table is.
const NAME: usize = 36;

/// What a line of the table says, and how much.
pub(crate) fn figure(line: &str) -> Option<(String, String)> {
    let (what, value) = line.split_at_checked(NAME)?;
    Some((what.trim_end().to_string(), value.trim().to_string()))
}

/// All that is known when the run is over.
pub(crate) struct Summary {
    pub(crate) clients: Clients,
    pub(crate) server: Report,
    pub(crate) timer: TimerKind,
    /// Of tickwheel's timer, if that was used.
    pub(crate) metrics: Option<Metrics>,
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
        let Summary {
            clients, server, ..
        } = self;
        let soonest = server.early.iter().min().copied().unwrap_or_default();
        let closed_early = format!(
            "closed early: the timeout is {:?}, and the soonest was closed {soonest:?} after its last reset",
            server.site.timeout
        );
        let in_time = self.closed_in_time();
        let longest = in_time.iter().map(|closed| closed.longest_gap).max();
        let closed_in_time = format!(
            "closed although they sent in time, never more than {:?} apart",
            longest.unwrap_or_default()
        );
        let mut violations: Vec<String> = [
            (server.early.len(), &*closed_early),
            (in_time.len(), &*closed_in_time),
            (
                self.left_open(),
                "not closed although they had fallen silent",
            ),
            (
                server.cancelled.saturating_sub(self.cancelled_by_admin()),
                "deadlines cancelled, by nobody",
            ),
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
        let latest = Duration::from_micros(server.closed_late.max());
        if latest > grace(self.pause) {
            violations.push(format!("a connection was closed {latest:?} late"));
        }
        violations.extend(self.too_little_tried());
        violations
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
                "{} of {} clients cannot be judged: they never connected, or were late themselves",
                human(unjudged as u64),
                human(clients.total as u64)
            )
        })
    }

    /// The clients that were closed in time, and not by the admin.
    fn closed_in_time(&self) -> Vec<&ClosedInTime> {
        let by_admin = &self.server.cancelled_clients;
        let closed = self.clients.closed_in_time.iter();
        closed
            .filter(|closed| !by_admin.contains(&closed.client))
            .collect()
    }

    /// How many clients fell silent and were not closed, though the admin had not allowed them a
    /// longer silence.
    fn left_open(&self) -> usize {
        let extended = &self.server.extended_clients;
        let left_open = self.clients.left_open.iter();
        left_open
            .filter(|client| !extended.contains(client))
            .count()
    }

    fn cancelled_by_admin(&self) -> usize {
        let counters = &self.server.site.counters;
        (counters.kicked.get() + counters.drained.get()) as usize
    }

    fn praise(&self) -> &'static str {
        if self.clients.interrupted > 0 {
            "Interrupted; until then nobody was closed early or while sending."
        } else {
            "Passed: nobody was closed early or while sending, and all that fell silent were."
        }
    }

    fn admin_has_acted(&self) -> bool {
        self.cancelled_by_admin() > 0 || self.server.site.counters.extended.get() > 0
    }

    /// What every run has to tell.
    fn figures(&self) -> Vec<(&'static str, String)> {
        let Summary {
            clients, server, ..
        } = self;
        let counters = &server.site.counters;
        let server_cpu = ProcessTime::try_now().map(|time| time.as_duration()).ok();
        vec![
            ("timer", self.timer.to_string()),
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
            ("deadline seen late by, p50", late(&server.seen_late, 0.5)),
            ("deadline seen late by, p99", late(&server.seen_late, 0.99)),
            ("deadline seen late by, max", late(&server.seen_late, 1.0)),
            ("closed late by, p50", late(&server.closed_late, 0.5)),
            ("closed late by, p99", late(&server.closed_late, 0.99)),
            ("closed late by, max", late(&server.closed_late, 1.0)),
            (
                "clients that fell silent, closed",
                human(clients.closed_when_silent as u64),
            ),
            (
                "live connections closed",
                human(self.closed_in_time().len() as u64),
            ),
            ("clients that lived to the end", human(clients.lived as u64)),
            ("wall time", seconds(self.wall_time)),
            ("CPU time, server", cpu_time(server_cpu)),
            ("CPU time, clients", cpu_time(clients.cpu_time)),
        ]
    }

    /// What tickwheel's timer tells of itself.
    fn timer_figures(&self) -> Vec<(&'static str, String)> {
        self.metrics.as_ref().map_or_else(Vec::new, |metrics| {
            vec![
                ("timers armed", human(metrics.armed)),
                ("wake-ups of the timer's driver", human(metrics.wake_ups)),
            ]
        })
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
            ("kicked by the admin", counters.kicked.get()),
            ("drained by the admin", counters.drained.get()),
            ("extended by the admin", counters.extended.get()),
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
        let paused = (self.pause > Duration::ZERO).then(|| (STOPPED, seconds(self.pause)));
        let figures = self.figures().into_iter().chain(paused);
        let figures = figures.chain(self.timer_figures());
        for (what, value) in figures.chain(self.incidents()) {
            writeln!(f, "{what:<NAME$}{value:>14}")?;
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
        if self.admin_has_acted() {
            write!(f, "\nWhat the admin did is left out of this verdict.")?;
        }
        Ok(())
    }
}

fn late(histogram: &Histogram<u64>, quantile: f64) -> String {
    if histogram.is_empty() {
        return "-".to_string();
    }
    let micros = histogram.value_at_quantile(quantile);
    format!("{:.3} ms", micros as f64 / 1000.0)
}

fn cpu_time(time: Option<Duration>) -> String {
    time.map_or("unknown".to_string(), seconds)
}

fn human(count: u64) -> String {
    HumanCount(count).to_string()
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

// The line on the terminal while the server runs. Where there is no terminal, indicatif draws
// nothing, and a line comes every few seconds.

const REFRESH: Duration = Duration::from_millis(100);

/// Where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(3);

// `wide_msg` is cut off where the terminal ends, so that the line never wraps.
const TEMPLATE: &str = "{spinner} {elapsed:>3} [{bar:10}] {wide_msg}";

/// Draws the line until it is dropped; then the line vanishes.
pub(crate) async fn show_progress(
    timer: &AnyTimer,
    run_time: Duration,
    counters: &Counters,
) -> Infallible {
    if !io::stderr().is_terminal() {
        loop {
            timer.sleep(LINE_EVERY).await;
            eprintln!("{}", describe(counters));
        }
    }
    let style = ProgressStyle::with_template(TEMPLATE)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    let bar = ProgressBar::new(run_time.as_millis() as u64)
        .with_style(style)
        .with_finish(ProgressFinish::AndClear);
    loop {
        bar.set_position(bar.elapsed().min(run_time).as_millis() as u64);
        bar.set_message(describe(counters));
        timer.sleep(REFRESH).await;
    }
}

fn describe(counters: &Counters) -> String {
    let human = |count: &Count| HumanCount(count.get());
    format!(
        "{} open, {} heartbeats, {} closed by deadline",
        human(&counters.open),
        human(&counters.heartbeats),
        human(&counters.closed_by_deadline),
    )
}

// Stops this process for a while, as a virtual machine that is migrated or a container that is
// throttled: no thread runs, and then all go on.

/// Stops this process as soon as a child of it can, and returns when it has gone on for a moment.
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
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "this process could not be stopped and let go on: {status}"
        )))
    }
}
