//! `TimeoutBody` under axum and hyper, on real sockets.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::{get, post};
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tickwheel::Timer;
use tickwheel::http_body::{Error, TimeoutBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SHORT: Duration = Duration::from_millis(200);
const MINUTE: Duration = Duration::from_secs(60);

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

async fn upload(body: Body, idle: Duration, total: Duration) -> (StatusCode, String) {
    let body = TimeoutBody::new(body)
        .idle_timeout(idle)
        .total_timeout(total);
    match body.collect().await {
        Ok(body) => (StatusCode::OK, body.to_bytes().len().to_string()),
        Err(error) if error.is_timeout() => (StatusCode::REQUEST_TIMEOUT, error.to_string()),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
    }
}

/// A body that gives a chunk, and then nothing more.
fn hangs() -> Body {
    let chunk = stream::iter([Ok::<_, Infallible>("chunk")]);
    Body::from_stream(chunk.chain(stream::pending()))
}

/// Waits for what other tasks have yet to drop.
async fn assert_nothing_armed_in_the_end() {
    let start = Instant::now();
    while Timer::current().metrics().pending > 0 {
        assert!(start.elapsed() < MINUTE, "timers are armed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_response_that_hangs_is_cut_off() {
    let handler = async || Body::new(TimeoutBody::new(hangs()).idle_timeout(SHORT));
    let address = serve(Router::new().route("/", get(handler))).await;
    let start = Instant::now();
    let mut client = TcpStream::connect(address).await.unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut response = Vec::new();
    // The connection ends, whether in order or by a reset.
    let _ = client.read_to_end(&mut response).await;
    let response = String::from_utf8(response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("chunk"), "{response}");
    assert!(
        !response.ends_with("0\r\n\r\n"),
        "not as if it was whole: {response}"
    );
    assert!(start.elapsed() >= SHORT, "never early");
    assert_nothing_armed_in_the_end().await;
}

#[tokio::test]
async fn a_client_that_falls_silent_in_its_body_is_told() {
    let handler = async |body: Body| upload(body, SHORT, MINUTE).await;
    let address = serve(Router::new().route("/", post(handler))).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nab";
    client.write_all(head).await.unwrap();
    let mut response = vec![0; 1024];
    let length = client.read(&mut response).await.unwrap();
    let response = String::from_utf8_lossy(&response[..length]);
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
    assert!(
        response.contains("no frame within its idle timeout"),
        "{response}"
    );
    drop(client);
    assert_nothing_armed_in_the_end().await;
}

#[tokio::test]
async fn a_client_that_drips_runs_into_the_total() {
    let handler = async |body: Body| upload(body, MINUTE, SHORT).await;
    let address = serve(Router::new().route("/", post(handler))).await;
    let (mut read, mut write) = TcpStream::connect(address).await.unwrap().into_split();
    let start = Instant::now();
    let dripping = tokio::spawn(async move {
        let head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n";
        write.write_all(head).await.unwrap();
        while write.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let mut response = vec![0; 1024];
    let length = read.read(&mut response).await.unwrap();
    let response = String::from_utf8_lossy(&response[..length]);
    assert!(response.starts_with("HTTP/1.1 408"), "{response}");
    assert!(response.contains("within its total timeout"), "{response}");
    assert!(start.elapsed() >= SHORT, "never early");
    dripping.abort();
    drop(read);
    assert_nothing_armed_in_the_end().await;
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_nothing_armed() {
    let handler = async || {
        let body = TimeoutBody::new(hangs());
        Body::new(body.idle_timeout(MINUTE).total_timeout(MINUTE))
    };
    let address = serve(Router::new().route("/", get(handler))).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(client.read(&mut [0; 1024]).await.unwrap() > 0);
    assert!(Timer::current().metrics().pending > 0, "its deadlines");
    client.set_zero_linger().unwrap();
    drop(client);
    assert_nothing_armed_in_the_end().await;
}

/// A connection of hyper's over HTTP/2 whose server gives these bodies.
async fn get_over_http2<B>(body: fn() -> B) -> Response<hyper::body::Incoming>
where
    B: http_body::Body<Data = Bytes, Error = Error> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(client, listener.accept());
    let server = TokioIo::new(accepted.unwrap().0);
    tokio::spawn(async move {
        let service = hyper::service::service_fn(move |_| async move {
            Ok::<_, Infallible>(Response::new(Box::pin(body())))
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(server, service);
        let _ = server.await;
    });
    let client = TokioIo::new(client.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), client)
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = Request::new(Empty::<Bytes>::new());
    sender.send_request(request).await.unwrap()
}

fn frames() -> impl stream::Stream<Item = Result<Frame<Bytes>, Infallible>> {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", "42".parse().unwrap());
    stream::iter([
        Ok(Frame::data(Bytes::from("data"))),
        Ok(Frame::trailers(trailers)),
    ])
}

#[tokio::test]
async fn trailers_pass_through_hyper() {
    let response = get_over_http2(|| {
        let body = TimeoutBody::new(StreamBody::new(frames()));
        body.idle_timeout(MINUTE).total_timeout(MINUTE)
    })
    .await;
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["checksum"], "42");
    assert_eq!(body.to_bytes(), "data");
    assert_nothing_armed_in_the_end().await;
}

#[tokio::test]
async fn a_stream_that_hangs_over_http2_is_reset() {
    let response = get_over_http2(|| {
        let frames = frames().take(1).chain(stream::pending());
        TimeoutBody::new(StreamBody::new(frames)).idle_timeout(SHORT)
    })
    .await;
    let mut body = response.into_body();
    let data = body.frame().await.unwrap().unwrap();
    assert_eq!(data.into_data().unwrap(), "data");
    assert!(body.frame().await.unwrap().is_err(), "cut off, and told so");
    assert_nothing_armed_in_the_end().await;
}
