//! The load: clients on real sockets, and what they saw of the server.
//!
//! ```text
//!   connect, wait for the greeting        at most 128 at once, so that the listener's queue does not overflow
//!     |
//!   heartbeats, from a random moment within the first interval on
//!     |
//!     +-- one that lives: at the end of the run it closes the connection itself
//!     +-- one that falls silent: from a random moment on it sends nothing, and waits for the server to close
//! ```
//!
//! Every client goes by its own clock, and judges the server by what it did itself:
//!
//! - *In time* is a client whose heartbeats were never further apart than halfway between their
//!   interval and the timeout. [`Gaps`] has each gap from connecting until the server's closing
//!   shows. If the server closes a client that is in time, this is a violation.
//! - A client that was not in time, because the machine was too busy to run it, may be closed. The
//!   other half is left to the server, for the way of a heartbeat into its hands.
//! - The server must close a client that fell silent at most [`grace`] after its last heartbeat and
//!   the timeout. This falls into the run, while the others still send.
//!
//! The load is a process of its own: this program once more, with `--load-for`. So the clients go
//! on sending while the server is held up, and take none of its CPU time. It prints a
//! line for each client, which the server's process reads: a name, and what belongs to it.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use clap::ValueEnum;
use tickwheel::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use crate::connection::{GREETING, HEARTBEAT};
use crate::options::Options;

/// A silent client must be closed no later than this after its deadline, however busy the machine
/// is. A server that was held up for that long comes so much later, and it may wait as long again
/// for heartbeats that it has not read.
pub(crate) fn grace(stall: Option<Duration>) -> Duration {
    Duration::from_secs(5) + 2 * stall.unwrap_or_default()
}

/// A client that is not served this long after it began to connect gives up.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

const CONNECTING_AT_ONCE: usize = 128;

/// What can become of a client. The last three are violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Outcome {
    /// It closed the connection itself at the end of the run.
    Lived,
    ClosedWhenSilent,
    /// It was not in time itself, for want of a processor, and was closed.
    Excused,
    /// With the error.
    NotConnected,
    /// It was closed though it was in time. With its longest gap.
    ClosedInTime,
    /// It fell silent and was not closed.
    LeftOpen,
    Panicked,
}

/// What became of each client, and what belongs to it.
#[derive(Debug, Default)]
pub(crate) struct Clients(pub(crate) Vec<(Outcome, String)>);

impl Clients {
    /// Reads what the load has printed. `None` if it is none of its own lines.
    pub(crate) fn parse(printed: &str) -> Option<Clients> {
        let client = |line: &str| {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let mut known = Outcome::value_variants().iter();
            let outcome = known.find(|outcome| format!("{outcome:?}") == name)?;
            Some((*outcome, value.to_string()))
        };
        let clients: Option<_> = printed.lines().map(client).collect();
        clients.map(Clients)
    }

    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.values(outcome).count()
    }

    pub(crate) fn values(&self, outcome: Outcome) -> impl Iterator<Item = &str> {
        let of_it = self.0.iter().filter(move |(known, _)| *known == outcome);
        of_it.map(|(_, value)| &**value)
    }
}

/// The load itself: runs all clients until each has come to its end, and prints a line for each.
/// The time of the run counts from here.
pub(crate) async fn run(options: &Options, server: SocketAddr) -> io::Result<()> {
    let plan = Arc::new(Plan {
        server,
        options: options.clone(),
        end: Instant::now() + options.run_time,
        connecting: Semaphore::new(CONNECTING_AT_ONCE),
    });
    let mut running = JoinSet::new();
    for number in 0..options.connections {
        // The share is spread evenly.
        let falls_silent = options.silent_among(number + 1) > options.silent_among(number);
        running.spawn(run_client(plan.clone(), falls_silent));
    }
    let mut lines = Vec::new();
    while let Some(ended) = running.join_next().await {
        lines.push(ended.unwrap_or_else(|_| format!("{:?}", Outcome::Panicked)));
    }
    io::stdout().write_all(lines.join("\n").as_bytes())
}

/// What all clients share.
struct Plan {
    server: SocketAddr,
    options: Options,
    end: Instant,
    connecting: Semaphore,
}

impl Plan {
    /// A moment from now on that leaves time for the timeout before the run ends.
    fn random_moment(&self) -> Instant {
        let now = Instant::now();
        let latest = self
            .end
            .saturating_duration_since(now + self.options.timeout);
        now + random_up_to(latest)
    }

    /// The longest gap between heartbeats with which a client is still in time.
    fn longest_gap(&self) -> Duration {
        (self.options.heartbeat + self.options.timeout) / 2
    }
}

/// The options allow a day at most, and a day's nanoseconds fit.
fn random_up_to(longest: Duration) -> Duration {
    Duration::from_nanos(fastrand::u64(0..=longest.as_nanos() as u64))
}

/// Returns how it came to its end.
async fn run_client(plan: Arc<Plan>, falls_silent: bool) -> String {
    let connected = timeout_at(plan.end, Client::connect(&plan)).await;
    let mut client = match connected.map_err(io::Error::from) {
        Ok(Ok(client)) => client,
        Ok(Err(error)) | Err(error) => {
            return format!("{:?} {error}", Outcome::NotConnected).replace('\n', " ");
        }
    };
    let silent_from = falls_silent.then(|| plan.random_moment());
    let mut interval = random_up_to(plan.options.heartbeat);
    loop {
        let next = client.gaps.last_sent.1 + interval;
        interval = plan.options.heartbeat;
        let is_silent = silent_from.is_some_and(|moment| next >= moment);
        let until = if is_silent {
            client.gaps.last_sent.1 + plan.options.timeout + grace(plan.options.stall())
        } else {
            next.min(plan.end)
        };
        match timeout_at(until, client.hang_up()).await {
            Ok(()) => return client.closed_by_server(&plan, is_silent),
            Err(_) if is_silent => return format!("{:?}", Outcome::LeftOpen),
            Err(_) if until == plan.end => return format!("{:?}", Outcome::Lived),
            Err(_) => {}
        }
        if client.send_heartbeat(&plan).await.is_err() {
            return client.closed_by_server(&plan, is_silent);
        }
    }
}

/// A client that is connected.
struct Client {
    stream: TcpStream,
    gaps: Gaps,
}

/// How far the sendings of a client were apart, from connecting on.
#[derive(Debug)]
pub(crate) struct Gaps {
    /// The instants before and after the last sending; at first those of connecting.
    last_sent: (Instant, Instant),
    /// Of all gaps that are over. Each counts from before one sending to after the next.
    longest: Duration,
}

impl Gaps {
    pub(crate) fn since(before: Instant, after: Instant) -> Gaps {
        let (last_sent, longest) = ((before, after), Duration::ZERO);
        Gaps { last_sent, longest }
    }

    pub(crate) fn sent(&mut self, before: Instant, after: Instant) {
        self.longest = self.longest_until(after);
        self.last_sent = (before, after);
    }

    /// The longest gap, if the last one ends at that instant.
    pub(crate) fn longest_until(&self, end: Instant) -> Duration {
        let last = end.saturating_duration_since(self.last_sent.0);
        self.longest.max(last)
    }
}

impl Client {
    async fn connect(plan: &Plan) -> io::Result<Client> {
        let _permit = plan.connecting.acquire().await.map_err(io::Error::other)?;
        let before = Instant::now();
        let greeted = timeout(CONNECT_WITHIN, async {
            let mut stream = TcpStream::connect(plan.server).await?;
            stream.set_nodelay(true)?;
            match stream.read_u8().await? {
                GREETING => Ok(stream),
                _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
            }
        });
        let stream = greeted.await??;
        let gaps = Gaps::since(before, Instant::now());
        Ok(Client { stream, gaps })
    }

    async fn send_heartbeat(&mut self, plan: &Plan) -> io::Result<()> {
        let before = Instant::now();
        let sending = self.stream.write_all(&[HEARTBEAT]);
        timeout(plan.options.timeout, sending).await??;
        self.gaps.sent(before, Instant::now());
        Ok(())
    }

    /// Completes when the server has closed the connection.
    async fn hang_up(&mut self) {
        while self.stream.read_u8().await.is_ok() {}
    }

    fn closed_by_server(&self, plan: &Plan, is_silent: bool) -> String {
        let longest_gap = self.gaps.longest_until(Instant::now());
        let outcome = if longest_gap <= plan.longest_gap() {
            Outcome::ClosedInTime
        } else if is_silent {
            Outcome::ClosedWhenSilent
        } else {
            Outcome::Excused
        };
        format!("{outcome:?} {longest_gap:.0?}")
    }
}
