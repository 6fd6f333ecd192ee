//! The command line, checked.

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::{env, io};

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, Parser};
use tickwheel::Duration;
use tokio::process::Command;

use crate::quota;
use crate::stall::Cause;
use crate::ways::Way;

/// A keepalive server on loopback, with the load to try it and a verdict on its deadlines
///
/// With --compare the defaults are those of README's table.
#[derive(Clone, Debug, Parser)]
#[command(name = "keepalive-server", args_override_self = true)]
#[command(after_help = "Durations have units: 1500ms, 2s, 1m 30s.")]
pub(crate) struct Options {
    /// Client connections
    #[arg(long, default_value = "5000")]
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,

    /// The server closes a connection when it has heard nothing for this long
    #[arg(long, default_value = "2s")]
    #[arg(value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// The time between two heartbeats of a client; at most half of the timeout, so that a live
    /// client is in time on a busy machine
    #[arg(long, default_value = "700ms")]
    #[arg(value_name = "DURATION", value_parser = duration)]
    pub(crate) heartbeat: Duration,

    /// How many of a hundred clients fall silent at a random moment
    #[arg(long, default_value = "30")]
    #[arg(value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) silent: u32,

    /// How long the clients send; longer than the timeout. In a comparison, this is the run with
    /// the longest stall, and a run with a shorter one ends sooner
    #[arg(long, default_value = "12s")]
    #[arg(value_name = "DURATION", value_parser = duration)]
    pub(crate) run_time: Duration,

    /// Hold up the server for this long in the middle of the run, while the clients go on. A
    /// comparison takes several, with commas between them
    #[arg(long = "stall", visible_alias = "pause", value_name = "DURATION")]
    #[arg(value_delimiter = ',', action = ArgAction::Set, value_parser = duration)]
    pub(crate) stalls: Vec<Duration>,

    /// What holds up the server. A comparison takes several
    #[arg(long = "cause", value_enum, default_value = "sigstop")]
    #[arg(value_delimiter = ',', action = ArgAction::Set)]
    pub(crate) causes: Vec<Cause>,

    /// Worker threads of the server, or 0 for a current-thread runtime. Without this option there
    /// are as many as processors
    #[arg(long, value_name = "COUNT")]
    pub(crate) workers: Option<usize>,

    /// Run the server in each way with each stall, and print how many live connections were closed
    #[arg(long, conflicts_with = "way")]
    pub(crate) compare: bool,

    /// How often each way runs with each stall in a comparison
    #[arg(long, value_name = "COUNT", default_value = "5", requires = "compare")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How the server finds that a connection is idle
    #[arg(long, value_enum, default_value_t = Way::Deadline)]
    pub(crate) way: Way,

    /// Be the clients of a server that listens there. What the program calls itself with
    #[arg(long, hide = true)]
    pub(crate) load_for: Option<SocketAddr>,
}

/// The defaults of a comparison.
const COMPARES: &str = "--connections=200 --timeout=500ms --heartbeat=50ms --silent=0 \
                        --run-time=2400ms --stall=300ms,900ms --cause=sigstop,blocked,quota";

impl Options {
    /// Of a command line whose first word is the program. An option that comes again replaces the
    /// first.
    pub(crate) fn of(line: impl IntoIterator<Item = String>) -> Options {
        let mut line: Vec<String> = line.into_iter().collect();
        if line.iter().any(|word| word == "--compare") {
            line.splice(1..1, COMPARES.split(' ').map(str::to_owned));
        }
        Options::parse_from(line)
    }

    /// Takes the options from the command line, or ends the process with a word on what is wrong
    /// with them.
    pub(crate) fn from_command_line() -> Options {
        let options = Options::of(env::args());
        let refuse = |problem| {
            Options::command()
                .error(ErrorKind::ValueValidation, problem)
                .exit()
        };
        options.check().unwrap_or_else(refuse);
        options
    }

    /// What is about to be run.
    pub(crate) fn headline(&self) -> String {
        let silent = self.silent_among(self.connections);
        let (timeout, heartbeat, run_time) = (self.timeout, self.heartbeat, self.run_time);
        format!(
            "{} connections for {run_time:?}, of which {silent} fall silent;\n\
             timeout {timeout:?}, a heartbeat each {heartbeat:?}",
            self.connections
        )
    }

    /// How many of the first `connections` clients fall silent.
    pub(crate) fn silent_among(&self, connections: u32) -> u32 {
        (u64::from(connections) * u64::from(self.silent) / 100) as u32
    }

    /// Runs this program in another process with the same load, in that way or as the clients.
    pub(crate) async fn run_another(&self, option: String) -> io::Result<Output> {
        let durations = [
            ("timeout", Some(self.timeout)),
            ("heartbeat", Some(self.heartbeat)),
            ("run-time", Some(self.run_time)),
            ("stall", self.stall()),
        ];
        let durations = durations.into_iter().filter_map(|(name, duration)| {
            let duration = humantime::format_duration(duration?);
            Some(format!("--{name}={duration}"))
        });
        let cause = self.causes.first().filter(|_| self.causes.len() == 1);
        Command::new(env::current_exe()?)
            .arg(format!("--connections={}", self.connections))
            .arg(format!("--silent={}", self.silent))
            .args(durations)
            .args(self.workers.map(|workers| format!("--workers={workers}")))
            .args(cause.map(|cause| format!("--cause={}", cause.name().to_lowercase())))
            .arg(option)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await
    }

    /// The stall of this run; of a comparison, the longest one.
    pub(crate) fn stall(&self) -> Option<Duration> {
        self.stalls.iter().max().copied()
    }

    /// How long a run goes before the stall, and at least as long after it.
    pub(crate) fn before_stall(&self) -> Duration {
        let stall = self.stall().unwrap_or_default();
        self.run_time.saturating_sub(stall) / 2
    }

    /// One run of this comparison. It has as much time before and after its stall as the others.
    pub(crate) fn with_stall(&self, cause: Cause, stall: Duration) -> Options {
        Options {
            run_time: 2 * self.before_stall() + stall,
            stalls: vec![stall],
            causes: vec![cause],
            ..self.clone()
        }
    }

    /// A stall up to this long closes no live connection. The last heartbeat lies at most
    /// `--heartbeat` before the stall, so the deadline that it has set lies after the stall.
    pub(crate) fn harmless_stall(&self) -> Duration {
        self.timeout.saturating_sub(self.heartbeat)
    }

    /// What no single option can know of the others.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let has_stall = !self.stalls.is_empty();
        let is_short = self.stall() <= Some(quota::LONGEST);
        let rules = [
            (
                self.heartbeat <= self.timeout / 2,
                "--heartbeat is too long: a live client would be closed on a busy machine",
            ),
            (
                self.run_time > self.timeout,
                "--run-time is not longer than --timeout: a silent client could not be closed",
            ),
            (
                is_short || !self.causes.contains(&Cause::Quota),
                "a --stall is too long for a quota, which holds up a process for 950ms at most",
            ),
            (
                !has_stall || self.before_stall() >= self.timeout,
                "--run-time is too short: it must have the --timeout before the stall and after it",
            ),
            (
                self.compare || self.stalls.len() <= 1,
                "only --compare takes more than one --stall: a run without it has one stall at most",
            ),
            (
                self.compare || self.causes.len() == 1,
                "only --compare takes more than one --cause",
            ),
        ];
        let broken = rules.into_iter().find(|(holds, _)| !holds);
        broken.map_or(Ok(()), |(_, problem)| Err(problem))
    }
}

/// A duration as people write it. A day at most, so that the run ends and no instant overflows.
fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|problem| problem.to_string())?;
    match duration.as_millis() {
        1..=86_400_000 => Ok(duration),
        _ => Err("a duration must lie between 1ms and a day".to_string()),
    }
}
