//! hyper's servers with tickwheel's timer: what `tests/plugs/timers.rs` and the tests of the program
//! `hyper_server` do not show. Connections are pipes in memory, under tokio's paused clock.
//!
//! Invariant: after each scenario nothing stays armed.

use std::convert::Infallible;
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
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("answer")))
}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_header_timeout() {
    let timer = Timer::new();
    let (mut client, server) = duplex(1024);
    let served = http1::Builder::new()
        .timer(timer.clone())
        .header_read_timeout(5 * SECOND)
        .serve_connection(TokioIo::new(server), service_fn(answer));
    let served = tokio::spawn(served);
    let start = Instant::now();
    for _ in 0..3 {
        client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        sleep(4 * SECOND).await;
        client.write_all(b"Host: a\r\n\r\n").await.unwrap();
        let mut head = vec![0; 1024];
        assert!(client.read(&mut head).await.unwrap() > 0, "answered");
    }
    assert_eq!(start.elapsed(), 12 * SECOND);
    assert!(served.await.unwrap().unwrap_err().is_timeout());
    let end = start.elapsed();
    assert_eq!(end, 17 * SECOND, "the idle connection's head never came");
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn answered_pings_keep_a_connection_for_hours() {
    let timer = Timer::new();
    let (client, server) = duplex(64 * 1024);
    let served = http2::Builder::new(TokioExecutor::new())
        .timer(timer.clone())
        .keep_alive_interval(20 * SECOND)
        .keep_alive_timeout(20 * SECOND)
        .serve_connection(TokioIo::new(server), service_fn(answer));
    let served = tokio::spawn(served);
    let connecting = client::handshake(TokioExecutor::new(), TokioIo::new(client));
    let (mut sender, connection) = connecting.await.unwrap();
    let connection = tokio::spawn(connection);
    sleep(3 * 3600 * SECOND).await;
    let request = Request::new(Empty::<Bytes>::new());
    let answered = sender.send_request(request).await.unwrap();
    answered.into_body().collect().await.unwrap();
    drop(sender);
    connection.await.unwrap().unwrap();
    served.await.unwrap().unwrap();
    assert_eq!(timer.metrics().pending, 0);
}
