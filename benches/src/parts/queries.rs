//! A client that keeps 256 queries in flight over one connection, each under a timeout of 30 s: a
//! database's or a cache's, whose connection many tasks share.
//!
//! The protocol is the smallest that does it: a query is a number of eight bytes, the server sends
//! it back, and answers come in the order of the queries. The client and the server have a thread
//! each, and the CPU is the client's alone.

use std::io;
use std::time::Duration;

use tickwheel::Timer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::loopback::{self, Listener};
use super::{How, Part, name};
use crate::harness::{Client, Record, Scene, load, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "queries",
    about: "client with 256 queries in flight over one connection, each under a timeout",
    how: How::Together(run),
};

const IN_FLIGHT: usize = 256;
const TIMEOUT: Duration = Duration::from_secs(30);
const CONTENDERS: [&str; 5] = [
    name::TICKWHEEL,
    name::DROP_IN,
    name::TOKIO,
    name::PINGORA,
    name::NO_TIMER,
];

fn run(settings: &Settings) -> Vec<Record> {
    load(PART.name, &CONTENDERS, settings, set_up)
}

fn set_up(contender: &str) -> Scene<Asker> {
    let (measured, other) = (runtime(1), runtime(1));
    let address = other.block_on(async {
        let listener = Listener::bind().await.expect("there is a free port");
        let address = listener.address;
        tokio::spawn(serve(listener));
        address
    });
    let clients = measured.block_on(async {
        let stream = loopback::connect(address).await.expect("it listens");
        let connection = Connection::over(stream);
        let limit = Limit::of(contender);
        let asker = |number| Asker {
            connection: connection.clone(),
            limit: limit.clone(),
            number,
        };
        (0..IN_FLIGHT as u64).map(asker).collect()
    });
    Scene {
        clients,
        clients_on: measured.handle().clone(),
        other: Some(other),
        measured,
    }
}

/// How a contender bounds a query.
#[derive(Clone)]
enum Limit {
    Explicit(Timer),
    DropIn,
    Tokio,
    Pingora,
    None,
}

impl Limit {
    fn of(contender: &str) -> Limit {
        match contender {
            name::TICKWHEEL => Limit::Explicit(Timer::current()),
            name::DROP_IN => Limit::DropIn,
            name::TOKIO => Limit::Tokio,
            name::PINGORA => Limit::Pingora,
            _ => Limit::None,
        }
    }
}

/// One of the tasks that share the connection.
struct Asker {
    connection: Connection,
    limit: Limit,
    number: u64,
}

impl Client for Asker {
    async fn request(&mut self) -> io::Result<()> {
        let query = self.connection.query(self.number);
        let answer = match &self.limit {
            Limit::Explicit(timer) => timer.timeout(TIMEOUT, query).await?,
            Limit::DropIn => tickwheel::timeout(TIMEOUT, query).await?,
            Limit::Tokio => tokio::time::timeout(TIMEOUT, query).await?,
            Limit::Pingora => pingora_timeout::timeout(TIMEOUT, query)
                .await
                .map_err(io::Error::other)?,
            Limit::None => query.await,
        }?;
        assert_eq!(answer, self.number, "it is the answer to this query");
        self.number += IN_FLIGHT as u64;
        Ok(())
    }
}

struct Query {
    number: u64,
    answer: oneshot::Sender<u64>,
}

/// A connection that many tasks share. Its own two tasks write the queries and read the answers.
#[derive(Clone)]
struct Connection {
    queries: mpsc::UnboundedSender<Query>,
}

impl Connection {
    fn over(stream: TcpStream) -> Connection {
        let (reading, writing) = stream.into_split();
        let (queries, to_write) = mpsc::unbounded_channel();
        let (written, waiting) = mpsc::unbounded_channel();
        tokio::spawn(write_queries(writing, to_write, written));
        tokio::spawn(read_answers(reading, waiting));
        Connection { queries }
    }

    async fn query(&self, number: u64) -> io::Result<u64> {
        let (answer, answered) = oneshot::channel();
        let closed = io::ErrorKind::BrokenPipe;
        let query = Query { number, answer };
        self.queries.send(query).map_err(|_| closed)?;
        answered.await.map_err(|_| closed.into())
    }
}

/// Writes all the queries that are there at once.
async fn write_queries(
    mut writing: OwnedWriteHalf,
    mut to_write: mpsc::UnboundedReceiver<Query>,
    written: mpsc::UnboundedSender<oneshot::Sender<u64>>,
) -> io::Result<()> {
    let (mut queries, mut bytes) = (Vec::new(), Vec::new());
    while to_write.recv_many(&mut queries, IN_FLIGHT).await > 0 {
        for Query { number, answer } in queries.drain(..) {
            bytes.extend(number.to_le_bytes());
            if written.send(answer).is_err() {
                return Ok(());
            }
        }
        writing.write_all(&bytes).await?;
        bytes.clear();
    }
    Ok(())
}

async fn read_answers(
    mut reading: OwnedReadHalf,
    mut waiting: mpsc::UnboundedReceiver<oneshot::Sender<u64>>,
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(16 * 1024);
    while reading.read_buf(&mut bytes).await? > 0 {
        let numbers = bytes.chunks_exact(size_of::<u64>());
        let unfinished = numbers.remainder().len();
        for number in numbers {
            let number = number.try_into().expect("it has that length");
            let answer = waiting.try_recv().expect("a query came before its answer");
            // A task that has given up is no error.
            let _ = answer.send(u64::from_le_bytes(number));
        }
        bytes.drain(..bytes.len() - unfinished);
    }
    Ok(())
}

async fn serve(listener: Listener) -> io::Result<()> {
    let mut stream = listener.accept().await?;
    let (mut reading, mut writing) = stream.split();
    tokio::io::copy(&mut reading, &mut writing).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That the row of an explicit timer arms a timer for each query, and keeps none.
    #[test]
    fn each_query_arms_a_timer() {
        let mut scene = set_up(name::TICKWHEEL);
        let clients = std::mem::take(&mut scene.clients);
        let measured = &scene.measured;
        let timer = measured.block_on(async { Timer::current() });
        let tasks: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                measured.spawn(async move {
                    for _ in 0..3 {
                        client.request().await.expect("it is answered");
                    }
                })
            })
            .collect();
        for task in tasks {
            measured.block_on(task).expect("no client panics");
        }
        let metrics = timer.metrics();
        assert_eq!((metrics.armed, metrics.pending), (3 * IN_FLIGHT as u64, 0));
    }
}
