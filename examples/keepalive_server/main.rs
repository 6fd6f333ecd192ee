//! A keepalive server on real sockets, the load to try it with, and a verdict on whether its
//! deadlines held.
//!
//! For each connection one task awaits its deadline in a [`tickwheel::DeadlineMap`] while another
//! reads heartbeats and pushes the deadline back through its [`tickwheel::ResetHandle`]. With
//! `--timer tokio` everything goes by tokio's own timer instead, for a comparison. A connection
//! that falls silent is closed when its deadline expires. An operator on the admin port lists the
//! connections, closes or extends one by its number, or closes all. Thousands of clients in a
//! second process send the heartbeats. A share of them falls silent at a random moment, and leaves
//! the socket open. The others live until the end of the run.
//!
//! With `--pause 4s` the server's process is stopped for four seconds in the middle of the run. The
//! heartbeats that come meanwhile wait in the sockets. The verdict stays as strict: no connection
//! whose client has sent in time may be closed for it.
//!
//! ```text
//! cargo run --release --example keepalive_server
//! cargo run --release --example keepalive_server -- --connections 200 --run-time 3s --silent 0.5
//! cargo run --release --example keepalive_server -- --timer tokio
//! cargo run --release --example keepalive_server -- --connections 1000 --pause 4s
//! cargo run --release --example keepalive_server -- --run-time 10m --admin-port 7777     # and: nc 127.0.0.1 7777
//! ```
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | the command line |
//! | `duration.rs` | durations as people write them |
//! | `file_limit.rs` | how many connections the limit on open files allows |
//! | `protocol.rs` | the two bytes that client and server agree on |
//! | `server.rs` | the server: accepts, counts, shuts down; knows nothing of the load |
//! | `site.rs` | what all connections of the server share: who is there, and what can be done to them |
//! | `timer.rs` | the timer to wait by: tickwheel's or tokio's own |
//! | `deadlines.rs` | the connections' deadlines, on either timer |
//! | `last_seen.rs`, `last_seen_map.rs` | a deadline on tokio's own timer; all of them |
//! | `counters.rs` | what the server has done so far |
//! | `admin.rs`, `command.rs` | the admin port: sessions and replies; what may be said |
//! | `seats.rs` | which session gives way to a further one |
//! | `connection.rs` | one connection of the server: the two tasks around one deadline |
//! | `load.rs` | the clients: what they do, and what they saw of the server |
//! | `load_process.rs` | the clients as a process of their own, and its report |
//! | `pause.rs` | stops this process for a while |
//! | `progress.rs` | the line on the terminal while it runs |
//! | `summary.rs` | the verdict and the table at the end |
//!
//! It exits with 0 if every deadline held. It exits with 1 if one did not, or if nothing could be
//! tried, and with 2 if the options make no sense. Ctrl-C ends the run early, with the summary and
//! the verdict so far. `connection.rs` and `load.rs` tell what counts as a violation, and why a
//! loaded machine does not raise a false one. `summary.rs` tells why the admin's doings count as
//! none.

mod admin;
mod command;
mod connection;
mod counters;
mod deadlines;
mod duration;
mod file_limit;
mod last_seen;
mod last_seen_map;
mod load;
mod load_process;
mod options;
mod pause;
mod progress;
mod protocol;
mod seats;
mod server;
mod site;
mod summary;
mod timer;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;

use tickwheel::{Duration, Instant};
use tokio::runtime::Runtime;

use crate::admin::{Admin, Limits};
use crate::load_process::LoadProcess;
use crate::options::Options;
use crate::server::Server;
use crate::summary::Summary;
use crate::timer::AnyTimer;

/// Connections that have not ended this long after the last client has gone are cut off.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let options = Options::from_command_line();
    if let Some(server) = options.load_for {
        return match run_load(&options, server) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("keepalive_server: its load: {error}");
                ExitCode::FAILURE
            }
        };
    }
    match run(options) {
        Ok(summary) => {
            println!("{summary}");
            if summary.has_passed() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("keepalive_server: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut options: Options) -> Result<Summary, Box<dyn Error>> {
    options.connections = file_limit::connections_allowed(options.connections)?;
    println!("{options}");
    let runtime = runtime(&options)?;
    let summary = runtime.block_on(serve_under_load(&options));
    runtime.shutdown_timeout(SHUTDOWN_WITHIN);
    Ok(summary?)
}

fn run_load(options: &Options, server: SocketAddr) -> Result<(), Box<dyn Error>> {
    file_limit::connections_allowed(options.connections)?;
    runtime(options)?.block_on(load_process::run(options, server))?;
    Ok(())
}

fn runtime(options: &Options) -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.workers)
        .enable_all()
        .build()
}

async fn serve_under_load(options: &Options) -> std::io::Result<Summary> {
    let started = Instant::now();
    let timer = AnyTimer::new(options.timer);
    let server = Server::start(&timer, options.timeout).await?;
    let admin = Admin::start(server.site(), options.admin_port, Limits::default()).await?;
    println!(
        "Admin port: {}; `help` shows its commands.\n",
        admin.address()
    );
    let load = LoadProcess::start(options, server.address())?;
    let pause = async {
        timer.sleep(options.before_pause()).await;
        match options.pause {
            Some(pause) => pause::stop_this_process(pause).await,
            None => Ok(()),
        }
    };

    let clients = tokio::select! {
        clients = load.clients() => clients?,
        Err(error) = pause => return Err(error),
        never = progress::show(&timer, options.run_time, &server.site().counters) => match never {},
    };
    // The admin ends first, because the report is to hold all that it did.
    let admin_panics = admin.shut_down().await;
    let mut server = server.shut_down(SHUTDOWN_WITHIN).await;
    server.panics += admin_panics;

    Ok(Summary {
        clients,
        server,
        timer: timer.kind(),
        metrics: timer.metrics(),
        pause: options.pause.unwrap_or_default(),
        wall_time: started.elapsed(),
    })
}

/// Completes at Ctrl-C.
async fn interrupted() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        eprintln!("Ctrl-C will not give a summary: {error}");
        std::future::pending::<()>().await;
    }
}
