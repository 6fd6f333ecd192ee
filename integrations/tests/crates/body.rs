//! `TimeoutBody` under axum and hyper, on real sockets; and what an `IdleTimeout` does there.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::{get, post};
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tickwheel::Timer;
use tickwheel::io::IdleTimeout;
use tickwheel_util::http_body::TimeoutBody;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};

use crate::assert_nothing_stays_armed;

const SHORT: Duration = Duration::from_millis(200);
const MINUTE: Duration = Duration::from_secs(60);
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\nab";

/// A connection to these routes, on which a request was sent.
async fn request(routes: Router, request: &[u8]) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(request).await.unwrap();
    client
}

#[tokio::test]
async fn a_response_that_hangs_is_cut_off() {
    let start = Instant::now();
    let hangs = async || {
        let chunk = stream::iter([Ok::<_, Infallible>("chunk")]);
        let body = Body::from_stream(chunk.chain(stream::pending()));
        Body::new(TimeoutBody::new(body).idle_timeout(SHORT))
    };
    let mut client = request(Router::new().route("/", get(hangs)), GET).await;
    let mut response = Vec::new();
    // The connection ends, whether in order or by a reset.
    let _ = client.read_to_end(&mut response).await;
    let response = String::from_utf8(response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("chunk"), "{response}");
    let is_whole = response.ends_with("0\r\n\r\n");
    assert!(!is_whole, "the client would take it for whole: {response}");
    assert!(start.elapsed() >= SHORT, "never early");
    assert_nothing_stays_armed(&Timer::current()).await;
}

#[tokio::test]
async fn a_client_that_falls_silent_or_drips_in_its_body_is_told() {
    for (idle, total, told) in [
        (SHORT, MINUTE, "no frame within its idle timeout"),
        (MINUTE, SHORT, "within its total timeout"),
    ] {
        let upload = async move |body: Body| {
            let body = TimeoutBody::new(body)
                .idle_timeout(idle)
                .total_timeout(total);
            let error = body.collect().await.unwrap_err();
            assert!(error.is_timeout());
            (StatusCode::REQUEST_TIMEOUT, error.to_string())
        };
        let start = Instant::now();
        let client = request(Router::new().route("/", post(upload)), POST).await;
        let (mut read, mut write) = client.into_split();
        let dripping = tokio::spawn(async move {
            while total == SHORT && write.write_all(b"a").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            std::future::pending::<()>().await;
        });
        let mut response = vec![0; 1024];
        let length = read.read(&mut response).await.unwrap();
        let response = String::from_utf8_lossy(&response[..length]);
        assert!(response.starts_with("HTTP/1.1 408"), "{response}");
        assert!(response.contains(told), "{response}");
        assert!(start.elapsed() >= SHORT, "never early");
        dripping.abort();
        drop(read);
        assert_nothing_stays_armed(&Timer::current()).await;
    }
}

/// An `IdleTimeout` around the socket: no byte moves while a handler works.
#[tokio::test(start_paused = true)]
async fn an_answer_that_takes_longer_than_the_idle_time_is_cut_off() {
    for (works, is_answered) in [(MINUTE / 2, true), (2 * MINUTE, false)] {
        let (mut peer, socket) = duplex(4096);
        peer.write_all(GET).await.unwrap();
        let socket = TokioIo::new(IdleTimeout::new(socket, MINUTE));
        let answer = service_fn(async |_: Request<Incoming>| {
            tokio::time::sleep(works).await;
            Ok::<_, Infallible>(Response::new(String::new()))
        });
        let served = http1::Builder::new().serve_connection(socket, answer);
        assert_eq!(served.await.is_ok(), is_answered);
        let mut heard = String::new();
        peer.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard.starts_with("HTTP/1.1 200"), is_answered, "{heard}");
    }
}
