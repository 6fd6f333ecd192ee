//! An axum server: idle timeouts around its sockets, and a timeout around each request.
//!
//! axum's own `serve` has no timeout for the head of a request, and none for its shutdown. A client
//! that sends one byte now and then holds both up for ever. So hyper-util serves the connections
//! here, as in axum's example `serve-with-hyper`. `tickwheel_integrations::http` has the timeouts,
//! and tells what each is for.
//!
//! A handler that takes too long is dropped, and its client is told so with `503`. Each route may
//! have its own limit. An upload is a part of its handler, so the same limit ends it.
//!
//! | route | what it does |
//! |---|---|
//! | `GET /` | answers at once |
//! | `GET /hangs` | never answers, so the timeout does |
//! | `POST /upload` | counts the bytes of the body |
//!
//! Invariant: the idle timeout is longer than the longest request. A handler that works moves no
//! bytes, and its connection is not to be taken for an idle one.

use std::future::pending;
use std::io;
use std::process::ExitCode;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use clap::Parser;
use futures::StreamExt;
use hyper_util::service::TowerToHyperService;
use tickwheel::tower::TimeoutLayer;
use tickwheel::{Duration, Timer};
use tickwheel_integrations::http::{Limits, serve};
use tickwheel_integrations::{parse_period, run};

/// Serves HTTP by axum, and bounds in time both what clients and what handlers do.
#[derive(Debug, Parser)]
#[command(allow_negative_numbers = true)]
struct Options {
    #[command(flatten)]
    limits: Limits,
    /// A request must be answered within this time.
    #[arg(long, default_value = "10s", value_parser = parse_period)]
    request_within: Duration,
}

fn main() -> ExitCode {
    let options = Options::parse();
    run(listen(options))
}

async fn listen(options: Options) -> io::Result<()> {
    let timer = Timer::current();
    if options.limits.idle <= options.request_within {
        eprintln!("--idle should be longer than --request-within: a slow answer looks idle");
    }
    let service = TowerToHyperService::new(routes(&options, &timer));
    serve(options.limits, timer, service).await
}

fn routes(options: &Options, timer: &Timer) -> Router {
    let too_late = (StatusCode::SERVICE_UNAVAILABLE, "this took too long\n");
    let request_timeout = TimeoutLayer::new(options.request_within)
        .on_elapsed(move |_| Ok(too_late.into_response()))
        .with_timer(timer.clone());
    Router::new()
        .route("/", get("hello\n"))
        .route("/hangs", get(pending::<Response>))
        .route("/upload", post(upload))
        .layer(request_timeout)
}

/// Reads the body as it comes. One that breaks off, for example because its client was idle, is an
/// error.
async fn upload(request: Request<Body>) -> Response {
    let mut body = request.into_body().into_data_stream();
    let mut length = 0;
    while let Some(data) = body.next().await {
        match data {
            Ok(data) => length += data.len(),
            Err(error) => {
                tickwheel_integrations::say!("an upload broke off after {length} bytes: {error}");
                return StatusCode::BAD_REQUEST.into_response();
            }
        }
    }
    format!("{length} bytes\n").into_response()
}
