//! HTTP/1 and HTTP/2 by hyper-util, with each of their timeouts on one `Timer`.
//!
//! | what | by |
//! |---|---|
//! | a connection on which nothing happens | `IdleTimeout` around its socket |
//! | a client that does not tell its version of HTTP | a `Deadline`, which its bytes cancel |
//! | an HTTP/1 request head that does not come to an end | hyper's `header_read_timeout` |
//! | an HTTP/2 client that answers no pings | hyper's `keep_alive_interval`, `keep_alive_timeout` |
//! | a shutdown that takes too long | `Timer::timeout` around hyper-util's `GracefulShutdown` |
//!
//! Invariant: every connection ends: by its client, by one of the timeouts, or with the program.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::pin::pin;

use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, ResetHandle, Timer};
use tokio::task::JoinSet;
use tokio_util::io::InspectReader;

use crate::{accept, armed_at_the_end, listen, parse_address, parse_period, say, shutdown_signal};

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Where to listen, and what bounds in time whatever a client can keep waiting.
#[derive(Clone, Debug, clap::Args)]
pub struct Limits {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000", value_parser = parse_address)]
    pub listen: String,
    /// A connection on which no byte has passed for this long is ended.
    #[arg(long, default_value = "60s", value_parser = parse_period)]
    pub idle: Duration,
    /// The head of an HTTP/1 request must come within this time, and so must the preface of HTTP/2.
    /// The head's time begins with the connection, or with the end of the answer before.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    pub header_within: Duration,
    /// The time between two pings to an HTTP/2 client.
    #[arg(long, default_value = "20s", value_parser = parse_period)]
    pub ping_every: Duration,
    /// An HTTP/2 client must answer a ping within this time.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    pub pong_within: Duration,
    /// What is in flight when the server is to end may take this long.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    pub shutdown_within: Duration,
}

/// Serves each connection in a task of its own, until the process is asked to end. Then it accepts
/// no more, ends what is in flight, and prints how that went.
pub async fn serve<S, B>(limits: Limits, timer: Timer, service: S) -> io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let builder = builder(&limits, &timer);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let listener = listen(&limits.listen).await?;
    let mut shutdown = pin!(shutdown_signal());
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &timer) => accepted,
        };
        say!("{peer} opened");
        let version_due = timer.deadline(limits.header_within);
        let stream = IdleTimeout::new_on(&timer, stream, limits.idle);
        let stream = InspectReader::new(stream, cancel_once_known(version_due.handle()));
        let connection = builder.serve_connection(TokioIo::new(stream), service.clone());
        let connection = graceful.watch(connection.into_owned());
        connections.spawn(async move {
            tokio::select! {
                ended = connection => match ended {
                    Ok(()) => say!("{peer} closed"),
                    Err(error) => say!("{peer} closed: {}", chain(&*error)),
                },
                Ok(()) = version_due => say!("{peer} closed: no request was begun in time"),
            }
        });
    }
    drop(listener);
    let in_flight = timer.timeout(limits.shutdown_within, graceful.shutdown());
    let how = match in_flight.await {
        Ok(()) => "all requests were answered",
        Err(_) => "some requests were cut off",
    };
    connections.shutdown().await;
    let armed = armed_at_the_end(&timer).await;
    say!("shut down: {how}; {armed} timers armed");
    Ok(())
}

fn builder(limits: &Limits, timer: &Timer) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(timer.clone())
        .header_read_timeout(limits.header_within);
    builder
        .http2()
        .timer(timer.clone())
        .keep_alive_interval(limits.ping_every)
        .keep_alive_timeout(limits.pong_within);
    builder
}

/// Cancels a deadline when the bytes that were read tell HTTP/1 from HTTP/2. hyper-util waits for
/// them with no timeout of its own. From then on hyper's timeouts run.
fn cancel_once_known(version_due: ResetHandle) -> impl FnMut(&[u8]) {
    let mut preface_left = HTTP2_PREFACE;
    move |read| {
        if preface_left.is_empty() || read.is_empty() {
            return;
        }
        let length = read.len().min(preface_left.len());
        preface_left = match preface_left.strip_prefix(&read[..length]) {
            Some(preface_left) => preface_left,
            None => &[],
        };
        if preface_left.is_empty() {
            version_due.cancel();
        }
    }
}

/// An error with its causes: hyper tells in them what has timed out.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
