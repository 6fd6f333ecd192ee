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

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Timer};
use tickwheel_integrations::{Reason, parse_address, parse_period, run, serve};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

/// Passes TCP connections on, and ends those on which nothing happens.
#[derive(Debug, Parser)]
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
    let options = Arc::new(Options::parse());
    let address = options.listen.clone();
    let attend = move |stream, timer| attend(stream, options.clone(), timer);
    run(serve(address, attend))
}

async fn attend(client: TcpStream, options: Arc<Options>, timer: Timer) -> Result<String, Reason> {
    let connecting = timer.timeout(options.connect_within, TcpStream::connect(&options.to));
    let upstream = connecting
        .await
        .map_err(|_| "the upstream does not answer")?;
    let upstream = upstream.map_err(|error| format!("no upstream: {error}"))?;
    // Small messages are to pass at once. Where that cannot be set they pass all the same.
    let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
    let mut client = IdleTimeout::new_on(&timer, client, options.idle);
    let mut upstream = IdleTimeout::new_on(&timer, upstream, options.idle);
    match copy_bidirectional(&mut client, &mut upstream).await {
        Ok((up, down)) => Ok(format!("by both sides, {up} bytes up and {down} down")),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Err(format!("idle for {:?}", options.idle).into())
        }
        Err(error) => Err(error.into()),
    }
}
