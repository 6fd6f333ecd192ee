//! The load: clients on real sockets, and what they saw of the server.
//!
//! ```text
//!   connect, wait for the greeting        at most 128 at once, so that the listener's queue does not overflow
//!     |
//!   heartbeats at random intervals <-+    each from a tenth of the longest one to the longest
//!     |        |                     |
//!     |        +---------------------+
//!     |
//!     +-- one that lives: at the end of the run it closes the connection itself
//!     +-- one that falls silent: from a random moment on it sends nothing, and waits for the server to close
//! ```
//!
//! Every client goes by its own clock, and judges the server by what it did itself:
//!
//! - *In time* is a client whose heartbeats were never further apart than halfway between the
//!   longest interval and the timeout. [`Gaps`] has each gap from connecting until the server's
//!   closing shows. If the server closes a client that is in time, this is a violation.
//! - A client that was not in time, because the machine was too busy to run it, may be closed. What
//!   it sends afterwards excuses nothing: the server may have closed it long before that shows. The
//!   other half is left to the server, for the way of a heartbeat into its hands. With the defaults
//!   this is 650 ms.
//! - The server must close a client that fell silent at most [`grace`] after its last heartbeat and
//!   the timeout. The moment is chosen so that this falls into the run, while the others still
//!   send.

//!
//! The load is a process of its own: this program once more, with `--load-for`. So the clients go
//! on sending while the server's process is stopped, and take none of its CPU time. It prints a
//! line for each client, which the server's process reads: a name, and what belongs to it.

use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use tickwheel::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use crate::connection::{GREETING, HEARTBEAT};
use crate::options::Options;

/// A silent client must be closed no later than this after its deadline, however busy the machine
/// is. A server that was stopped for that long comes so much later, and it may wait as long again
/// for heartbeats that it has not read.
pub(crate) fn grace(pause: Duration) -> Duration {
    Duration::from_secs(5) + 2 * pause
}

/// A client that is not served this long after it began to connect gives up.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

const CONNECTING_AT_ONCE: usize = 128;

/// What became of the clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) total: usize,
    /// They closed the connection themselves at the end of the run.
    pub(crate) lived: usize,
    /// They fell silent and were closed.
    pub(crate) closed_when_silent: usize,
    /// They were not in time themselves, for want of a processor, and were closed.
    pub(crate) excused: usize,
    pub(crate) not_connected: usize,
    pub(crate) first_connect_error: Option<String>,
    /// Ctrl-C came first.
    pub(crate) interrupted: usize,

    // What follows are violations.
    /// They were closed though they were in time, each with its longest gap.
    pub(crate) closed_in_time: Vec<Duration>,
    /// They fell silent and were not closed.
    pub(crate) left_open: usize,
    pub(crate) panics: usize,
}

impl Clients {
    /// Reads what the load has printed. `None` if it is none of its own lines.
    pub(crate) fn parse(printed: &str) -> Option<Clients> {
        let mut clients = Clients::default();
        for line in printed.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            clients.total += 1;
            match name {
                "lived" => clients.lived += 1,
                "closed-when-silent" => clients.closed_when_silent += 1,
                "excused" => clients.excused += 1,
                "interrupted" => clients.interrupted += 1,
                "panicked" => clients.panics += 1,
                "not-connected" => {
                    clients.not_connected += 1;
                    clients.first_connect_error.get_or_insert(value.to_string());
                }
                "closed-in-time" => {
                    let gap = Duration::from_micros(value.parse().ok()?);
                    clients.closed_in_time.push(gap);
                }
                "left-open" => clients.left_open += 1,
                _ => return None,
            }
        }
        Some(clients)
    }
}

/// The load itself: runs the clients, and prints what became of them. Ctrl-C ends them early.
pub(crate) async fn run(options: &Options, server: SocketAddr) -> io::Result<()> {
    let interrupt = async { drop(tokio::signal::ctrl_c().await) };
    let lines = run_clients(options, server, interrupt).await;
    io::stdout().write_all(lines.join("\n").as_bytes())
}

/// Runs all clients until each has come to its end, or `interrupt` completes. Returns a line for
/// each. The time of the run counts from here.
pub(crate) async fn run_clients(
    options: &Options,
    server: SocketAddr,
    interrupt: impl Future<Output = ()>,
) -> Vec<String> {
    let plan = Arc::new(Plan {
        server,
        timeout: options.timeout,
        heartbeat: options.heartbeat,
        grace: grace(options.pause.unwrap_or_default()),
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
    let mut interrupt = pin!(interrupt);
    let mut is_interrupted = false;
    loop {
        tokio::select! {
            ended = running.join_next() => match ended {
                Some(Ok(line)) => lines.push(line),
                Some(Err(error)) if error.is_cancelled() => lines.push("interrupted".to_string()),
                Some(Err(_)) => lines.push("panicked".to_string()),
                None => return lines,
            },
            // Aborted clients drop their sockets, and the server sees the connections end.
            () = &mut interrupt, if !is_interrupted => {
                is_interrupted = true;
                running.abort_all();
            }
        }
    }
}

/// What all clients share.
struct Plan {
    server: SocketAddr,
    timeout: Duration,
    heartbeat: Duration,
    grace: Duration,
    end: Instant,
    connecting: Semaphore,
}

impl Plan {
    fn random_interval(&self) -> Duration {
        random_duration(self.heartbeat / 10, self.heartbeat)
    }

    /// A moment from now on that leaves time for the timeout before the run ends.
    fn random_moment(&self) -> Instant {
        let now = Instant::now();
        let latest = self.end.saturating_duration_since(now + self.timeout);
        now + random_duration(Duration::ZERO, latest)
    }

    /// The longest gap between heartbeats with which a client is still in time.
    fn longest_gap(&self) -> Duration {
        (self.heartbeat + self.timeout) / 2
    }
}

fn random_duration(shortest: Duration, longest: Duration) -> Duration {
    // The options allow a day at most, and a day's nanoseconds fit.
    let nanos = shortest.as_nanos() as u64..=longest.as_nanos() as u64;
    Duration::from_nanos(fastrand::u64(nanos))
}

/// Returns how it came to its end.
async fn run_client(plan: Arc<Plan>, falls_silent: bool) -> String {
    let connected = timeout_at(plan.end, Client::connect(&plan)).await;
    let mut client = match connected.map_err(io::Error::from) {
        Ok(Ok(client)) => client,
        Ok(Err(error)) | Err(error) => {
            return format!("not-connected {error}").replace('\n', " ");
        }
    };
    let silent_from = falls_silent.then(|| plan.random_moment());
    loop {
        let next = Instant::now() + plan.random_interval();
        let is_silent = silent_from.is_some_and(|moment| next >= moment);
        let until = if is_silent {
            client.gaps.last_sent.1 + plan.timeout + plan.grace
        } else {
            next.min(plan.end)
        };
        match timeout_at(until, client.hang_up()).await {
            Ok(()) => return client.closed_by_server(&plan, is_silent),
            Err(_) if is_silent => return "left-open".to_string(),
            Err(_) if until == plan.end => return "lived".to_string(),
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
    pub(crate) last_sent: (Instant, Instant),
    /// Of all gaps that are over. Each counts from before one sending to after the next.
    pub(crate) longest: Duration,
}

impl Gaps {
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
        Ok(Client {
            stream,
            gaps: Gaps {
                last_sent: (before, Instant::now()),
                longest: Duration::ZERO,
            },
        })
    }

    async fn send_heartbeat(&mut self, plan: &Plan) -> io::Result<()> {
        let before = Instant::now();
        let sending = self.stream.write_all(&[HEARTBEAT]);
        timeout(plan.timeout, sending).await??;
        self.gaps.sent(before, Instant::now());
        Ok(())
    }

    /// Completes when the server has closed the connection.
    async fn hang_up(&mut self) {
        while self.stream.read_u8().await.is_ok() {}
    }

    fn closed_by_server(&self, plan: &Plan, is_silent: bool) -> String {
        let longest_gap = self.gaps.longest_until(Instant::now());
        if longest_gap <= plan.longest_gap() {
            format!("closed-in-time {}", longest_gap.as_micros())
        } else if is_silent {
            "closed-when-silent".to_string()
        } else {
            "excused".to_string()
        }
    }
}
