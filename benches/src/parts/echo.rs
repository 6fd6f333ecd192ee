//! A loopback echo server whose 200 connections read under a timeout of 30 s: what all this is
//! worth in a program.
//!
//! One set of connections serves all contenders. Before each read, a task looks up which contender
//! to use. So the contenders run alternately on the same sockets and tasks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tickwheel::Timer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "echo",
    about: "loopback echo server, 200 connections, each read under a timeout: requests a second",
    how: How::Together(run),
};

const CONNECTIONS: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(30);
const CONTENDERS: [&str; 5] = [
    name::TICKWHEEL,
    name::DROP_IN,
    name::TOKIO,
    name::PINGORA,
    name::NO_TIMER,
];

type Message = [u8; 64];

#[derive(Default)]
struct Shared {
    /// An index into `CONTENDERS`.
    turn: AtomicUsize,
    requests: AtomicU64,
}

fn run(settings: &Settings) -> Vec<Record> {
    let rounds = settings.either(21, 3);
    let warm_up = Duration::from_millis(50);
    let sample = settings.either(Duration::from_millis(200), Duration::from_millis(50));
    let mut samples: [Vec<f64>; CONTENDERS.len()] = Default::default();
    let runtime = runtime(2);
    let shared = runtime.block_on(start()).expect("loopback connections");
    let mut order: Vec<usize> = (0..CONTENDERS.len()).collect();
    for _ in 0..rounds {
        fastrand::shuffle(&mut order);
        for &index in &order {
            shared.turn.store(index, Ordering::Relaxed);
            std::thread::sleep(warm_up);
            let (begin, before) = (Instant::now(), shared.requests.load(Ordering::Relaxed));
            std::thread::sleep(sample);
            let (time, after) = (begin.elapsed(), shared.requests.load(Ordering::Relaxed));
            samples[index].push((after - before) as f64 / time.as_secs_f64());
        }
    }
    CONTENDERS
        .into_iter()
        .zip(samples)
        .map(|(name, samples)| Record::new("echo", name, samples))
        .collect()
}

/// Connects all clients, each to a task of the server's, and lets them run.
async fn start() -> io::Result<Arc<Shared>> {
    let shared = Arc::new(Shared::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    for _ in 0..CONNECTIONS {
        let client = TcpStream::connect(address).await?;
        let (server, _) = listener.accept().await?;
        for side in [&client, &server] {
            side.set_nodelay(true)?;
        }
        tokio::spawn(serve(server, shared.clone()));
        tokio::spawn(ask(client, shared.clone()));
    }
    Ok(shared)
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    let timer = Timer::current();
    let mut message: Message = [0; 64];
    loop {
        let read = stream.read_exact(&mut message);
        let turn = shared.turn.load(Ordering::Relaxed);
        match CONTENDERS[turn] {
            name::TICKWHEEL => timer.timeout(TIMEOUT, read).await?,
            name::DROP_IN => tickwheel::timeout(TIMEOUT, read).await?,
            name::TOKIO => tokio::time::timeout(TIMEOUT, read).await?,
            name::PINGORA => pingora_timeout::timeout(TIMEOUT, read)
                .await
                .map_err(io::Error::other)?,
            _ => read.await,
        }?;
        stream.write_all(&message).await?;
    }
}

async fn ask(mut stream: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    let mut message: Message = [7; 64];
    loop {
        stream.write_all(&message).await?;
        stream.read_exact(&mut message).await?;
        shared.requests.fetch_add(1, Ordering::Relaxed);
    }
}
