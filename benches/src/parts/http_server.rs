//! A hyper HTTP/1 server over real sockets, and its client: what the parts about hyper share.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, rt};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;

use super::loopback::{Listener, connect};
use crate::harness::{Client, Never};

pub const TIMEOUT: Duration = Duration::from_secs(30);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// What a request takes.
pub type Answer = Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>>;

/// It is pending once, as one is that asks somebody else.
fn answer(_: Request<Incoming>) -> Answer {
    Box::pin(async {
        yield_now().await;
        Response::new(Full::new(Bytes::from_static(b"Hello, World!")))
    })
}

/// Serves until it is dropped. A request's head has a timeout, if there is a timer for it, and
/// `bounded` may put one around the answer.
pub async fn serve<F>(
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

/// A timer that does nothing: what hyper itself spends on having one.
impl rt::Timer for Never {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Never)
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Never)
    }

    fn reset(&self, _: &mut Pin<Box<dyn rt::Sleep>>, _: Instant) {}
}

impl rt::Sleep for Never {}

/// Sends request after request over one connection that is kept alive.
pub struct HttpClient {
    stream: TcpStream,
    buffer: [u8; 1024],
}

impl HttpClient {
    pub async fn connect(address: SocketAddr) -> io::Result<HttpClient> {
        Ok(HttpClient {
            stream: connect(address).await?,
            buffer: [0; 1024],
        })
    }
}

impl Client for HttpClient {
    async fn request(&mut self) -> io::Result<()> {
        self.stream.write_all(REQUEST).await?;
        let mut read = 0;
        while !self.buffer[..read].ends_with(b"Hello, World!") {
            let more = self.stream.read(&mut self.buffer[read..]).await?;
            if more == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            read += more;
        }
        Ok(())
    }
}
