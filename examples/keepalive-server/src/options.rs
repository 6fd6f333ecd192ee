//! The command line, checked: what comes out of here can be run.

use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::{env, io};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use tickwheel::Duration;
use tokio::process::Command;

use crate::keepalives::TimerKind;

/// A keepalive server on loopback, with the load to try it and a verdict on its deadlines
#[derive(Debug, Parser)]
#[command(name = "keepalive-server")]
#[command(args_override_self = true)]
#[command(after_help = "Durations have units: 1500ms, 2s, 1m 30s.")]
pub(crate) struct Options {
    /// Client connections; fewer where the limit on open files does not allow so many
    #[arg(long, value_name = "COUNT", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connections: u32,

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
    #[arg(long, conflicts_with = "timer")]
    pub(crate) compare: bool,

    /// The timer of the server's deadlines
    #[arg(long, value_enum, default_value_t = TimerKind::Tickwheel)]
    pub(crate) timer: TimerKind,

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
            let mut command = Options::command();
            command
                .error(ErrorKind::ValueValidation, contradiction)
                .exit();
        }
        options
    }

    /// What is about to be run.
    pub(crate) fn headline(&self) -> String {
        let (timeout, heartbeat) = (self.timeout, self.heartbeat);
        let silent = self.silent_among(self.connections);
        let (connections, run_time) = (self.connections, self.run_time);
        format!(
            "{connections} connections for {run_time:?}, of which {silent} fall silent;\n\
             timeout {timeout:?}, heartbeats at most {heartbeat:?} apart"
        )
    }

    /// How many of the first `connections` clients fall silent.
    pub(crate) fn silent_among(&self, connections: u32) -> u32 {
        (f64::from(connections) * self.silent).round() as u32
    }

    /// Runs this program in another process with the same options, but for one that is given here.
    /// Ctrl-C reaches that process too, and ends it in order, so this one is not to end by it.
    pub(crate) async fn run_another(&self, option: String) -> io::Result<Output> {
        let ctrl_c = tokio::spawn(tokio::signal::ctrl_c());
        let pause = self.pause.map(humantime::format_duration);
        let own = env::args().skip(1).filter(|option| option != "--compare");
        let output = Command::new(env::current_exe()?)
            .args(own)
            .arg(format!("--connections={}", self.connections))
            .args(pause.map(|pause| format!("--pause={pause}")))
            .arg(option)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await;
        ctrl_c.abort();
        output
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

    /// A word of warning, if the pause is so short that it shows nothing: where a live connection
    /// is silent for less than the timeout, no timer closes it.
    pub(crate) fn pause_is_too_short(&self) -> Option<String> {
        let pause = self.pause.unwrap_or_default();
        (pause < self.timeout).then(|| {
            let (timeout, longer) = (self.timeout, self.timeout * 4);
            format!(
                "NOTE: a pause of {pause:?} is shorter than the --timeout of {timeout:?}. It may close no live\n\
                 connection on either timer, and shows little. Try --run-time {longer:?}."
            )
        })
    }

    /// What no single option can know of the others.
    fn check(&self) -> Result<(), String> {
        let (timeout, heartbeat, run_time) = (self.timeout, self.heartbeat, self.run_time);
        if heartbeat > timeout / 2 {
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
                let problem = "--pause needs the signals STOP and CONT, which only Unix has";
                return Err(problem.to_string());
            }
            if self.before_pause() < timeout {
                return Err(format!(
                    "--run-time {run_time:?} is too short for --pause {pause:?}: \
                     it must be longer by twice the --timeout, so that the clients live before it and after it"
                ));
            }
        }
        Ok(())
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("it must be a number from 0 to 1".to_string())
}

/// A duration as people write it. A day at most, so that the run ends and no instant overflows.
fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|problem| problem.to_string())?;
    match duration.as_millis() {
        1..=86_400_000 => Ok(duration),
        _ => Err("a duration must lie between 1ms and a day".to_string()),
    }
}

/// For all but the connections, of which each is one socket in the server's process and one in the
/// load's: the standard streams, the listener, the runtime's own, what the process was started
/// with.
const OTHER_FILES: u32 = 64;

/// Raises the system's limit on open files to what `wanted` connections need, and gives how many of
/// them fit. Prints a line if not all of them fit.
pub(crate) fn connections_allowed(wanted: u32) -> io::Result<u32> {
    let needed = wanted + OTHER_FILES;
    let limit = rlimit::increase_nofile_limit(needed.into())?;
    if limit >= needed.into() {
        return Ok(wanted);
    }
    let allowed = (limit as u32).saturating_sub(OTHER_FILES);
    eprintln!(
        "The limit on open files is {limit}, so {allowed} of {wanted} connections are made. \
         To allow more, raise the hard limit (`ulimit -Hn`)."
    );
    Ok(allowed)
}
