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
//! With `--compare` it runs on tickwheel's timers and then on tokio's, each time with such a pause.
//! It prints both summaries side by side.
//!
//! ```text
//! cargo run --release --example keepalive_server
//! cargo run --release -p tickwheel-bench --bin keepalive_server -- --compare   # without tokio's `test-util`
//! cargo run --release --example keepalive_server -- --connections 200 --run-time 3s --silent 0.5
//! cargo run --release --example keepalive_server -- --timer tokio
//! cargo run --release --example keepalive_server -- --connections 1000 --pause 4s
//! cargo run --release --example keepalive_server -- --run-time 10m --admin-port 7777     # and: nc 127.0.0.1 7777
//! cargo run --release --example keepalive_server -- --run-time 10m --metrics-port 7778   # and: curl 127.0.0.1:7778/metrics
//! ```
//!
//! | file | what |
//! |---|---|
//! | `options.rs` | the command line, and how many connections the limit on open files allows |
//! | `server.rs` | the server: what its connections share, and one connection with its two tasks around one deadline |
//! | `timer.rs` | the timer to wait by, tickwheel's or tokio's own, and the connections' deadlines on either |
//! | `compare.rs` | the same run on both timers, side by side |
//! | `admin.rs` | the admin port: what may be said, sessions, and replies |
//! | `metrics.rs` | the metrics port: a page for Prometheus |
//! | `load.rs` | the clients, in a process of their own: what they do, and what they saw of the server |
//! | `summary.rs` | the line on the terminal while it runs, the pause, and the verdict at the end |
//!
//! It exits with 0 if every deadline held. It exits with 1 if one did not, or if nothing could be
//! tried, and with 2 if the options make no sense. With `--compare` tickwheel's run alone decides,
//! because what tokio's run does after the pause is what the comparison shows. Ctrl-C ends the run
//! early, with the summary and the verdict so far. `server.rs` and `load.rs` tell what counts as a
//! violation, and why a loaded machine does not raise a false one. `summary.rs` tells why the
//! admin's doings count as none.

mod admin;
mod compare;
mod load;
mod metrics;
mod options;
mod server;
mod summary;
mod timer;

use std::error::Error;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

use tickwheel::{Duration, Instant};
use tokio::runtime::Runtime;

use crate::admin::{Admin, Limits};
use crate::compare::Comparison;
use crate::load::LoadProcess;
use crate::metrics::MetricsPage;
use crate::options::Options;
use crate::server::Server;
use crate::summary::Summary;
use crate::timer::AnyTimer;

/// Prints a line as `println!` does. If stdout was cut off, as by `| head -1`, the program ends.
macro_rules! say {
    ($($text:tt)*) => {
        if writeln!(io::stdout(), $($text)*).is_err() {
            std::process::exit(0);
        }
    };
}

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
    let outcome = if options.compare {
        run_both(options)
    } else {
        run(options)
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("keepalive_server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the run has passed.
fn run(mut options: Options) -> Result<bool, Box<dyn Error>> {
    options.connections = options::connections_allowed(options.connections)?;
    say!("{options}");
    let runtime = runtime(&options)?;
    let summary = runtime.block_on(serve_under_load(&options));
    runtime.shutdown_timeout(SHUTDOWN_WITHIN);
    let summary = summary?;
    say!("{summary}");
    Ok(summary.has_passed())
}

/// Whether the run on tickwheel's timers has.
fn run_both(mut options: Options) -> Result<bool, Box<dyn Error>> {
    options.connections = options::connections_allowed(options.connections)?;
    let comparison =
        runtime(&options)?.block_on(Comparison::make(&options, |line| say!("{line}")))?;
    say!("\n{comparison}");
    Ok(comparison.has_passed())
}

fn run_load(options: &Options, server: SocketAddr) -> Result<(), Box<dyn Error>> {
    options::connections_allowed(options.connections)?;
    runtime(options)?.block_on(load::run(options, server))?;
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
    let page = MetricsPage::start(server.site(), options.metrics_port).await?;
    say!(
        "Admin port: {}; `help` shows its commands.",
        admin.address()
    );
    say!("Metrics: http://{}/metrics\n", page.address());
    let load = LoadProcess::start(options, server.address())?;
    let pause = async {
        timer.sleep(options.before_pause()).await;
        match options.pause {
            Some(pause) => summary::stop_this_process(pause).await,
            None => Ok(()),
        }
    };

    let clients = tokio::select! {
        clients = load.clients() => clients?,
        Err(error) = pause => return Err(error),
        never = summary::show_progress(&timer, options.run_time, &server.site().counters) => match never {},
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
