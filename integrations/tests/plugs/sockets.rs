//! Crates that take anything that reads and writes: an `IdleTimeout` around the socket goes in.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tickwheel::io::IdleTimeout;
use tickwheel::{Instant, Timer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Error as WebSocketError;
use tokio_tungstenite::{accept_async, client_async};

use crate::{PATIENCE, assert_nothing_stays_armed};

const IDLE: Duration = Duration::from_secs(30);

/// Short, for what waits in real time.
const SHORT: Duration = Duration::from_millis(100);

struct IdleListener {
    listener: TcpListener,
    timer: Timer,
}

impl Listener for IdleListener {
    type Io = IdleTimeout<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        let (socket, peer) = Listener::accept(&mut self.listener).await;
        (IdleTimeout::new_on(&self.timer, socket, SHORT), peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[tokio::test]
async fn axum_serve() {
    let timer = Timer::current();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = IdleListener {
        listener,
        timer: timer.clone(),
    };
    tokio::spawn(async move { axum::serve(listener, Router::new()).await });

    let mut silent = TcpStream::connect(address).await.unwrap();
    let start = Instant::now();
    let end = tokio::time::timeout(PATIENCE, silent.read(&mut [0; 64])).await;
    assert!(matches!(end.unwrap(), Ok(0) | Err(_)), "it is closed");
    assert!(start.elapsed() < PATIENCE);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn hyper_connection() {
    let timer = Timer::current();
    let (mut peer, ours) = duplex(4096);
    // Half of a request. Where nothing was sent, hyper ends without an error.
    peer.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let socket = TokioIo::new(IdleTimeout::new_on(&timer, ours, IDLE));
    let answer =
        async |_: Request<Incoming>| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()));
    let start = Instant::now();
    let ended = http1::Builder::new().serve_connection(socket, service_fn(answer));
    assert!(ended.await.is_err());
    assert_eq!(start.elapsed(), IDLE);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn tungstenite_socket() {
    let timer = Timer::current();
    let (peer, ours) = duplex(4096);
    let ours = IdleTimeout::new_on(&timer, ours, IDLE);
    let (server, client) = tokio::join!(accept_async(ours), client_async("ws://localhost/", peer));
    let (mut server, _client) = (server.unwrap(), client.unwrap());
    let start = Instant::now();
    let silence = server.next().await.unwrap();
    let timed_out = |error: &io::Error| error.kind() == ErrorKind::TimedOut;
    assert!(matches!(silence, Err(WebSocketError::Io(error)) if timed_out(&error)));
    assert_eq!(start.elapsed(), IDLE);
    drop(server);
    assert_nothing_stays_armed(&timer).await;
}
