//! A hyper server for HTTP/1 and HTTP/2 whose every timeout is on one `Timer`.
//!
//! `tickwheel_integrations::http` has the timeouts, and tells what each is for. Here is the
//! service: `GET /` answers at once, `GET /slow` after a while. On `SIGTERM` the server accepts no
//! more, ends what is in flight, and exits.
//!
//! Invariant: a handler that waits does so on the same `Timer` as the timeouts.

use std::convert::Infallible;
use std::io;
use std::process::ExitCode;

use bytes::Bytes;
use clap::Parser;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use tickwheel::{Duration, Timer};
use tickwheel_integrations::http::{Limits, serve};
use tickwheel_integrations::{parse_duration, run};

/// Serves HTTP, and bounds in time whatever a client can keep waiting.
#[derive(Debug, Parser)]
#[command(allow_negative_numbers = true)]
struct Options {
    #[command(flatten)]
    limits: Limits,
    /// How long `GET /slow` takes.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    slow: Duration,
}

fn main() -> ExitCode {
    let options = Options::parse();
    run(listen(options))
}

async fn listen(Options { limits, slow }: Options) -> io::Result<()> {
    let timer = Timer::current();
    let handlers = timer.clone();
    let service = service_fn(move |request| answer(request, handlers.clone(), slow));
    serve(limits, timer, service).await
}

async fn answer(
    request: Request<Incoming>,
    timer: Timer,
    slow: Duration,
) -> Result<Response<Full<Bytes>>, Infallible> {
    tickwheel_integrations::say!("{} {}", request.method(), request.uri().path());
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
