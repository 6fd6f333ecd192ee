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
//!   longest interval and the timeout. Each gap counts from before one sending to after the next.
//!   The last gap counts to the moment at which the server's closing shows. The gap before it
//!   counts too, because the last heartbeat may have crossed with the closing. If the server closes
//!   a client that is in time, this is a violation, unless the admin did it.
//! - A client that was not in time, because the machine was too busy to run it, may be closed. The
//!   other half is left to the server, for the way of a heartbeat into its hands. With the defaults
//!   this is 650 ms.
//! - The server must close a client that fell silent at most [`grace`] after its last heartbeat and
//!   the timeout. The moment is chosen so that this falls into the run, while the others still
//!   send.

use std::fmt::Display;
use std::future::Future;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::pin::pin;
use std::process::Stdio;
use std::str::FromStr;
use std::sync::Arc;
use std::{env, io, thread};

use cpu_time::ProcessTime;
use tickwheel::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinError, JoinSet};

use crate::options::Options;
use crate::server::{GREETING, HEARTBEAT};
use crate::timer::AnyTimer;

/// A silent client must be closed no later than this after its deadline, however busy the machine
/// is. A server that was stopped for that long comes so much later, and it may wait as long again
/// for heartbeats that it has not read.
pub(crate) fn grace(pause: Duration) -> Duration {
    Duration::from_secs(5) + 2 * pause
}

/// A client that is not served this long after it began to connect gives up.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

const CONNECTING_AT_ONCE: usize = 128;

/// The clients to come.
pub(crate) struct Load {
    /// For each client, whether it falls silent: the share is spread evenly.
    fall_silent: Vec<bool>,
    plan: Arc<Plan>,
}

/// What all clients share.
struct Plan {
    timer: AnyTimer,
    server: SocketAddr,
    timeout: Duration,
    heartbeat: Duration,
    grace: Duration,
    end: Instant,
    connecting: Semaphore,
}

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
    /// Of all clients together, where the system tells it and they have a process of their own.
    pub(crate) cpu_time: Option<Duration>,

    // What follows are violations, except those that the server's report accounts for; see
    // `summary.rs`.
    /// They were closed though they were in time.
    pub(crate) closed_in_time: Vec<ClosedInTime>,
    /// They fell silent and were not closed; each by its own address.
    pub(crate) left_open: Vec<SocketAddr>,
    /// They had not come to an end when the run was long over.
    pub(crate) stuck: usize,
    pub(crate) panics: usize,
}

/// A client that was closed though it was in time.
#[derive(Debug)]
pub(crate) struct ClosedInTime {
    /// Its own address.
    pub(crate) client: SocketAddr,
    pub(crate) longest_gap: Duration,
}

impl Load {
    /// The time of the run counts from here.
    pub(crate) fn new(timer: &AnyTimer, server: SocketAddr, options: &Options) -> Load {
        Load {
            fall_silent: (0..options.connections)
                .map(|number| options.silent_among(number + 1) > options.silent_among(number))
                .collect(),
            plan: Arc::new(Plan {
                timer: timer.clone(),
                server,
                timeout: options.timeout,
                heartbeat: options.heartbeat,
                grace: grace(options.pause.unwrap_or_default()),
                end: Instant::now() + options.run_time,
                connecting: Semaphore::new(CONNECTING_AT_ONCE),
            }),
        }
    }

    /// Runs all clients until each has come to its end, or `interrupt` completes.
    pub(crate) async fn run(self, interrupt: impl Future<Output = ()>) -> Clients {
        let mut clients = Clients {
            total: self.fall_silent.len(),
            ..Clients::default()
        };
        let mut running = JoinSet::new();
        for falls_silent in self.fall_silent {
            running.spawn(run_client(self.plan.clone(), falls_silent));
        }

        let mut interrupt = pin!(interrupt);
        // Twice the grace: a client's own bound is to be the first to speak.
        let long_over = self.plan.end + self.plan.timeout + 2 * self.plan.grace;
        let mut give_up = pin!(self.plan.timer.sleep_until(long_over));
        let interrupted = loop {
            tokio::select! {
                ended = running.join_next() => match ended {
                    Some(ended) => clients.add(ended),
                    None => break false,
                },
                () = &mut interrupt => break true,
                () = &mut give_up => break false,
            }
        };

        // Aborted clients drop their sockets, and the server sees the connections end.
        running.abort_all();
        while let Some(ended) = running.join_next().await {
            match ended {
                Err(error) if error.is_cancelled() && interrupted => clients.interrupted += 1,
                Err(error) if error.is_cancelled() => clients.stuck += 1,
                ended => clients.add(ended),
            }
        }
        clients
    }
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
    Duration::from_nanos(fastrand::u64(
        shortest.as_nanos() as u64..=longest.as_nanos() as u64,
    ))
}

/// How a client came to its end.
enum Ended {
    NotConnected(io::Error),
    Lived,
    ClosedWhenSilent,
    Excused,
    ClosedInTime(ClosedInTime),
    LeftOpen(SocketAddr),
}

async fn run_client(plan: Arc<Plan>, falls_silent: bool) -> Ended {
    let connected = plan.timer.timeout_at(plan.end, Client::connect(&plan));
    let mut client = match connected.await {
        Ok(Ok(client)) => client,
        Ok(Err(error)) | Err(error) => return Ended::NotConnected(error),
    };
    let silent_from = falls_silent.then(|| plan.random_moment());

    loop {
        let next = Instant::now() + plan.random_interval();
        let is_silent = silent_from.is_some_and(|moment| next >= moment);
        let until = if is_silent {
            client.last_sent.1 + plan.timeout + plan.grace
        } else {
            next.min(plan.end)
        };
        match plan.timer.timeout_at(until, client.hang_up()).await {
            Ok(()) => return client.closed_by_server(&plan, is_silent),
            Err(_) if is_silent => return Ended::LeftOpen(client.address),
            Err(_) if until == plan.end => return Ended::Lived,
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
    address: SocketAddr,
    /// The instants before and after the last sending; at first those of connecting.
    last_sent: (Instant, Instant),
    /// How far the last two sendings were apart.
    last_gap: Duration,
}

impl Client {
    async fn connect(plan: &Plan) -> io::Result<Client> {
        let _permit = plan.connecting.acquire().await.map_err(io::Error::other)?;
        let before = Instant::now();
        let greeted = plan.timer.timeout(CONNECT_WITHIN, async {
            let mut stream = TcpStream::connect(plan.server).await?;
            stream.set_nodelay(true)?;
            match stream.read_u8().await? {
                GREETING => Ok(stream),
                _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
            }
        });
        let stream = greeted.await??;
        Ok(Client {
            address: stream.local_addr()?,
            stream,
            last_sent: (before, Instant::now()),
            last_gap: Duration::ZERO,
        })
    }

    async fn send_heartbeat(&mut self, plan: &Plan) -> io::Result<()> {
        let before = Instant::now();
        let sending = self.stream.write_all(&[HEARTBEAT]);
        plan.timer.timeout(plan.timeout, sending).await??;
        let after = Instant::now();
        self.last_gap = after.duration_since(self.last_sent.0);
        self.last_sent = (before, after);
        Ok(())
    }

    /// Completes when the server has closed the connection.
    async fn hang_up(&mut self) {
        while self.stream.read_u8().await.is_ok() {}
    }

    fn closed_by_server(&self, plan: &Plan, is_silent: bool) -> Ended {
        let longest_gap = self.last_gap.max(self.last_sent.0.elapsed());
        if longest_gap <= plan.longest_gap() {
            Ended::ClosedInTime(ClosedInTime {
                client: self.address,
                longest_gap,
            })
        } else if is_silent {
            Ended::ClosedWhenSilent
        } else {
            Ended::Excused
        }
    }
}

impl Clients {
    fn add(&mut self, ended: Result<Ended, JoinError>) {
        match ended {
            Ok(Ended::NotConnected(error)) => {
                self.not_connected += 1;
                self.first_connect_error.get_or_insert(error.to_string());
            }
            Ok(Ended::Lived) => self.lived += 1,
            Ok(Ended::ClosedWhenSilent) => self.closed_when_silent += 1,
            Ok(Ended::Excused) => self.excused += 1,
            Ok(Ended::ClosedInTime(closed)) => self.closed_in_time.push(closed),
            Ok(Ended::LeftOpen(client)) => self.left_open.push(client),
            Err(_) => self.panics += 1,
        }
    }
}

// The load as a process of its own: this program once more, with `--load-for`. So the clients go
// on sending while the server's process is stopped, and each side tells its own CPU time.
//
// The load prints what became of its clients when all have ended, a line for each fact: a name and
// a value. It ends early when its standard input does. So it never outlives the server.

/// The load, as the server's process has it.
pub(crate) struct LoadProcess(Child);

impl LoadProcess {
    /// Starts the clients of a server that listens there. They are killed when this is dropped.
    pub(crate) fn start(options: &Options, server: SocketAddr) -> io::Result<LoadProcess> {
        let child = Command::new(env::current_exe()?)
            .args(options.for_the_load(server))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(LoadProcess(child))
    }

    /// What became of the clients, when all have ended. Ctrl-C ends them early.
    pub(crate) async fn clients(mut self) -> io::Result<Clients> {
        let mut stdin = self.0.stdin.take();
        let stdout = self.0.stdout.as_mut();
        let stdout = stdout.ok_or_else(|| io::Error::other("the load prints nothing"))?;
        let mut printed = String::new();
        let mut reading = Box::pin(stdout.read_to_string(&mut printed));
        tokio::select! {
            read = &mut reading => read?,
            () = interrupted() => {
                stdin.take();
                reading.await?
            }
        };
        let status = self.0.wait().await?;
        if !status.success() {
            return Err(io::Error::other(format!("the load failed: {status}")));
        }
        parse(&printed)
    }
}

/// The load itself, in the other process: runs the clients, and prints what became of them.
pub(crate) async fn run(options: &Options, server: SocketAddr) -> io::Result<()> {
    let timer = AnyTimer::new(options.timer);
    let (over, server_has_ended) = oneshot::channel();
    // In no task, because a read of the standard input cannot be cancelled.
    thread::spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        let _ = over.send(());
    });
    let interrupted = async {
        tokio::select! {
            () = interrupted() => {}
            _ = server_has_ended => {}
        }
    };
    let clients = Load::new(&timer, server, options).run(interrupted).await;
    // It fails if the server's process has ended. Then nobody waits for this.
    io::stdout().write_all(lines(&clients).as_bytes())
}

fn lines(clients: &Clients) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: &dyn Display| lines += &format!("{name} {value}\n");
    line("total", &clients.total);
    line("lived", &clients.lived);
    line("closed-when-silent", &clients.closed_when_silent);
    line("excused", &clients.excused);
    line("not-connected", &clients.not_connected);
    line("interrupted", &clients.interrupted);
    line("stuck", &clients.stuck);
    line("panics", &clients.panics);
    for closed in &clients.closed_in_time {
        let gap = closed.longest_gap.as_micros();
        line("closed-in-time", &format_args!("{} {gap}", closed.client));
    }
    for client in &clients.left_open {
        line("left-open", client);
    }
    if let Some(error) = &clients.first_connect_error {
        line("first-connect-error", &error.to_string().replace('\n', " "));
    }
    if let Ok(time) = ProcessTime::try_now() {
        line("cpu", &time.as_duration().as_micros());
    }
    lines
}

fn parse(printed: &str) -> io::Result<Clients> {
    let mut clients = Clients::default();
    for line in printed.lines() {
        add_line(&mut clients, line)
            .ok_or_else(|| io::Error::other(format!("the load printed {line:?}")))?;
    }
    Ok(clients)
}

fn add_line(clients: &mut Clients, line: &str) -> Option<()> {
    let (name, value) = line.split_once(' ')?;
    let count = || value_of(value);
    match name {
        "total" => clients.total = count()?,
        "lived" => clients.lived = count()?,
        "closed-when-silent" => clients.closed_when_silent = count()?,
        "excused" => clients.excused = count()?,
        "not-connected" => clients.not_connected = count()?,
        "interrupted" => clients.interrupted = count()?,
        "stuck" => clients.stuck = count()?,
        "panics" => clients.panics = count()?,
        "closed-in-time" => {
            let (client, gap) = value.split_once(' ')?;
            clients.closed_in_time.push(ClosedInTime {
                client: value_of(client)?,
                longest_gap: Duration::from_micros(value_of(gap)?),
            });
        }
        "left-open" => clients.left_open.push(value_of(value)?),
        "first-connect-error" => clients.first_connect_error = Some(value.to_string()),
        "cpu" => clients.cpu_time = Some(Duration::from_micros(value_of(value)?)),
        _ => return None,
    }
    Some(())
}

fn value_of<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Completes at Ctrl-C.
async fn interrupted() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        eprintln!("Ctrl-C will not give a summary: {error}");
        std::future::pending::<()>().await;
    }
}
