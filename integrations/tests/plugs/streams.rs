//! Crates that take streams and bodies, or give them.

use std::convert::Infallible;
use std::future::pending;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use axum::routing::get;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tickwheel::{Instant, Timer};
use tickwheel_util::http_body::TimeoutBody;
use tickwheel_util::stream::{IntervalStream, StreamExt as _};
use tokio::io::duplex;
use tokio::net::TcpListener;
use tokio_tungstenite::{accept_async, client_async};

use crate::{PATIENCE, assert_nothing_stays_armed};

const GAP: Duration = Duration::from_secs(10);

/// Short, for what waits in real time.
const SHORT: Duration = Duration::from_millis(100);

/// One piece, and a second one that never comes.
fn stalled() -> impl Stream<Item = Result<Bytes, Infallible>> + Send + Sync + 'static {
    let first = stream::iter([Ok(Bytes::from_static(b"first"))]);
    first.chain(stream::once(pending()))
}

#[tokio::test(start_paused = true)]
async fn axum_body() {
    let timer = Timer::current();
    let body = TimeoutBody::new_on(&timer, Body::from_stream(stalled())).idle_timeout(GAP);
    let start = Instant::now();
    assert!(to_bytes(Body::new(body), usize::MAX).await.is_err());
    assert_eq!(start.elapsed(), GAP);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn axum_sse() {
    let timer = Timer::current();
    let ticks = IntervalStream::new(timer.interval(GAP));
    let events = ticks.map(|_| Ok::<_, Infallible>(Event::default().data("tick")));
    let mut body = Sse::new(events).into_response().into_body();
    let start = Instant::now();
    for _event in 0..3 {
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "data: tick\n\n");
    }
    assert_eq!(start.elapsed(), 2 * GAP);
    drop(body);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn reqwest_body() {
    let timer = Timer::current();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let routes = Router::new().route(
        "/",
        get(async || Body::from_stream(stalled())).post(async |_: Bytes| ()),
    );
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();

    // What is sent.
    let sent = StreamBody::new(stalled().map_ok(Frame::data));
    let sent = TimeoutBody::new_on(&timer, sent).idle_timeout(SHORT);
    let call = client.post(&url).body(reqwest::Body::wrap(sent)).send();
    assert!(tokio::time::timeout(PATIENCE, call).await.unwrap().is_err());

    // What is received.
    let answer: http::Response<reqwest::Body> = client.get(&url).send().await.unwrap().into();
    let received = TimeoutBody::new_on(&timer, answer.into_body()).idle_timeout(SHORT);
    let received = tokio::time::timeout(PATIENCE, received.collect()).await;
    assert!(received.unwrap().unwrap_err().is_timeout());
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn tungstenite_messages() {
    let timer = Timer::current();
    let (peer, ours) = duplex(4096);
    let (server, client) = tokio::join!(accept_async(ours), client_async("ws://localhost/", peer));
    let (server, _client) = (server.unwrap(), client.unwrap());
    let mut messages = server.idle_timeout(GAP);
    let start = Instant::now();
    assert!(matches!(messages.next().await, Some(Err(_elapsed))));
    assert_eq!(start.elapsed(), GAP);
    drop(messages);
    assert_nothing_stays_armed(&timer).await;
}
