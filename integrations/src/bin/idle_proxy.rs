//! A TCP proxy whose connections end when no byte has passed for too long.
//!
//! Both sockets have an idle timeout of their own, and each sees every byte that passes. Both are
//! needed: a side that does not read is waited for on its own socket only.
//!
//! tokio's `copy_bidirectional` does the rest. When a side closes its half, that is passed on. The
//! other half goes on, within the same idle timeouts.
//!
//! Invariant: as long as a connection is open, the proxy waits for one of its sockets, and so for
//! that one's deadline.

use std::fmt;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Timer};
use tickwheel_integrations::{parse_address, parse_period, run, serve};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

/// Passes TCP connections on, and ends those on which nothing happens.
#[derive(Clone, Debug, Parser)]
#[command(allow_negative_numbers = true)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080", value_parser = parse_address)]
    listen: String,
    /// Where connections are passed on to.
    #[arg(long, value_parser = parse_address)]
    to: String,
    /// The upstream must accept a connection within this time.
    #[arg(long, default_value = "5s", value_parser = parse_period)]
    connect_within: Duration,
    /// A connection on which no byte has passed for this long is ended.
    #[arg(long, default_value = "60s", value_parser = parse_period)]
    idle: Duration,
}

fn main() -> ExitCode {
    let options = Options::parse();
    run(listen(options))
}

async fn listen(options: Options) -> io::Result<()> {
    let timer = Timer::current();
    let address = options.listen.clone();
    serve(&address, timer.clone(), move |client| {
        let (options, timer) = (options.clone(), timer.clone());
        async move {
            match attend(client, &options, &timer).await {
                Ok(passed) => Ended::ByPeers(passed),
                Err(ended) => ended,
            }
        }
    })
    .await
}

async fn attend(client: TcpStream, options: &Options, timer: &Timer) -> Result<Passed, Ended> {
    let connecting = timer.timeout(options.connect_within, TcpStream::connect(&options.to));
    let upstream = connecting.await.map_err(|_| Ended::NoAnswer)?;
    let upstream = upstream.map_err(Ended::NoUpstream)?;
    // Small messages are to pass at once. Where that cannot be set they pass all the same.
    let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
    let mut client = IdleTimeout::with_timer(timer, client, options.idle);
    let mut upstream = IdleTimeout::with_timer(timer, upstream, options.idle);
    match copy_bidirectional(&mut client, &mut upstream).await {
        Ok((up, down)) => Ok(Passed { up, down }),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Ended::Idle(options.idle)),
        Err(error) => Err(Ended::Failed(error)),
    }
}

/// How many bytes were passed on.
#[derive(Debug)]
struct Passed {
    up: u64,
    down: u64,
}

/// Why a connection has ended.
#[derive(Debug)]
enum Ended {
    ByPeers(Passed),
    NoAnswer,
    NoUpstream(io::Error),
    Idle(Duration),
    Failed(io::Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::ByPeers(Passed { up, down }) => {
                write!(f, "by both sides, {up} bytes up and {down} down")
            }
            Ended::NoAnswer => f.write_str("the upstream does not answer"),
            Ended::NoUpstream(error) => write!(f, "no upstream: {error}"),
            Ended::Idle(idle) => write!(f, "idle for {idle:?}"),
            Ended::Failed(error) => write!(f, "{error}"),
        }
    }
}
