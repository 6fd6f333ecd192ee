//! A hyper server for HTTP/1 and HTTP/2 whose every timeout is on one `Timer`.
//!
//! | what | by |
//! |---|---|
//! | a connection on which nothing happens | `IdleTimeout` around its socket |
//! | a client that does not tell its version of HTTP | a `Deadline`, which its bytes cancel |
//! | an HTTP/1 request head that does not come to an end | hyper's `header_read_timeout` |
//! | an HTTP/2 client that answers no pings | hyper's `keep_alive_interval`, `keep_alive_timeout` |
//! | a shutdown that takes too long | `Timer::timeout` around hyper-util's `GracefulShutdown` |
//!
//! `GET /` answers at once, `GET /slow` after a while. On `SIGTERM` the server accepts no more,
//! ends what is in flight, and exits.
//!
//! Invariant: every connection ends: by its client, by one of the timeouts, or with the program.

use std::convert::Infallible;
use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;

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
use tickwheel::{Duration, ResetHandle, Timer};
use tickwheel_integrations::{parse_duration, parse_period};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_util::io::InspectReader;

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a listener waits that cannot accept, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves HTTP, and bounds in time whatever a client can keep waiting.
#[derive(Clone, Debug, Parser)]
#[command(allow_negative_numbers = true)]
struct Options {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000", value_parser = parse_address)]
    listen: String,
    /// A connection on which no byte has passed for this long is ended.
    #[arg(long, default_value = "60s", value_parser = parse_period)]
    idle: Duration,
    /// The head of an HTTP/1 request must come within this time, and so must the preface of HTTP/2.
    /// The head's time begins with the connection, or with the end of the answer before.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    header_within: Duration,
    /// The time between two pings to an HTTP/2 client.
    #[arg(long, default_value = "20s", value_parser = parse_period)]
    ping_every: Duration,
    /// An HTTP/2 client must answer a ping within this time.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    pong_within: Duration,
    /// What is in flight when the server is to end may take this long.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    shutdown_within: Duration,
    /// How long `GET /slow` takes.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    slow: Duration,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = Runtime::new().expect("the system gives threads");
    match runtime.block_on(serve(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves each connection in a task of its own, until the process is asked to end. Then it accepts
/// no more, ends what is in flight, and prints how that went.
async fn serve(options: Options) -> io::Result<()> {
    let timer = Timer::current();
    let builder = builder(&options, &timer);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let listener = listen(&options.listen).await?;
    let handlers = timer.clone();
    let service = service_fn(move |request| answer(request, handlers.clone(), options.slow));
    let mut shutdown = pin!(shutdown_signal());
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &timer) => accepted,
        };
        say(format!("{peer} opened"));
        let version_due = timer.deadline(options.header_within);
        let stream = IdleTimeout::new_on(&timer, stream, options.idle);
        let stream = InspectReader::new(stream, cancel_once_known(version_due.handle()));
        let connection = builder.serve_connection(TokioIo::new(stream), service.clone());
        let connection = graceful.watch(connection.into_owned());
        connections.spawn(async move {
            tokio::select! {
                ended = connection => match ended {
                    Ok(()) => say(format!("{peer} closed")),
                    Err(error) => say(format!("{peer} closed: {}", chain(&*error))),
                },
                Ok(()) = version_due => say(format!("{peer} closed: no request was begun in time")),
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
    say(format!("shut down: {how}; {armed} timers armed"));
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

async fn answer(
    request: Request<Incoming>,
    timer: Timer,
    slow: Duration,
) -> Result<Response<Full<Bytes>>, Infallible> {
    say(format!("{} {}", request.method(), request.uri().path()));
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

/// Listens at `HOST:PORT`, and prints where. A name may have several addresses, which are tried one
/// after the other. An error names the address, and says what to do.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program listens there, so give another port with --listen, or 0 for any"
            }
            io::ErrorKind::PermissionDenied => "; give a port above 1023 with --listen",
            _ => "",
        };
        io::Error::other(format!("cannot listen on {address}: {error}{hint}"))
    })?;
    say(format!("listening on {}", listener.local_addr()?));
    Ok(listener)
}

/// The next connection. One that cannot be accepted is told, and the next one is waited for.
async fn accept(listener: &TcpListener, timer: &Timer) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                eprintln!("cannot accept a connection: {error}");
                timer.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Is ready when the process is asked to end, by `SIGTERM` or from the keyboard.
async fn shutdown_signal() {
    #[cfg(unix)]
    let terminated = async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut signals = signal(SignalKind::terminate()).expect("signals can be listened to");
        signals.recv().await;
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        () = terminated => {}
        interrupted = tokio::signal::ctrl_c() => interrupted.expect("signals can be listened to"),
    }
}

/// How many timers are armed at the end of a program. A server may tell that its connections have
/// ended just before their tasks let go of what they hold, so this waits for them, for a second.
async fn armed_at_the_end(timer: &Timer) -> usize {
    for _ in 0..100 {
        if timer.metrics().pending() == 0 {
            break;
        }
        timer.sleep(Duration::from_millis(10)).await;
    }
    timer.metrics().pending()
}

/// `HOST:PORT` for the command line, where the host is an address or a name.
fn parse_address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
            Ok(text.to_owned())
        }
        _ => Err("give a host and a port, such as 127.0.0.1:3000 or localhost:3000".to_owned()),
    }
}

/// Prints a line on stdout. If that was cut off, as by `| head -1`, nobody reads what the program
/// says, and it ends. It must not let `SIGPIPE` do that: the signal also comes where it writes to a
/// socket that its client has closed.
fn say(line: impl Display) {
    if writeln!(io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}
