//! Crates that take a timer: hyper, hyper-util and quinn.

use std::convert::Infallible;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use quinn::{Endpoint, EndpointConfig};
use tickwheel::{Instant, Timer};
use tickwheel_integrations::quic::TickwheelRuntime;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;

use crate::{PATIENCE, assert_nothing_stays_armed};

const HEAD_WITHIN: Duration = Duration::from_secs(10);
const PING_AFTER: Duration = Duration::from_secs(20);
const PONG_WITHIN: Duration = Duration::from_secs(5);

/// The client's preface of HTTP/2, and an empty frame of settings.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

/// A connection whose peer sends this, and then nothing more.
async fn peer_that_sends(bytes: &[u8]) -> (TokioIo<DuplexStream>, DuplexStream) {
    let (mut peer, ours) = duplex(4096);
    peer.write_all(bytes).await.unwrap();
    (TokioIo::new(ours), peer)
}

#[tokio::test(start_paused = true)]
async fn hyper_http1_server() {
    let timer = Timer::current();
    let (io, mut peer) = peer_that_sends(b"GET / HTTP/1.1\r\n").await;
    let start = Instant::now();
    let served = http1::Builder::new()
        .timer(timer.clone())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(io, service_fn(hello));
    let late = HEAD_WITHIN - Duration::from_secs(1);
    let ends_head = async {
        tokio::time::sleep(late).await;
        peer.write_all(b"host: a\r\n\r\n").await.unwrap();
    };
    let (ended, ()) = tokio::join!(served, ends_head);
    assert!(ended.unwrap_err().is_timeout());
    let each = "each request has its own time, and the second never came";
    assert_eq!(start.elapsed(), late + HEAD_WITHIN, "{each}");
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn hyper_http2_server() {
    let timer = Timer::current();
    let (io, _peer) = peer_that_sends(HTTP2_PREFACE).await;
    let start = Instant::now();
    let ended = http2::Builder::new(TokioExecutor::new())
        .timer(timer.clone())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN)
        .serve_connection(io, service_fn(hello))
        .await;
    assert!(ended.unwrap_err().is_timeout());
    assert_eq!(start.elapsed(), PING_AFTER + PONG_WITHIN);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn hyper_http2_client() {
    let timer = Timer::current();
    let (io, _peer) = peer_that_sends(b"").await;
    let start = Instant::now();
    let (_sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(timer.clone())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN)
        .keep_alive_while_idle(true)
        .handshake::<_, Empty<Bytes>>(io)
        .await
        .unwrap();
    assert!(connection.await.is_err());
    assert!(start.elapsed() >= PING_AFTER + PONG_WITHIN);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn hyper_util_server() {
    let timer = Timer::current();
    let mut server = auto::Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(timer.clone())
        .header_read_timeout(HEAD_WITHIN);
    server
        .http2()
        .timer(timer.clone())
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN);
    for (sent, within) in [
        (&b"GET / HTTP/1.1\r\nhost:"[..], HEAD_WITHIN),
        (HTTP2_PREFACE, PING_AFTER + PONG_WITHIN),
    ] {
        let (io, _peer) = peer_that_sends(sent).await;
        let start = Instant::now();
        let ended = server.serve_connection(io, service_fn(hello)).await;
        assert!(ended.is_err());
        assert!(start.elapsed() >= within);
    }
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn hyper_util_client() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let server = http1::Builder::new();
        let connection = server.serve_connection(TokioIo::new(socket), service_fn(hello));
        connection.await
    });

    let timer = Timer::current();
    let client = legacy::Client::builder(TokioExecutor::new())
        .timer(timer.clone())
        .pool_timer(timer.clone())
        .pool_idle_timeout(Duration::from_millis(50))
        .build_http::<Empty<Bytes>>();
    let answer = client.get(url.parse().unwrap()).await.unwrap();
    answer.into_body().collect().await.unwrap();
    let closed = tokio::time::timeout(PATIENCE, served).await;
    closed.expect("the pool closes it").unwrap().unwrap();
    drop(client);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn quinn_endpoint() {
    let timer = Timer::builder().stall_grace(false).build().unwrap();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let runtime = Arc::new(TickwheelRuntime::new(&timer));
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime.clone());
    assert!(endpoint.unwrap().local_addr().is_ok());

    let later = quinn::Runtime::now(&*runtime) + PING_AFTER;
    let mut connection_timer = quinn::Runtime::new_timer(&*runtime, later);
    std::future::poll_fn(|cx| connection_timer.as_mut().poll(cx)).await;
    assert!(quinn::Runtime::now(&*runtime) >= later);
    drop(connection_timer);
    assert_nothing_stays_armed(&timer).await;
}
