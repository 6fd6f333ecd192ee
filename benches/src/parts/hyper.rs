//! A hyper server over real sockets, with a timeout for each request's head and for each request.
//! It tells what the timers take of the CPU of a request. Beside it stands the same server with a
//! timer for hyper that does nothing, and with no timer at all.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, rt};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

use super::{How, Part, name};
use crate::harness::{Never, Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "hyper",
    about: "hyper server, 64 connections, timeouts for heads and requests: CPU of a request",
    how: How::Apart {
        contenders: &[name::TICKWHEEL, name::TOKIO, name::NO_OP, name::NO_TIMER],
        rounds: 11,
        run,
    },
};

const CONNECTIONS: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(30);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
    let settings = settings.clone();
    let contender = contender.to_owned();
    runtime(2).block_on(async move {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let server = match &*contender {
            name::TICKWHEEL => {
                let timer = tickwheel::Timer::current();
                let of_hyper = Some(Arc::new(Ours(timer.clone())) as Arc<dyn HyperTimer>);
                tokio::spawn(serve(listener, of_hyper, move |answer: Answer| {
                    let timeout = timer.timeout(TIMEOUT, answer);
                    async { timeout.await.expect("it is in time") }
                }))
            }
            name::TOKIO => {
                let of_hyper = Some(Arc::new(TokioTimer::new()) as Arc<dyn HyperTimer>);
                tokio::spawn(serve(listener, of_hyper, |answer: Answer| {
                    let timeout = tokio::time::timeout(TIMEOUT, answer);
                    async { timeout.await.expect("it is in time") }
                }))
            }
            name::NO_OP => {
                let of_hyper = Some(Arc::new(Never) as Arc<dyn HyperTimer>);
                tokio::spawn(serve(listener, of_hyper, |answer| answer))
            }
            _ => tokio::spawn(serve(listener, None, |answer| answer)),
        };
        let time = settings.either(Duration::from_secs(2), Duration::from_millis(200));
        let cpu = ProcessTime::now();
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| tokio::spawn(client(address, time)))
            .collect();
        let mut requests = 0;
        for client in clients {
            requests += client.await.expect("the client does not panic");
        }
        let cpu = cpu.elapsed().as_nanos() as f64 / f64::from(requests);
        server.abort();
        vec![Record::new("hyper-cpu", &contender, vec![cpu])]
    })
}

/// A timer of hyper's that all connections can share.
trait HyperTimer: rt::Timer + Send + Sync {}

impl<T: rt::Timer + Send + Sync> HyperTimer for T {}

#[derive(Clone)]
struct Shared(Arc<dyn HyperTimer>);

impl rt::Timer for Shared {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.0.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        self.0.sleep_until(deadline)
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: Instant) {
        self.0.reset(sleep, deadline);
    }
}

/// Tickwheel's timer behind hyper's trait.
struct Ours(tickwheel::Timer);

struct OurSleep(tickwheel::Sleep);

impl rt::Timer for Ours {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(OurSleep(self.0.sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(OurSleep(self.0.sleep_until(deadline.into())))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<OurSleep>() {
            Some(sleep) => sleep.get_mut().0.reset_at(deadline.into()),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl Future for OurSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl rt::Sleep for OurSleep {}

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

type Answer = Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>>;

/// What a request takes. It is pending once, like a request that asks another server.
fn answer(_: Request<Incoming>) -> Answer {
    Box::pin(async {
        yield_now().await;
        Response::new(Full::new(Bytes::from_static(b"Hello, World!")))
    })
}

async fn serve<F>(
    listener: TcpListener,
    timer: Option<Arc<dyn HyperTimer>>,
    bounded: impl Fn(Answer) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let mut builder = http1::Builder::new();
    if let Some(timer) = timer {
        builder.timer(Shared(timer)).header_read_timeout(TIMEOUT);
    } else {
        builder.header_read_timeout(None);
    }
    loop {
        let (stream, _) = listener.accept().await.expect("the listener is open");
        stream.set_nodelay(true).expect("it is a socket");
        let bounded = bounded.clone();
        let service = service_fn(move |request| {
            let response = bounded(answer(request));
            async move { Ok::<_, Infallible>(response.await) }
        });
        // A client that leaves is no error.
        tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
    }
}

/// Sends request after request over one connection, and says how many were answered.
async fn client(address: SocketAddr, time: Duration) -> u32 {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.set_nodelay(true).expect("it is a socket");
    let (mut buffer, mut requests) = ([0; 1024], 0);
    let begin = Instant::now();
    while begin.elapsed() < time {
        stream.write_all(REQUEST).await.expect("it is open");
        let mut read = 0;
        while !buffer[..read].ends_with(b"Hello, World!") {
            let more = stream.read(&mut buffer[read..]).await.expect("it is open");
            assert!(more > 0, "the server has closed the connection");
            read += more;
        }
        requests += 1;
    }
    requests
}
