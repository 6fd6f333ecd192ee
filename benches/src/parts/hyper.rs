//! A hyper HTTP/1 server under the full load of a client that keeps its connections alive, with a
//! timeout for each request's head and for each answer. Beside it the same server with no timer.
//!
//! The server and its client have a thread each, and the CPU is the server's alone.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, rt};
use hyper_util::rt::{TokioIo, TokioTimer};
use tickwheel::Timer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;

use super::loopback::{Listener, clients};
use crate::harness::{Client, Record, Scene, TIMEOUT, load, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "hyper",
    about: "hyper server, 64 connections kept alive, timeouts for heads and answers",
    state: "A sleep stands next to the connections, whose timeouts are armed and disarmed for \
            each request. Unlike a server: all connections have a request under way all the \
            time, all requests are alike, and no timeout passes.",
    how: How::Together(run),
};

const CONNECTIONS: usize = 64;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
const CONTENDERS: [&str; 3] = [name::TICKWHEEL, name::TOKIO, name::NO_TIMER];

fn run(settings: &Settings) -> Vec<Record> {
    load(PART.name, &CONTENDERS, settings, set_up)
}

fn set_up(contender: &str) -> Scene<HttpClient> {
    let (measured, other) = (runtime(1), runtime(1));
    let address = measured.block_on(async {
        let listener = Listener::bind().await;
        let address = listener.address;
        match contender {
            name::TICKWHEEL => {
                let timer = Timer::current();
                let bounds = timer.clone();
                tokio::spawn(serve(listener, Some(timer), move |answer: Answer| {
                    let timeout = bounds.timeout(TIMEOUT, answer);
                    async { timeout.await.expect("it is in time") }
                }))
            }
            name::TOKIO => {
                let timer = Some(TokioTimer::new());
                tokio::spawn(serve(listener, timer, |answer: Answer| {
                    let timeout = tokio::time::timeout(TIMEOUT, answer);
                    async { timeout.await.expect("it is in time") }
                }))
            }
            _ => tokio::spawn(serve(listener, None::<TokioTimer>, |answer| answer)),
        };
        address
    });
    let client = |stream| HttpClient(stream, [0; 1024]);
    let clients = other.block_on(clients(CONNECTIONS, address, client));
    Scene {
        clients,
        other,
        measured,
    }
}

/// What a request takes.
type Answer = Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>>;

/// It is pending once, as one is that asks somebody else.
fn answer(_: Request<Incoming>) -> Answer {
    Box::pin(async {
        yield_now().await;
        Response::new(Full::new(Bytes::from_static(b"Hello, World!")))
    })
}

/// Serves until it is dropped. A request's head has a timeout, if there is a timer for it, and
/// `bounded` may put one around the answer.
async fn serve<F>(
    listener: Listener,
    timer: Option<impl rt::Timer + Send + Sync + 'static>,
    bounded: impl Fn(Answer) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let mut builder = http1::Builder::new();
    if let Some(timer) = timer {
        builder.timer(timer).header_read_timeout(TIMEOUT);
    } else {
        builder.header_read_timeout(None);
    }
    loop {
        let stream = listener.accept().await.expect("the listener is open");
        let bounded = bounded.clone();
        let service = service_fn(move |request| {
            let response = bounded(answer(request));
            async move { Ok::<_, Infallible>(response.await) }
        });
        // A client that leaves is no error.
        tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
    }
}

/// Sends request after request over one connection that is kept alive, and reads into a buffer.
struct HttpClient(TcpStream, [u8; 1024]);

impl Client for HttpClient {
    async fn request(&mut self) -> io::Result<()> {
        let HttpClient(stream, buffer) = self;
        stream.write_all(REQUEST).await?;
        let mut read = 0;
        while !buffer[..read].ends_with(b"Hello, World!") {
            let more = stream.read(&mut buffer[read..]).await?;
            if more == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            read += more;
        }
        Ok(())
    }
}
