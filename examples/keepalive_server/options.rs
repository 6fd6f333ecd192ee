//! The command line, checked: what comes out of here can be run.

use std::net::SocketAddr;
use std::thread::available_parallelism;
use std::{fmt, io};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, value_parser};
use indicatif::HumanCount;
use tickwheel::Duration;

use crate::timer::TimerKind;

/// A keepalive server on loopback, with the load to try it and a verdict on its deadlines
#[derive(Debug, Parser)]
#[command(name = "keepalive_server")]
#[command(after_help = "Durations are milliseconds (1500) or have units (1500ms, 2s, 1m 30s).")]
pub(crate) struct Options {
    /// Client connections; fewer where the limit on open files does not allow so many
    #[arg(long, value_name = "COUNT", default_value = "5000", value_parser = count(1_000_000))]
    pub(crate) connections: usize,

    /// The server closes a connection when it has heard nothing for this long
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) timeout: Duration,

    /// The longest pause between two heartbeats of a client; each is random, from a tenth of this
    /// on
    ///
    /// At most half of the timeout. The rest is room for a machine under load. A heartbeat may be
    /// late because the client or the server had to wait for a processor. Then the timer is not at
    /// fault.
    #[arg(long, value_name = "DURATION", default_value = "700ms", value_parser = duration)]
    pub(crate) heartbeat: Duration,

    /// The share of the clients that fall silent at a random moment, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.3", value_parser = share)]
    pub(crate) silent: f64,

    /// How long the clients send; longer than the timeout
    #[arg(long, value_name = "DURATION", default_value = "12s", value_parser = duration)]
    pub(crate) run_time: Duration,

    /// Stop the server's process for this long in the middle of the run, while the clients go on
    ///
    /// As a virtual machine that is migrated, or a container that is throttled. The heartbeats of
    /// that time lie unread in the sockets, so no client that sends is to be closed for it.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) pause: Option<Duration>,

    /// Run twice, on tickwheel's timers and on tokio's own, and print both summaries side by side
    ///
    /// Each run is stopped in its middle for twice the timeout, or for less if it is short, unless
    /// --pause says otherwise. It passes if tickwheel's run does.
    #[arg(long, conflicts_with_all = ["timer", "admin_port", "metrics_port"])]
    pub(crate) compare: bool,

    /// The timer that the server and its clients wait by
    #[arg(long, value_enum, default_value_t = TimerKind::Tickwheel)]
    pub(crate) timer: TimerKind,

    /// Worker threads of the runtime
    #[arg(long, value_name = "COUNT", default_value_t = processors(), value_parser = count(256))]
    pub(crate) workers: usize,

    /// The loopback port that takes an operator's commands; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) admin_port: u16,

    /// The loopback port that serves /metrics over HTTP, for Prometheus; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) metrics_port: u16,

    /// Be the clients of a server that listens there. What the program calls itself with
    #[arg(long, hide = true)]
    pub(crate) load_for: Option<SocketAddr>,
}

impl Options {
    /// Takes the options from the command line, or ends the process with a word on what is wrong
    /// with them.
    pub(crate) fn from_command_line() -> Options {
        let mut options = Options::parse();
        if options.compare && cfg!(unix) {
            options.pause = options.pause.or(options.pause_that_fits());
        }
        if let Err(contradiction) = options.check() {
            Options::command()
                .error(ErrorKind::ValueValidation, contradiction)
                .exit();
        }
        options
    }

    /// How many of the first `connections` clients fall silent.
    pub(crate) fn silent_among(&self, connections: usize) -> usize {
        (connections as f64 * self.silent).round() as usize
    }

    /// The command line of the load's process.
    pub(crate) fn for_the_load(&self, server: SocketAddr) -> Vec<String> {
        let mut arguments = self.for_a_run_on(self.timer);
        arguments.push(format!("--load-for={server}"));
        arguments
    }

    /// The command line of the same run on that timer.
    pub(crate) fn for_a_run_on(&self, timer: TimerKind) -> Vec<String> {
        let duration = |duration| humantime::format_duration(duration).to_string();
        let mut arguments = vec![
            format!("--connections={}", self.connections),
            format!("--timeout={}", duration(self.timeout)),
            format!("--heartbeat={}", duration(self.heartbeat)),
            format!("--silent={}", self.silent),
            format!("--run-time={}", duration(self.run_time)),
            format!("--timer={timer}"),
            format!("--workers={}", self.workers),
        ];
        arguments.extend(
            self.pause
                .map(|pause| format!("--pause={}", duration(pause))),
        );
        arguments
    }

    /// How long the run goes before the pause.
    pub(crate) fn before_pause(&self) -> Duration {
        self.run_time.saturating_sub(self.pause.unwrap_or_default()) / 2
    }

    /// For how long a comparison stops its runs. The clients live for a timeout before that and
    /// after it.
    fn pause_that_fits(&self) -> Option<Duration> {
        let room = self.run_time.checked_sub(self.timeout * 2)?;
        Some(room.min(self.timeout * 2)).filter(|pause| *pause > Duration::ZERO)
    }

    /// What no single option can know of the others.
    fn check(&self) -> Result<(), String> {
        let Options {
            timeout,
            heartbeat,
            run_time,
            ..
        } = self;
        if *heartbeat > *timeout / 2 {
            return Err(format!(
                "--heartbeat {heartbeat:?} is too long for --timeout {timeout:?}: \
                 it may be half of the timeout at most, or live clients would be closed on a busy machine"
            ));
        }
        if run_time <= timeout {
            return Err(format!(
                "--run-time {run_time:?} is too short for --timeout {timeout:?}: \
                 it must be longer, or no client that falls silent could be closed while the others live"
            ));
        }
        if let Some(pause) = self.pause {
            if cfg!(not(unix)) {
                return Err(
                    "--pause needs the signals STOP and CONT, which only Unix has".to_string(),
                );
            }
            if self.before_pause() < *timeout {
                return Err(format!(
                    "--run-time {run_time:?} is too short for --pause {pause:?}: \
                     it must be longer by twice the --timeout, so that the clients live before it and after it"
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} connections for {:?}, of which {} fall silent;\n\
             timeout {:?}, heartbeats at most {:?} apart, worker threads: {}, timer: {}",
            HumanCount(self.connections as u64),
            self.run_time,
            HumanCount(self.silent_among(self.connections) as u64),
            self.timeout,
            self.heartbeat,
            self.workers,
            self.timer,
        )
    }
}

fn processors() -> usize {
    available_parallelism().map_or(1, |processors| processors.get().min(256))
}

fn count(most: u64) -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser as _;
    value_parser!(u64)
        .range(1..=most)
        .map(|count| count as usize)
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text
        .parse()
        .map_err(|_| "it must be a number from 0 to 1".to_string())?;
    if !(0.0..=1.0).contains(&share) {
        return Err("it must lie between 0 and 1".to_string());
    }
    Ok(share)
}

// Durations as people write them, on the command line and to the admin port.

/// The longest duration that is allowed, so that the run ends and no instant overflows.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Milliseconds (`1500`), or with units (`1500ms`, `2s`, `1m 30s`). The error says what is wrong,
/// as half a sentence.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration = match text.trim().parse() {
        Ok(millis) => Duration::from_millis(millis),
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    if duration < Duration::from_millis(1) {
        return Err("it must be one millisecond at least".to_string());
    }
    if duration > LONGEST {
        return Err("it must be a day at most".to_string());
    }
    Ok(duration)
}

// How many connections the system's limit on open files allows, once it is raised as far as the
// system lets it.

/// For all but the connections, of which each is one socket in the server's process and one in the
/// load's: the standard streams, the listeners, the admin's sessions, the runtime's own, what the
/// process was started with.
const OTHER_FILES: u64 = 64;

/// Raises the limit to what `wanted` connections need, and gives how many of them fit. Prints a
/// line if not all of them fit.
pub(crate) fn connections_allowed(wanted: usize) -> io::Result<usize> {
    let needed = wanted as u64 + OTHER_FILES;
    let limit = match rlimit::increase_nofile_limit(needed) {
        Ok(limit) => limit,
        Err(error) => {
            eprintln!("The limit on open files could not be raised: {error}.");
            current_limit()?
        }
    };
    if limit >= needed {
        return Ok(wanted);
    }
    let allowed = limit.saturating_sub(OTHER_FILES);
    if allowed == 0 {
        return Err(io::Error::other(format!(
            "the limit of {limit} open files leaves none for connections; raise it with `ulimit -n`"
        )));
    }
    eprintln!(
        "The limit on open files may not be raised above {limit}, and {wanted} connections need {needed}: \
         going on with {allowed} connections. To allow more, raise the hard limit (`ulimit -Hn`)."
    );
    Ok(allowed as usize)
}

#[cfg(unix)]
fn current_limit() -> io::Result<u64> {
    rlimit::Resource::NOFILE.get_soft()
}

/// Elsewhere sockets are not counted as files.
#[cfg(not(unix))]
fn current_limit() -> io::Result<u64> {
    Ok(u64::MAX)
}
