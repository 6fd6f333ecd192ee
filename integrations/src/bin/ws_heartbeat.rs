//! A WebSocket server with heartbeats: a ping when nothing was heard, and a count of missed pongs.
//!
//! ```text
//!             nothing heard for --ping-after          nothing heard for --pong-within
//!   listening ------------------------------> pinged -------------------------------> missed + 1
//!       ^                                       |                                         |
//!       +---------- any byte: missed = 0 -------+   fewer than --missed: ping again, else close
//! ```
//!
//! Every byte that comes in pushes the ping back, also one of a message that is not whole yet. On a
//! busy connection that is all that happens: one `reset()` for each read, which takes no lock, and
//! no ping at all.
//!
//! Invariant: whatever is written is bounded in time. A client that never reads is closed too.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Parser;
use futures::{SinkExt, StreamExt};
use tickwheel::{Duration, Timer};
use tickwheel_integrations::{Reason, parse_address, parse_period, run, serve};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, accept_async};
use tokio_util::io::InspectReader;

/// Echoes what WebSocket clients send, and closes those that answer no ping.
#[derive(Debug, Parser)]
#[command(allow_negative_numbers = true)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:9001", value_parser = parse_address)]
    listen: String,
    /// A client that was not heard for this long is pinged.
    #[arg(long, default_value = "20s", value_parser = parse_period)]
    ping_after: Duration,
    /// A pong, or anything else, must come within this time. It is also the limit of each write.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    pong_within: Duration,
    /// A client that misses this many pongs in a row is closed.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    missed: u32,
}

fn main() -> ExitCode {
    let options = Arc::new(Options::parse());
    let address = options.listen.clone();
    let attend = move |stream, timer| attend(stream, options.clone(), timer);
    run(serve(address, attend))
}

async fn attend(stream: TcpStream, options: Arc<Options>, timer: Timer) -> Result<String, Reason> {
    let mut silence = timer.deadline(options.ping_after);
    let unanswered = Arc::new(AtomicU32::new(0));
    let stream = InspectReader::new(stream, {
        let (silence, unanswered) = (silence.handle(), unanswered.clone());
        let ping_after = options.ping_after;
        move |_: &[u8]| {
            // Relaxed, here and below: the task that reads is the only one that looks at it.
            if unanswered.load(Ordering::Relaxed) > 0 {
                unanswered.store(0, Ordering::Relaxed);
                silence.set_timeout(ping_after);
            }
            silence.reset();
        }
    });
    let handshake = timer.timeout(options.pong_within, accept_async(stream));
    let socket = handshake.await.map_err(|_| "no handshake in time")??;
    let mut connection = Connection {
        socket,
        timer,
        pong_within: options.pong_within,
    };
    silence.restart();
    loop {
        tokio::select! {
            biased; // A pong that is there is heard, also when it comes at the last moment.
            message = connection.socket.next() => {
                let Some(message) = message.transpose()? else {
                    return Ok("by the client".to_owned());
                };
                if message.is_text() || message.is_binary() {
                    connection.send(message).await?;
                }
            }
            _ = &mut silence => {
                let missed = unanswered.fetch_add(1, Ordering::Relaxed);
                if missed >= options.missed {
                    connection.say_goodbye().await;
                    return Err(format!("missed {missed} pongs").into());
                }
                connection.send(Message::Ping(Default::default())).await?;
                silence.handle().set_timeout(options.pong_within);
                silence.restart();
            }
        }
    }
}

struct Connection<S> {
    socket: WebSocketStream<S>,
    timer: Timer,
    pong_within: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn send(&mut self, message: Message) -> Result<(), Reason> {
        let send = self
            .timer
            .timeout(self.pong_within, self.socket.send(message));
        Ok(send.await.map_err(|_| "the client does not read")??)
    }

    /// Closes as the protocol wants it. What is still on its way from the client is read. Otherwise
    /// the system would reset the connection before the client has seen why. The client may have
    /// closed before, so no failure matters.
    async fn say_goodbye(&mut self) {
        let why = CloseFrame {
            code: CloseCode::Policy,
            reason: "no heartbeat".into(),
        };
        let goodbye = async {
            self.socket.send(Message::Close(Some(why))).await?;
            while self.socket.next().await.transpose()?.is_some() {}
            Ok::<_, tungstenite::Error>(())
        };
        let _ = self.timer.timeout(self.pong_within, goodbye).await;
    }
}
