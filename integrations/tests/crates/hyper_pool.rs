//! The pooled client of hyper-util, with tickwheel's timer: over loopback with the system's clock,
//! and over pipes in memory with tokio's paused one.
//!
//! Invariant: after each scenario nothing stays armed.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::rt::ReadBufCursor;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tickwheel::{Instant, Timer};
use tokio::io::{AsyncWrite, DuplexStream, duplex};
use tokio::net::TcpListener;

use crate::{PATIENCE, assert_nothing_stays_armed};

const SECOND: Duration = Duration::from_secs(1);

/// Short, for what waits in real time.
const SHORT: Duration = Duration::from_millis(100);

async fn answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("answer")))
}

#[tokio::test]
async fn the_pool_drops_idle_connections() {
    let timer = Timer::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri: Uri = format!("http://{}/", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let serving = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        http1::Builder::new()
            .serve_connection(TokioIo::new(socket), service_fn(answer))
            .await
    });

    let client: Client<HttpConnector, Empty<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_idle_timeout(SHORT)
        .pool_timer(timer.clone())
        .build_http();
    let answer = client.get(uri).await.unwrap();
    answer.into_body().collect().await.unwrap();
    let idle_since = Instant::now();

    let served = tokio::time::timeout(PATIENCE, serving).await;
    served.expect("the client closes").unwrap().unwrap();
    assert!(idle_since.elapsed() >= SHORT);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn the_pool_sweeps_by_the_virtual_clock() {
    let timer = Timer::new();
    let served = Arc::new(AtomicUsize::new(0));
    let connector = {
        let served = served.clone();
        tower::service_fn(move |_: Uri| {
            let served = served.clone();
            let (client, server) = duplex(1024);
            tokio::spawn(async move {
                let serving = http1::Builder::new()
                    .serve_connection(TokioIo::new(server), service_fn(answer));
                serving.await.unwrap();
                served.fetch_add(1, Ordering::Relaxed);
            });
            std::future::ready(Ok::<_, Infallible>(Pipe(TokioIo::new(client))))
        })
    };
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_idle_timeout(90 * SECOND)
        .pool_timer(timer.clone())
        .build(connector);
    let get = async || {
        let answer = client.get(Uri::from_static("http://pipe/")).await.unwrap();
        answer.into_body().collect().await.unwrap();
    };

    get().await;
    tokio::time::sleep(89 * SECOND).await;
    get().await;
    tokio::time::sleep(89 * SECOND).await;
    assert_eq!(
        served.load(Ordering::Relaxed),
        0,
        "the second request had the same connection"
    );
    tokio::time::sleep(92 * SECOND).await;
    assert_eq!(
        served.load(Ordering::Relaxed),
        1,
        "two sweeps later it is closed"
    );
    assert_eq!(timer.metrics().pending, 0, "and the sweeper has ended");
}

/// A connection of the pooled client through memory.
struct Pipe(TokioIo<DuplexStream>);

impl Connection for Pipe {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        hyper::rt::Write::poll_write(Pin::new(&mut self.0), cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        hyper::rt::Write::poll_flush(Pin::new(&mut self.0), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(self.0.inner_mut()), cx)
    }
}
