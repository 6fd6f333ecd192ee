//! One connection of the server: one task awaits its deadline, another resets it.
//!
//! ```text
//!   keep_alive (awaits the deadline)                listen (holds the deadline's handle)
//!     |                                               |  heartbeat read: handle.reset()
//!     |                                               |  heartbeat read: handle.reset()
//!   the deadline expires: stop listening ------------>|  or: the client has closed
//!     |<------------------- what was heard, exactly --+
//!   early? a violation
//!   else close the connection
//! ```
//!
//! *Early* is judged exactly. The program takes an instant before each reset, and one after the
//! deadline has expired. The two may not lie less than the timeout apart. The deadline was reset
//! between them, so no delay of a task can make an honest timer look early.
//!
//! A reset that is refused is judged in the same way. It may not come sooner than the timeout after
//! the last reset that was granted. Otherwise the deadline that it found expired was early.
//!
//! A server that was stopped for a while finds heartbeats that it has not read yet. Nothing here
//! looks for them. The deadline itself stays pending for a while after such a stall, and the
//! heartbeats reset it. Tokio's timer gives no such time.
//!
//! The admin may cancel the deadline, which closes the connection at once, or lengthen its timeout.
//! The new timeout is never shorter than the server's, so what is early stays the same.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tickwheel::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinError, coop};

use crate::deadlines::{AnyDeadline, AnyHandle, Outcome};
use crate::protocol::GREETING;
use crate::site::{ConnectionId, Site};

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
