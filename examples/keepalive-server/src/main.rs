//! A keepalive server on real sockets, the load to try it with, and a verdict on whether its
//! deadlines held.
//!
//! For each connection one task awaits its deadline in a [`tickwheel::DeadlineMap`] while another
//! reads heartbeats and pushes the deadline back through its [`tickwheel::ResetHandle`]. With
//! `--timer tokio` the deadlines go by tokio's own timer instead, for a comparison. A connection
//! that falls silent is closed when its deadline expires. Thousands of clients in a second process
//! send the heartbeats. A share of them falls silent at a random moment, and leaves the socket
//! open. The others live until the end of the run.
//!
//! With `--pause 4s` the server's process is stopped for four seconds in the middle of the run. The
//! heartbeats that come meanwhile wait in the sockets. The verdict stays as strict: no connection
//! whose client has sent in time may be closed for it. With `--compare` it runs on tickwheel's
//! timers and then on tokio's, each time with such a pause, and prints both summaries side by side.
//!
//! ```text
//! cargo run --release -p keepalive-server
//! cargo run --release -p keepalive-server -- --compare
//! cargo run --release -p keepalive-server -- --connections 1000 --pause 4s
//! ```
//!
//! It exits with 0 if every deadline held. It exits with 1 if one did not, or if nothing could be
//! tried, and with 2 if the options make no sense. With `--compare` tickwheel's run alone decides,
//! because what tokio's run does after the pause is what the comparison shows. Ctrl-C ends the run
//! early, with the summary and the verdict so far. `connection.rs` and `load.rs` tell what counts
//! as a violation, and why a loaded machine does not raise a false one.

mod compare;
mod connection;
mod keepalives;
mod load;
mod options;
mod server;
mod summary;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use tickwheel::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::compare::Comparison;
use crate::load::Clients;
use crate::options::Options;
use crate::server::{Counters, Server};
use crate::summary::Summary;

/// Connections that have not ended this long after the last client has gone are cut off.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

/// How often a line tells how far the run is.
const PROGRESS_EVERY: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    match run(Options::from_command_line()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("keepalive-server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the run has passed.
fn run(mut options: Options) -> Result<bool, Box<dyn Error>> {
    options.connections = options::connections_allowed(options.connections)?;
    let runtime = Runtime::new()?;
    if let Some(server) = options.load_for {
        runtime.block_on(load::run(&options, server))?;
        return Ok(true);
    }
    if options.compare {
        let comparison = runtime.block_on(Comparison::make(&options, say))?;
        say(&format!("\n{comparison}"));
        return Ok(comparison.has_passed());
    }
    say(&options.headline());
    let summary = runtime.block_on(serve_under_load(&options))?;
    runtime.shutdown_timeout(SHUTDOWN_WITHIN);
    say(&summary.to_string());
    Ok(summary.has_passed())
}

async fn serve_under_load(options: &Options) -> io::Result<Summary> {
    let started = Instant::now();
    let server = Server::start(options.timer, options.timeout).await?;
    let site = server.site.clone();
    let load = options.run_another(format!("--load-for={}", server.address));
    let pause = async {
        sleep(options.before_pause()).await;
        if let Some(pause) = options.pause {
            site.set_paused(true);
            summary::stop_this_process(pause).await?;
            site.set_paused(false);
        }
        Ok(())
    };
    let load = tokio::select! {
        load = load => load?,
        Err(error) = pause => return Err(error),
        never = tell_progress(&site.counters) => match never {},
    };
    let clients = Clients::parse(&String::from_utf8_lossy(&load.stdout))
        .filter(|_| load.status.success())
        .ok_or_else(|| io::Error::other(format!("the load failed: {}", load.status)))?;
    Ok(Summary {
        clients,
        site,
        server: server.shut_down(SHUTDOWN_WITHIN).await,
        timer: options.timer,
        pause: options.pause.unwrap_or_default(),
        wall_time: started.elapsed(),
    })
}

async fn tell_progress(counters: &Counters) -> Infallible {
    loop {
        sleep(PROGRESS_EVERY).await;
        let (open, closed) = (counters.open.get(), counters.closed_by_deadline.get());
        let heartbeats = counters.heartbeats.get();
        eprintln!("{open} open, {heartbeats} heartbeats, {closed} closed by deadline");
    }
}

/// Prints a line as `println!` does. If stdout was cut off, as by `| head -1`, the program ends.
fn say(line: &str) {
    if writeln!(io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}
