//! hyper's and hyper-util's servers, with tickwheel's timer: over loopback with the system's clock,
//! and over pipes in memory with tokio's paused one. `hyper_pool` has the pooled client's tests.
//!
//! Invariant: after each scenario nothing stays armed.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tickwheel::{Instant, Timer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;

use crate::PATIENCE;

const SECOND: Duration = Duration::from_secs(1);

/// Short, for what waits in real time.
const SHORT: Duration = Duration::from_millis(100);

/// What an HTTP/2 client says first, and a SETTINGS frame with nothing in it.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A SETTINGS frame with nothing in it.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("answer")))
}

fn http1_server(timer: &Timer, timeout: Duration) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(timer.clone()).header_read_timeout(timeout);
    builder
}

fn http2_server(timer: &Timer, interval: Duration) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(timer.clone())
        .keep_alive_interval(interval)
        .keep_alive_timeout(interval);
    builder
}

fn auto_server(timer: &Timer, timeout: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(timer.clone())
        .header_read_timeout(timeout);
    builder
        .http2()
        .timer(timer.clone())
        .keep_alive_interval(timeout)
        .keep_alive_timeout(timeout);
    builder
}

async fn socket_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.unwrap(), accepted.unwrap().0)
}

/// What the peer had sent when it closed the connection.
async fn read_to_close(mut peer: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut read = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, peer.read_to_end(&mut read)).await;
    match closed.expect("the connection is closed") {
        Ok(_) => read,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => read,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn half_a_request_head_is_cut_off() {
    let timer = Timer::new();
    let (mut client, server) = socket_pair().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();

    let start = Instant::now();
    let served = http1_server(&timer, SHORT)
        .serve_connection(TokioIo::new(server), service_fn(answer))
        .await;
    assert!(start.elapsed() >= SHORT);
    assert!(served.unwrap_err().is_timeout());
    read_to_close(client).await;
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test]
async fn a_byte_now_and_then_does_not_keep_a_head_alive() {
    let timer = Timer::new();
    let (mut client, server) = socket_pair().await;
    let slow = tokio::spawn(async move {
        for byte in b"GET / HTTP/1.1\r\nHost: a-long-name\r\n".iter().cycle() {
            tokio::time::sleep(SHORT / 5).await;
            if client.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
    });

    let start = Instant::now();
    let served = http1_server(&timer, SHORT)
        .serve_connection(TokioIo::new(server), service_fn(answer))
        .await;
    assert!(start.elapsed() >= SHORT);
    assert!(served.unwrap_err().is_timeout());
    let ended = tokio::time::timeout(PATIENCE, slow).await;
    ended.expect("its writes fail").unwrap();
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_nothing_armed() {
    let timer = Timer::new();
    let (mut client, server) = socket_pair().await;
    client.write_all(b"GET / HT").await.unwrap();
    let serving = tokio::spawn(
        http1_server(&timer, PATIENCE).serve_connection(TokioIo::new(server), service_fn(answer)),
    );
    while timer.metrics().pending == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client.set_zero_linger().unwrap();
    drop(client);
    assert!(serving.await.unwrap().is_err(), "the connection was reset");
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test]
async fn the_auto_builder_cuts_half_a_head_off() {
    let timer = Timer::new();
    let (mut client, server) = socket_pair().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
    let served = auto_server(&timer, SHORT)
        .serve_connection(TokioIo::new(server), service_fn(answer))
        .await;
    assert!(served.is_err());
    read_to_close(client).await;
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test]
async fn a_peer_that_answers_no_pings_is_closed() {
    let timer = Timer::new();
    for auto in [false, true] {
        let (mut client, server) = socket_pair().await;
        client.write_all(PREFACE).await.unwrap();

        let start = Instant::now();
        let server = TokioIo::new(server);
        let timed_out = if auto {
            let builder = auto_server(&timer, SHORT);
            let served = builder.serve_connection(server, service_fn(answer)).await;
            served.is_err()
        } else {
            let builder = http2_server(&timer, SHORT);
            let served = builder.serve_connection(server, service_fn(answer)).await;
            served.unwrap_err().is_timeout()
        };
        assert!(start.elapsed() >= 2 * SHORT, "the interval and the timeout");
        assert!(timed_out);
        assert!(!read_to_close(client).await.is_empty(), "it was pinged");
        assert_eq!(timer.metrics().pending, 0);
    }
}

#[tokio::test]
async fn a_client_closes_a_server_that_answers_no_pings() {
    let timer = Timer::new();
    let (client, mut server) = socket_pair().await;
    server.write_all(SETTINGS).await.unwrap();

    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(timer.clone())
        .keep_alive_interval(SHORT)
        .keep_alive_timeout(SHORT)
        .handshake(TokioIo::new(client))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::new(Empty::<Bytes>::new());
    let start = Instant::now();
    let answered = tokio::time::timeout(PATIENCE, sender.send_request(request)).await;
    assert!(start.elapsed() >= SHORT);
    assert!(answered.expect("the connection is closed").is_err());
    drop(sender);
    let _ = connection.await.unwrap();
    read_to_close(server).await;
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_header_timeout() {
    let timer = Timer::new();
    let (mut client, server) = duplex(1024);
    let served = tokio::spawn(
        http1_server(&timer, 5 * SECOND).serve_connection(TokioIo::new(server), service_fn(answer)),
    );
    let start = Instant::now();
    for _ in 0..3 {
        client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        tokio::time::sleep(4 * SECOND).await;
        client.write_all(b"Host: a\r\n\r\n").await.unwrap();
        let mut head = vec![0; 1024];
        assert!(client.read(&mut head).await.unwrap() > 0, "answered");
    }
    assert_eq!(start.elapsed(), 12 * SECOND);
    assert!(served.await.unwrap().unwrap_err().is_timeout());
    assert_eq!(
        start.elapsed(),
        17 * SECOND,
        "the idle connection's head never came"
    );
    assert_eq!(timer.metrics().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn answered_pings_keep_a_connection_for_hours() {
    let timer = Timer::new();
    let (client, server) = duplex(64 * 1024);
    let served = tokio::spawn(
        http2_server(&timer, 20 * SECOND)
            .serve_connection(TokioIo::new(server), service_fn(answer)),
    );
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    tokio::time::sleep(3 * 3600 * SECOND).await;
    let request = Request::new(Empty::<Bytes>::new());
    let answered = sender.send_request(request).await.unwrap();
    answered.into_body().collect().await.unwrap();
    drop(sender);
    connection.await.unwrap().unwrap();
    served.await.unwrap().unwrap();
    assert_eq!(timer.metrics().pending, 0);
}

/// A timer, and the runtime that drives it. The connection is served in another runtime.
async fn timer_elsewhere() -> (runtime::Runtime, Timer) {
    let elsewhere = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let timer = elsewhere.spawn(async { Timer::current() }).await.unwrap();
    (elsewhere, timer)
}

#[tokio::test]
async fn a_head_is_cut_off_after_the_timers_runtime_shut_down() {
    for while_it_waits in [false, true] {
        let (elsewhere, timer) = timer_elsewhere().await;
        let (mut client, server) = socket_pair().await;
        client.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
        let start = Instant::now();
        let builder = http1_server(&timer, 5 * SHORT);
        let serve = async move {
            let server = TokioIo::new(server);
            builder.serve_connection(server, service_fn(answer)).await
        };
        if while_it_waits {
            let served = tokio::spawn(serve);
            while timer.metrics().pending == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            elsewhere.shutdown_background();
            assert!(served.await.unwrap().unwrap_err().is_timeout());
        } else {
            elsewhere.shutdown_background();
            assert!(tokio::spawn(serve).await.unwrap().unwrap_err().is_timeout());
        }
        assert!(start.elapsed() >= 5 * SHORT);
        read_to_close(client).await;
    }
}

#[tokio::test]
async fn pings_go_on_after_the_timers_runtime_shut_down() {
    let (elsewhere, timer) = timer_elsewhere().await;
    let (client, server) = socket_pair().await;
    let served = tokio::spawn(
        http2_server(&timer, SHORT).serve_connection(TokioIo::new(server), service_fn(answer)),
    );
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    elsewhere.shutdown_background();
    tokio::time::sleep(10 * SHORT).await;
    let request = Request::new(Empty::<Bytes>::new());
    let answered = sender.send_request(request).await.unwrap();
    answered.into_body().collect().await.unwrap();
    drop(sender);
    connection.await.unwrap().unwrap();
    served.await.unwrap().unwrap();

    let (elsewhere, timer) = timer_elsewhere().await;
    let (mut client, server) = socket_pair().await;
    client.write_all(PREFACE).await.unwrap();
    let served = tokio::spawn(
        http2_server(&timer, SHORT).serve_connection(TokioIo::new(server), service_fn(answer)),
    );
    elsewhere.shutdown_background();
    let served = tokio::time::timeout(PATIENCE, served).await;
    let served = served.expect("a silent peer is closed").unwrap();
    assert!(served.unwrap_err().is_timeout());
    assert!(!read_to_close(client).await.is_empty(), "it was pinged");
}
