//! An axum server: idle timeouts around its sockets, and a timeout around each request.
//!
//! axum's `serve` takes any `Listener`. The one here gives each socket an `IdleTimeout`, so that a
//! connection which is kept alive and not used is ended, and so is a client that stops in the
//! middle of a request. axum itself has no such limit.
//!
//! A handler that takes too long is dropped, and its client is told so with `503`. Each route may
//! have its own limit.
//!
//! | route | what it does |
//! |---|---|
//! | `GET /` | answers at once |
//! | `GET /slow` | takes a while |
//! | `GET /hangs` | never answers, so the timeout does |
//! | `POST /upload` | counts the bytes of the body |
//!
//! Invariant: the idle timeout is longer than the longest request. A handler that works moves no
//! bytes, and its connection is not to be taken for an idle one.

use std::future::pending;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::Listener;
use clap::Parser;
use futures::StreamExt;
use tickwheel::io::IdleTimeout;
use tickwheel::tower::TimeoutLayer;
use tickwheel::{Duration, Timer};
use tickwheel_integrations::{armed_at_the_end, listen, parse_duration, shutdown_signal};
use tokio::net::{TcpListener, TcpStream};

/// Serves HTTP by axum, and bounds in time both what clients and what handlers do.
#[derive(Debug, Parser)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// A connection on which no byte has passed for so long is ended.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    idle: Duration,
    /// A request must be answered so soon.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    request_within: Duration,
    /// How long `GET /slow` takes.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    slow: Duration,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let options = Options::parse();
    let timer = Timer::current();
    if options.idle <= options.request_within {
        eprintln!("--idle should be longer than --request-within: a slow answer looks idle");
    }
    let listener = IdleListener {
        listener: listen(options.listen).await?,
        timer: timer.clone(),
        idle: options.idle,
    };
    axum::serve(listener, routes(&options, &timer))
        .with_graceful_shutdown(shutdown_signal())
        .await?;
    println!("shut down; {} timers armed", armed_at_the_end(&timer).await);
    Ok(())
}

fn routes(options: &Options, timer: &Timer) -> Router {
    let too_late = (StatusCode::SERVICE_UNAVAILABLE, "this took too long\n");
    let request_timeout = TimeoutLayer::new(options.request_within)
        .on_elapsed(move |_| Ok(too_late.into_response()))
        .with_timer(timer.clone());
    let (timer, slow) = (timer.clone(), options.slow);
    Router::new()
        .route("/", get("hello\n"))
        .route("/slow", get(async move || at_last(timer, slow).await))
        .route("/hangs", get(pending::<Response>))
        .route("/upload", post(upload))
        .layer(request_timeout)
}

async fn at_last(timer: Timer, slow: Duration) -> &'static str {
    timer.sleep(slow).await;
    "at last\n"
}

/// The body is read as it comes. One that breaks off, because its client was idle say, is an error.
async fn upload(request: Request<Body>) -> Response {
    let mut body = request.into_body().into_data_stream();
    let mut length = 0;
    while let Some(data) = body.next().await {
        match data {
            Ok(data) => length += data.len(),
            Err(error) => {
                println!("an upload broke off after {length} bytes: {error}");
                return StatusCode::BAD_REQUEST.into_response();
            }
        }
    }
    format!("{length} bytes\n").into_response()
}

/// A listener whose sockets have an idle timeout.
struct IdleListener {
    listener: TcpListener,
    timer: Timer,
    idle: Duration,
}

impl Listener for IdleListener {
    type Io = IdleTimeout<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // axum's own listener retries what fails.
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        println!("{peer} opened");
        let stream = IdleTimeout::with_timer(&self.timer, stream, self.idle);
        (stream, peer)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
