//! The server: accepts connections, lets a task serve each one, and reports how they ended.
//!
//! It knows nothing of the load, nor of the admin port, which acts on the connections through the
//! [`Site`]. One task owns the listener and every connection's task, so what they report needs no
//! lock. The [`Counters`] are for those that look on.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::convert::identity;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};

use hdrhistogram::Histogram;
use tickwheel::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, JoinSet, coop};

use crate::timer::AnyTimer;
use crate::timer::{AnyDeadline, AnyHandle, Deadlines, Outcome};

/// After an error of accept, most likely too many open files, there is no use in trying again at
/// once.
pub(crate) const PAUSE_AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

/// A server that is running.
pub(crate) struct Server {
    address: SocketAddr,
    site: Arc<Site>,
    stop: oneshot::Sender<Duration>,
    acceptor: JoinHandle<Report>,
}

/// How the server's connections ended, beside what its counters say.
pub(crate) struct Report {
    pub(crate) site: Arc<Site>,
    /// How late the tasks ran that awaited the expired deadlines, in microseconds.
    pub(crate) seen_late: Histogram<u64>,
    /// How late connections were closed, in microseconds.
    pub(crate) closed_late: Histogram<u64>,
    /// For each deadline that expired early, how long after the last reset that was.
    pub(crate) early: Vec<Duration>,
    /// Connections that ended because their deadline was cancelled.
    pub(crate) cancelled: usize,
    /// The clients of those connections.
    pub(crate) cancelled_clients: HashSet<SocketAddr>,
    /// The clients whose connections the admin had allowed a longer silence.
    pub(crate) extended_clients: HashSet<SocketAddr>,
    /// Tasks that panicked.
    pub(crate) panics: usize,
    /// Connections that had to be cut off at the end.
    pub(crate) cut_off: usize,
}

impl Server {
    /// Listens on a free loopback port.
    pub(crate) async fn start(timer: &AnyTimer, timeout: Duration) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let site = Arc::new(Site::new(timer, timeout));
        let (stop, stopped) = oneshot::channel();
        let acceptor = Acceptor {
            listener,
            connections: JoinSet::new(),
            accepted: 0,
            report: Report::new(site.clone()),
        };
        Ok(Server {
            address,
            site,
            stop,
            acceptor: tokio::spawn(acceptor.run(stopped)),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// Accepts no more, gives the connections `within` to end by themselves, and cuts the others
    /// off.
    pub(crate) async fn shut_down(self, within: Duration) -> Report {
        // If the acceptor has panicked, nobody takes the message, and the report says so.
        let _ = self.stop.send(within);
        self.acceptor.await.unwrap_or_else(|_| Report {
            panics: 1,
            ..Report::new(self.site)
        })
    }
}

/// The task that owns the listener and the connections.
struct Acceptor {
    listener: TcpListener,
    connections: JoinSet<Result<Served, JoinError>>,
    accepted: u64,
    report: Report,
}

impl Acceptor {
    async fn run(mut self, mut stopped: oneshot::Receiver<Duration>) -> Report {
        let within = loop {
            tokio::select! {
                within = &mut stopped => break within.unwrap_or_default(),
                Some(ended) = self.connections.join_next() => self.report.add(ended),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => self.serve(stream, peer),
                    Err(_) => {
                        self.counters().accept_errors.add(1);
                        self.timer().sleep(PAUSE_AFTER_ACCEPT_ERROR).await;
                    }
                },
            }
            self.counters().open.set(self.connections.len());
        };

        drop(self.listener);
        let timer = self.report.site.timer.clone();
        let all_ended = timer.timeout(within, async {
            while let Some(ended) = self.connections.join_next().await {
                self.report.add(ended);
            }
        });
        if all_ended.await.is_err() {
            self.report.cut_off = self.connections.len();
            self.connections.shutdown().await;
        }
        self.report
    }

    fn serve(&mut self, stream: TcpStream, peer: SocketAddr) {
        self.counters().served.add(1);
        self.accepted += 1;
        let id = ConnectionId(self.accepted);
        let site = self.report.site.clone();
        self.connections.spawn(serve(stream, peer, id, site));
    }

    fn counters(&self) -> &Counters {
        &self.report.site.counters
    }

    fn timer(&self) -> &AnyTimer {
        &self.report.site.timer
    }
}

impl Report {
    fn new(site: Arc<Site>) -> Report {
        Report {
            site,
            seen_late: lateness_histogram(),
            closed_late: lateness_histogram(),
            early: Vec::new(),
            cancelled: 0,
            cancelled_clients: HashSet::new(),
            extended_clients: HashSet::new(),
            panics: 0,
            cut_off: 0,
        }
    }

    fn add(&mut self, served: Result<Result<Served, JoinError>, JoinError>) {
        let Ok(served) = served.and_then(identity) else {
            self.panics += 1;
            return;
        };
        if served.extended {
            self.extended_clients.insert(served.peer);
        }
        let counters = &self.site.counters;
        match served.ended {
            Ended::ByDeadline(late) => {
                counters.closed_by_deadline.add(1);
                record(&mut self.seen_late, late.seen);
                record(&mut self.closed_late, late.closed);
            }
            Ended::Early { after } => {
                counters.closed_by_deadline.add(1);
                counters.closed_early.add(1);
                self.early.push(after);
            }
            Ended::Cancelled => {
                self.cancelled += 1;
                self.cancelled_clients.insert(served.peer);
            }
            Ended::ByClient => counters.closed_by_client.add(1),
            Ended::Failed => counters.connection_errors.add(1),
        }
    }
}

fn record(histogram: &mut Histogram<u64>, late: Duration) {
    histogram.saturating_record(late.as_micros() as u64);
}

/// From a microsecond to an hour, to three digits.
fn lateness_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("these constants are valid bounds")
}

// What all connections of a server share: which of them are there, and what can be done to them
// from outside their tasks.
//
// The `Deadlines` are the one list of the connections. The key of each holds its number and its
// address, and the number alone finds it. A connection's own tasks use the deadline and its
// handle. The admin uses the number.
//
// Invariants:
//
// - A connection is listed while its deadline is in the map: until it ends, or a drain takes it
//   out.
// - Each cancelled deadline is counted once, as kicked or as drained. The call that was told that
//   it cancelled the deadline counts it. So when all have ended, no more connections can have
//   ended by a cancelled deadline than these counts say.

pub(crate) struct Site {
    pub(crate) timer: AnyTimer,
    pub(crate) timeout: Duration,
    pub(crate) counters: Counters,
    deadlines: Deadlines,
}

/// A connection's number: 1 for the first that was accepted, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// The key of a connection. It is its number that counts, so it can be looked up by that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) id: ConnectionId,
    pub(crate) peer: SocketAddr,
}

/// Why nothing was done to a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoSuchConnection,
    /// Its deadline has just come to its end. It is about to be closed.
    JustEnding,
}

impl Site {
    pub(crate) fn new(timer: &AnyTimer, timeout: Duration) -> Site {
        Site {
            timer: timer.clone(),
            timeout,
            counters: Counters::default(),
            deadlines: Deadlines::new(timer),
        }
    }

    /// Arms the deadline of a new connection. It is listed until the deadline is dropped.
    pub(crate) fn open(&self, id: ConnectionId, peer: SocketAddr) -> AnyDeadline {
        self.deadlines.insert(Listed { id, peer }, self.timeout)
    }

    /// The connections that are there, in the order of their numbers.
    pub(crate) fn connections(&self) -> Vec<Listed> {
        let mut connections = self.deadlines.keys();
        connections.sort_unstable_by_key(|listed| listed.id);
        connections
    }

    /// The time that a connection has left; `None` if there is no such connection, or it is about
    /// to be closed.
    pub(crate) fn remaining(&self, id: ConnectionId) -> Option<Duration> {
        self.deadlines.handle(id)?.remaining()
    }

    /// Closes one connection.
    pub(crate) fn kick(&self, id: ConnectionId) -> Result<(), Refusal> {
        let handle = self.deadlines.handle(id);
        let handle = handle.ok_or(Refusal::NoSuchConnection)?;
        if !handle.cancel() {
            return Err(Refusal::JustEnding);
        }
        self.counters.kicked.add(1);
        Ok(())
    }

    /// From now on the connection may be silent for this much longer than the server's timeout.
    ///
    /// `reset_after` would hold until the next heartbeat only. It would also look at the clock
    /// before it takes the lock. If a heartbeat reset the deadline in between, it could move the
    /// deadline to an earlier time than that heartbeat was promised. `set_timeout` counts from the
    /// last reset, whichever that was.
    pub(crate) fn extend(&self, id: ConnectionId, longer: Duration) -> Result<(), Refusal> {
        let handle = self.deadlines.handle(id);
        let handle = handle.ok_or(Refusal::NoSuchConnection)?;
        if !handle.set_timeout(self.timeout.saturating_add(longer)) {
            return Err(Refusal::JustEnding);
        }
        self.counters.extended.add(1);
        Ok(())
    }

    /// Closes every connection that is there, and says how many. Later ones are served as ever.
    pub(crate) fn drain(&self) -> usize {
        let drained = self.deadlines.drain();
        self.counters.drained.add(drained);
        drained
    }
}

impl Borrow<ConnectionId> for Listed {
    fn borrow(&self) -> &ConnectionId {
        &self.id
    }
}

impl Hash for Listed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Listed) -> bool {
        self.id == other.id
    }
}

impl Eq for Listed {}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ConnectionId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<ConnectionId, ParseIntError> {
        text.parse().map(ConnectionId)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoSuchConnection => "no such connection; `list` shows those that are there",
            Refusal::JustEnding => {
                "its deadline has just come to its end, and it is about to be closed"
            }
        })
    }
}

// One connection of the server: one task awaits its deadline, another resets it.
//
// ```text
//   keep_alive (awaits the deadline)                listen (holds the deadline's handle)
//     |                                               |  heartbeat read: handle.reset()
//     |                                               |  heartbeat read: handle.reset()
//   the deadline expires: stop listening ------------>|  or: the client has closed
//     |<------------------- what was heard, exactly --+
//   early? a violation
//   else close the connection
// ```
//
// *Early* is judged exactly. The program takes an instant before each reset, and one after the
// deadline has expired. The two may not lie less than the timeout apart. The deadline was reset
// between them, so no delay of a task can make an honest timer look early.
//
// A reset that is refused is judged in the same way. It may not come sooner than the timeout after
// the last reset that was granted. Otherwise the deadline that it found expired was early.
//
// A server that was stopped for a while finds heartbeats that it has not read yet. Nothing here
// looks for them. The deadline itself stays pending for a while after such a stall, and the
// heartbeats reset it. Tokio's timer gives no such time.
//
// The admin may cancel the deadline, which closes the connection at once, or lengthen its timeout.
// The new timeout is never shorter than the server's, so what is early stays the same.

/// A connection that has come to its end.
pub(crate) struct Served {
    pub(crate) peer: SocketAddr,
    pub(crate) ended: Ended,
    /// The admin had lengthened its timeout.
    pub(crate) extended: bool,
}

/// How a connection ended.
pub(crate) enum Ended {
    /// It was closed because its deadline had expired.
    ByDeadline(Lateness),
    /// It was closed because its deadline had expired, but only this long after the last reset: a
    /// violation.
    Early {
        after: Duration,
    },
    /// It was closed because its deadline had been cancelled: kicked or drained.
    Cancelled,
    ByClient,
    /// The socket failed.
    Failed,
}

/// How long after the last heartbeat plus the timeout something happened.
pub(crate) struct Lateness {
    /// The task that awaits the deadline ran: the timer, and the wait for a worker.
    pub(crate) seen: Duration,
    /// The connection was closed. The listening task had to be stopped before.
    pub(crate) closed: Duration,
}

/// Serves a connection until it is closed. An error is a panic of the listening task.
pub(crate) async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    id: ConnectionId,
    site: Arc<Site>,
) -> Result<Served, JoinError> {
    let opened_at = Instant::now();
    let mut deadline = site.open(id, peer);
    let ended = keep_alive(stream, &mut deadline, &site, opened_at).await?;
    Ok(Served {
        peer,
        ended,
        extended: deadline.handle().timeout() > site.timeout,
    })
}

async fn keep_alive(
    mut stream: TcpStream,
    deadline: &mut AnyDeadline,
    site: &Arc<Site>,
    opened_at: Instant,
) -> Result<Ended, JoinError> {
    // Taken once: a reset through it needs no look-up.
    let handle = deadline.handle();
    if stream.write_all(&[GREETING]).await.is_err() {
        return Ok(Ended::Failed);
    }
    // Dropping `stop` ends the listener, also when this task is aborted.
    let (stop, stopped) = oneshot::channel();
    let stream = Arc::new(stream);
    let listening = listen(
        stream.clone(),
        handle.clone(),
        site.clone(),
        opened_at,
        stopped,
    );
    let mut listener = tokio::spawn(listening);
    let outcome = tokio::select! {
        outcome = deadline.outcome() => outcome,
        heard = &mut listener => return Ok(heard?.end.into()),
    };
    let expired_at = Instant::now();
    drop(stop);
    let heard = listener.await?;

    if outcome == Outcome::Cancelled {
        return Ok(Ended::Cancelled);
    }
    let found_expired_at = match heard.end {
        End::Refused { at } => at.min(expired_at),
        _ => expired_at,
    };
    let after = found_expired_at.saturating_duration_since(heard.last_reset);
    if after < site.timeout {
        return Ok(Ended::Early { after });
    }
    Ok(match heard.end {
        End::ByClient | End::Failed => heard.end.into(),
        End::Stopped | End::Refused { .. } => {
            drop(stream);
            Ended::ByDeadline(Lateness {
                seen: after.saturating_sub(handle.timeout()),
                closed: heard.last_reset.elapsed().saturating_sub(handle.timeout()),
            })
        }
    })
}

/// What the listening task has to tell.
struct Heard {
    /// Taken before the last reset that was granted.
    last_reset: Instant,
    end: End,
}

/// Why the listening task has ended.
enum End {
    /// It was told to stop.
    Stopped,
    /// A reset was refused, and the answer was there at this instant.
    Refused {
        at: Instant,
    },
    ByClient,
    Failed,
}

/// Reads heartbeats and resets the deadline, until the connection ends or it is told to stop.
async fn listen(
    stream: Arc<TcpStream>,
    handle: AnyHandle,
    site: Arc<Site>,
    mut last_reset: Instant,
    mut stopped: oneshot::Receiver<()>,
) -> Heard {
    // More than one heartbeat may come with one reading; one reset is enough for them.
    let mut heartbeats = [0; 64];
    let end = loop {
        // `readable` and `try_read` spend no budget: a client that floods would keep the worker.
        coop::consume_budget().await;
        let read = tokio::select! {
            _ = &mut stopped => break End::Stopped,
            ready = stream.readable() => ready.and_then(|()| stream.try_read(&mut heartbeats)),
        };
        match read {
            Ok(0) => break End::ByClient,
            Ok(count) => {
                site.counters.heartbeats.add(count);
                let before = Instant::now();
                if handle.reset() {
                    last_reset = before;
                    site.counters.resets.add(1);
                } else {
                    let at = Instant::now();
                    // The deadline has expired, and the task that awaits it is about to say stop.
                    let _ = stopped.await;
                    break End::Refused { at };
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break End::Failed,
        }
    };
    Heard { last_reset, end }
}

impl From<End> for Ended {
    /// For an end that does not come from the deadline.
    fn from(end: End) -> Ended {
        match end {
            End::ByClient => Ended::ByClient,
            End::Failed | End::Stopped | End::Refused { .. } => Ended::Failed,
        }
    }
}

// Counts that the server's tasks add to, for anybody to read at any time.

/// What the server has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) served: Count,
    pub(crate) open: Count,
    pub(crate) heartbeats: Count,
    pub(crate) resets: Count,
    pub(crate) closed_by_deadline: Count,
    /// Those of them that were closed too early: a violation.
    pub(crate) closed_early: Count,
    pub(crate) closed_by_client: Count,
    /// Deadlines that the admin has cancelled one by one.
    pub(crate) kicked: Count,
    /// Deadlines that the admin has cancelled all at once.
    pub(crate) drained: Count,
    /// How often the admin has allowed a connection a longer silence.
    pub(crate) extended: Count,
    pub(crate) accept_errors: Count,
    pub(crate) connection_errors: Count,
}

/// One of the [`Counters`].
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, count: usize) {
        self.0.store(count as u64, Ordering::Relaxed);
    }
}

// The two bytes that client and server agree on. Both are single, so that there is nothing to
// frame.

/// The server sends it once when the connection's deadline is armed. A client that has it knows
/// that it is served and does not just wait in the listener's queue.
pub(crate) const GREETING: u8 = b'+';

/// The client sends it now and then to stay connected.
pub(crate) const HEARTBEAT: u8 = b'.';
