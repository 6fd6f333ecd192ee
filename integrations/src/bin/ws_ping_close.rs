//! The shortest WebSocket server with heartbeats: a ping before the deadline, and a close at it.
//!
//! One deadline has both: [`warn_before`](tickwheel::Deadline::warn_before) tells of its end ahead.
//! Each message, also a pong, pushes both back. `ws_heartbeat` hears parts of messages too, counts
//! the pings that were missed, and bounds its writes.

use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use clap::Parser;
use futures::{SinkExt, StreamExt};
use tickwheel::{Duration, Stage, Timer};
use tickwheel_integrations::{Reason, parse_address, parse_period, run, serve};
use tokio::net::TcpStream;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

/// Pings WebSocket clients that were not heard, and closes those that do not answer.
#[derive(Debug, Parser)]
#[command(allow_negative_numbers = true)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:9002", value_parser = parse_address)]
    listen: String,
    /// A client that was not heard for this long is closed.
    #[arg(long, default_value = "30s", value_parser = parse_period)]
    close_after: Duration,
    /// So long before, it is pinged. It is also the limit of the handshake and of each write.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    ping_before: Duration,
}

fn main() -> ExitCode {
    let options = Arc::new(Options::parse());
    let address = options.listen.clone();
    let attend = move |stream, timer| attend(stream, options.clone(), timer);
    run(serve(address, attend))
}

async fn attend(stream: TcpStream, options: Arc<Options>, timer: Timer) -> Result<String, Reason> {
    let within = options.ping_before;
    let mut socket = timer.timeout(within, accept_async(stream)).await??;
    let silence = timer.deadline(options.close_after);
    let mut silence = silence.warn_before(options.ping_before);
    loop {
        let (message, is_last) = tokio::select! {
            heard = socket.next() => match heard.transpose()? {
                Some(_) => {
                    silence.handle().reset();
                    continue;
                }
                None => return Ok("by the client".to_owned()),
            },
            stage = silence.wait() => match stage {
                Ok(Stage::Warning) => (Message::Ping(Bytes::new()), false),
                _ => (Message::Close(None), true),
            },
        };
        timer.timeout(within, socket.send(message)).await??;
        if is_last {
            return Ok("it answered no ping".to_owned());
        }
    }
}
