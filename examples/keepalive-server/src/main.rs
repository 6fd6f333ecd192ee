//! A keepalive server on real sockets, the load to try it with, and a verdict on whether its
//! deadlines held.
//!
//! For each connection one task awaits its deadline in a [`tickwheel::DeadlineMap`] while another
//! reads heartbeats and pushes the deadline back through its [`tickwheel::ResetHandle`]. With
//! `--way` the server does it otherwise. A connection that falls silent is closed when its deadline
//! expires. Thousands of clients in a second process send the heartbeats. A share of them falls
//! silent at a random moment, and leaves the socket open. The others live until the end of the run.
//!
//! With `--stall 4s` the server's process is stopped for four seconds in the middle of the run, and
//! heartbeats wait in the sockets. `--cause` blocks its workers instead, or uses up a CPU quota.
//! Still no live connection may be closed. With `--compare` the server runs in each way with each
//! cause and each of several stalls. The table says how many live connections they closed. A stall
//! that ends before the timeouts of live connections closes none in any way.
//!
//! ```text
//! cargo run --release -p keepalive-server
//! cargo run --release -p keepalive-server -- --compare
//! cargo run --release -p keepalive-server -- --compare --stall 400ms,500ms --cause sigstop
//! cargo run --release -p keepalive-server -- --connections 1000 --stall 4s
//! ```
//!
//! It exits with 0 if every deadline held, and with 1 if one did not, or if nothing could be tried.
//! With `--compare` the ways that have a grace decide. `connection.rs` and `load.rs` say
//! what counts as a violation, and why a loaded machine does not raise a false one.

mod changed_use;
mod compare;
mod connection;
mod load;
mod on_tokio;
mod options;
mod quota;
mod server;
mod stall;
mod summary;
#[cfg(test)]
mod tests;
mod ways;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use tickwheel::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use crate::load::Clients;
use crate::options::Options;
use crate::server::Server;
use crate::summary::Summary;

/// Connections that have not ended this long after the last client has gone are cut off.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

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
fn run(options: Options) -> Result<bool, Box<dyn Error>> {
    // One socket for each connection, and the program's own files. A hard limit that is lower shows
    // as clients that never connected.
    rlimit::increase_nofile_limit(u64::from(options.connections) + 64)?;
    let runtime = runtime(options.workers)?;
    if let Some(server) = options.load_for {
        runtime.block_on(load::run(&options, server))?;
        return Ok(true);
    }
    let mut stdout = io::stdout();
    if options.compare {
        let table = runtime.block_on(compare::compare(&options))?;
        writeln!(stdout, "{table}")?;
        return Ok(true);
    }
    writeln!(stdout, "{}", options.headline())?;
    let summary = runtime.block_on(serve_under_load(&options))?;
    runtime.shutdown_timeout(SHUTDOWN_WITHIN);
    writeln!(stdout, "{summary}")?;
    Ok(summary.has_passed())
}

fn runtime(workers: Option<usize>) -> io::Result<Runtime> {
    let mut builder = match workers {
        Some(0) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if let Some(workers @ 1..) = workers {
        builder.worker_threads(workers);
    }
    builder.enable_all().build()
}

async fn serve_under_load(options: &Options) -> io::Result<Summary> {
    let server = Server::start(options.way, options.timeout).await?;
    let load = options.run_another(format!("--load-for={}", server.address));
    let cause = options.causes.first().copied();
    let stall = cause.zip(options.stall());
    let hold_up = async {
        sleep(options.before_stall()).await;
        match stall {
            Some((cause, length)) => cause.hold_up(length).await,
            None => Ok(()),
        }
    };
    let (load, ()) = tokio::try_join!(load, hold_up)?;
    let clients = Clients::parse(&String::from_utf8_lossy(&load.stdout))
        .filter(|_| load.status.success())
        .ok_or_else(|| io::Error::other(format!("the load failed: {}", load.status)))?;
    Ok(Summary {
        clients,
        site: server.site.clone(),
        server: server.shut_down(SHUTDOWN_WITHIN).await,
        stall,
    })
}
