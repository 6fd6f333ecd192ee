//! hyper's servers with tickwheel's timer: what `tests/plugs/timers.rs` does not show. Connections
//! are pipes in memory under tokio's paused clock, where no other runtime takes part.
//!
//! Invariant: after each scenario nothing stays armed.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2 as client;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tickwheel::{Instant, Timer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::{PATIENCE, assert_nothing_stays_armed};

const SECOND: Duration = Duration::from_secs(1);

/// Short, for what waits in real time.
const SHORT: Duration = Duration::from_millis(100);

/// What an HTTP/2 client says first, and a SETTINGS frame with nothing in it.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("answer")))
}

/// Serves a connection whose heads must come within this time. Gives the client's end.
fn serve_http1(timer: &Timer, within: Duration) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
    let (client, server) = duplex(64 * 1024);
    let mut builder = http1::Builder::new();
    builder.timer(timer.clone()).header_read_timeout(within);
    let served = builder.serve_connection(TokioIo::new(server), service_fn(answer));
    (client, tokio::spawn(served))
}

/// Serves a connection whose client is pinged this often, and must answer within the same time.
fn serve_http2(timer: &Timer, interval: Duration) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
    let (client, server) = duplex(64 * 1024);
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(timer.clone())
        .keep_alive_interval(interval)
        .keep_alive_timeout(interval)
        .serve_connection(TokioIo::new(server), service_fn(answer));
    (client, tokio::spawn(served))
}

async fn assert_timed_out(served: JoinHandle<hyper::Result<()>>) {
    let served = timeout(PATIENCE, served).await.expect("it is cut off");
    assert!(served.unwrap().unwrap_err().is_timeout());
}

/// A client that answers pings for this long, and then has a request answered.
async fn assert_stays(stream: DuplexStream, duration: Duration) {
    let stream = TokioIo::new(stream);
    let connecting = client::handshake(TokioExecutor::new(), stream);
    let (mut sender, connection) = connecting.await.unwrap();
    let connection = tokio::spawn(connection);
    sleep(duration).await;
    let request = Request::new(Empty::<Bytes>::new());
    let answered = sender.send_request(request).await.unwrap();
    answered.into_body().collect().await.unwrap();
    drop(sender);
    connection.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_byte_now_and_then_does_not_keep_a_head_alive() {
    let timer = Timer::new();
    let start = Instant::now();
    let (mut client, served) = serve_http1(&timer, 5 * SECOND);
    let end: io::Result<()> = async {
        loop {
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").await?;
            sleep(SECOND).await;
        }
    }
    .await;
    assert!(end.is_err());
    assert_timed_out(served).await;
    assert!((5 * SECOND..=6 * SECOND).contains(&start.elapsed()));
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_leaves_nothing_armed() {
    let timer = Timer::new();
    let (mut client, served) = serve_http1(&timer, PATIENCE);
    client.write_all(b"GET / HT").await.unwrap();
    sleep(SECOND).await;
    assert_eq!(timer.metrics().pending, 1);
    drop(client);
    assert!(served.await.unwrap().is_err());
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_header_timeout() {
    let timer = Timer::new();
    let (mut client, served) = serve_http1(&timer, 5 * SECOND);
    let start = Instant::now();
    for _ in 0..3 {
        client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        sleep(4 * SECOND).await;
        client.write_all(b"Host: a\r\n\r\n").await.unwrap();
        let mut head = vec![0; 1024];
        assert!(client.read(&mut head).await.unwrap() > 0, "answered");
    }
    assert_eq!(start.elapsed(), 12 * SECOND);
    assert_timed_out(served).await;
    let end = start.elapsed();
    assert_eq!(end, 17 * SECOND, "the idle connection's head never came");
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn answered_pings_keep_a_connection_for_hours() {
    let timer = Timer::new();
    let (client, served) = serve_http2(&timer, 20 * SECOND);
    assert_stays(client, 3 * 3600 * SECOND).await;
    served.await.unwrap().unwrap();
    assert_nothing_stays_armed(&timer).await;
}

/// In real time, because the timer's runtime is another one.
#[tokio::test]
async fn timeouts_and_pings_go_on_after_the_timers_runtime_shut_down() {
    let elsewhere = runtime::Runtime::new().unwrap();
    let timer = elsewhere.spawn(async { Timer::current() }).await.unwrap();
    let start = Instant::now();
    let (mut waits, cut_off) = serve_http1(&timer, 5 * SHORT);
    waits.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
    let (pinged, stays) = serve_http2(&timer, 3 * SHORT);
    while timer.metrics().pending == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    elsewhere.shutdown_background();
    let (mut comes_later, cut_off_later) = serve_http1(&timer, 5 * SHORT);
    comes_later.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let (mut silent, closed) = serve_http2(&timer, SHORT);
    silent.write_all(PREFACE).await.unwrap();

    assert_stays(pinged, 20 * SHORT).await;
    stays.await.unwrap().unwrap();
    for served in [cut_off, cut_off_later, closed] {
        assert_timed_out(served).await;
    }
    assert!(start.elapsed() >= 5 * SHORT);
    let mut frames = Vec::new();
    silent.read_to_end(&mut frames).await.unwrap();
    assert!(!frames.is_empty(), "it was pinged");
}
