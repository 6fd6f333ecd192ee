//! A hyper server for HTTP/1 and HTTP/2 whose every timeout is on one `Timer`.
//!
//! | what | by |
//! |---|---|
//! | a connection on which nothing happens, also one that never says anything | `IdleTimeout` around its socket |
//! | an HTTP/1 request head that does not come to an end | hyper's `header_read_timeout` |
//! | an HTTP/2 client that answers no pings | hyper's `keep_alive_interval` and `keep_alive_timeout` |
//! | a shutdown that takes too long | `Timer::timeout` around hyper-util's `GracefulShutdown` |
//!
//! `GET /` answers at once, `GET /slow` after a while. `SIGTERM` has the server accept no more, end
//! what is in flight, and exit.
//!
//! Invariant: every connection ends: by its client, by one of the timeouts, or with the program.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;

use bytes::Bytes;
use clap::Parser;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Timer};
use tickwheel_integrations::{
    armed_at_the_end, listen, parse_duration, parse_period, shutdown_signal,
};
use tokio::task::JoinSet;

/// Serves HTTP, and bounds in time whatever a client can keep waiting.
#[derive(Debug, Parser)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// A connection on which no byte has passed for so long is ended.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    idle: Duration,
    /// The head of an HTTP/1 request must have come so soon.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    header_within: Duration,
    /// An HTTP/2 client is pinged so often.
    #[arg(long, default_value = "20s", value_parser = parse_period)]
    ping_every: Duration,
    /// It must answer so soon.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pong_within: Duration,
    /// How long `GET /slow` takes.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    slow: Duration,
    /// What is in flight when the server is to end may take so long.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    shutdown_within: Duration,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let options = Options::parse();
    let timer = Timer::current();
    let builder = builder(&options, &timer);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let listener = listen(options.listen).await?;
    let mut shutdown = pin!(shutdown_signal());
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    eprintln!("cannot accept a connection: {error}");
                    timer.sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        println!("{peer} opened");
        let stream = TokioIo::new(IdleTimeout::with_timer(&timer, stream, options.idle));
        let (timer, slow) = (timer.clone(), options.slow);
        let service = service_fn(move |request| answer(request, timer.clone(), slow));
        let connection = builder.serve_connection(stream, service).into_owned();
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            match connection.await {
                Ok(()) => println!("{peer} closed"),
                Err(error) => println!("{peer} closed: {}", chain(&*error)),
            }
        });
    }
    drop(listener);
    let in_flight = timer.timeout(options.shutdown_within, graceful.shutdown());
    let how = match in_flight.await {
        Ok(()) => "all requests were answered",
        Err(_) => "some requests were cut off",
    };
    connections.shutdown().await;
    let armed = armed_at_the_end(&timer).await;
    println!("shut down: {how}; {armed} timers armed");
    Ok(())
}

fn builder(options: &Options, timer: &Timer) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(timer.clone())
        .header_read_timeout(options.header_within);
    builder
        .http2()
        .timer(timer.clone())
        .keep_alive_interval(options.ping_every)
        .keep_alive_timeout(options.pong_within);
    builder
}

async fn answer(
    request: Request<Incoming>,
    timer: Timer,
    slow: Duration,
) -> Result<Response<Full<Bytes>>, Infallible> {
    println!("{} {}", request.method(), request.uri().path());
    let (status, text) = match request.uri().path() {
        "/" => (StatusCode::OK, "hello\n"),
        "/slow" => {
            timer.sleep(slow).await;
            (StatusCode::OK, "at last\n")
        }
        _ => (StatusCode::NOT_FOUND, "there are / and /slow\n"),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    Ok(response)
}

/// An error with its causes: hyper tells in them what has timed out.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
