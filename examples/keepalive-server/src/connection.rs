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
//! between them, so no delay of a task can make an honest timer look early. A reset that is refused
//! is judged in the same way: it may not come sooner than the timeout after the last reset that was
//! granted.
//!
//! A server that was stopped for a while finds heartbeats that it has not read yet. Nothing here
//! looks for them. The deadline itself stays pending for a while after such a stall, and the
//! heartbeats reset it. Tokio's timer gives no such time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tickwheel::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinError, coop};

use crate::keepalives::Handle;
use crate::server::Site;

/// The server sends it once when the connection's deadline is armed. A client that has it knows
/// that it is served and does not just wait in the listener's queue.
pub(crate) const GREETING: u8 = b'+';

/// The client sends it now and then to stay connected.
pub(crate) const HEARTBEAT: u8 = b'.';

/// How a connection ended.
pub(crate) enum Ended {
    /// It was closed because its deadline had expired.
    ByDeadline {
        /// How long after the last heartbeat plus the timeout it was closed.
        late: Duration,
        /// Something held up the timer since its last heartbeat, so `late` may be a grace.
        after_stall: bool,
    },
    /// It was closed because its deadline had expired, but only this long after the last reset: a
    /// violation.
    Early {
        after: Duration,
    },
    ByClient,
    /// The socket failed, or the runtime of the timer has ended.
    Failed,
}

/// Serves a connection until it is closed. An error is a panic of the listening task.
pub(crate) async fn serve(
    mut stream: TcpStream,
    client: SocketAddr,
    site: Arc<Site>,
) -> Result<Ended, JoinError> {
    let opened_at = Instant::now();
    let mut deadline = site.keepalives.insert(client, site.timeout);
    // Taken once: a reset through it needs no look-up.
    let handle = deadline.handle();
    if stream.write_all(&[GREETING]).await.is_err() {
        return Ok(Ended::Failed);
    }
    // Dropping `stop` ends the listener, also when this task is aborted.
    let (stop, stopped) = oneshot::channel();
    let stream = Arc::new(stream);
    let (listened, resets) = (stream.clone(), handle.clone());
    let listening = listen(listened, resets, site.clone(), opened_at, stopped);
    let mut listener = tokio::spawn(listening);
    let has_expired = tokio::select! {
        has_expired = deadline.has_expired() => has_expired,
        heard = &mut listener => return Ok(heard?.end.into()),
    };
    let expired_at = Instant::now();
    drop(stop);
    let heard = listener.await?;

    if !has_expired {
        return Ok(Ended::Failed);
    }
    let found_expired_at = match heard.end {
        End::Refused(at) => at.min(expired_at),
        _ => expired_at,
    };
    let after = found_expired_at.saturating_duration_since(heard.last_reset);
    if after < site.timeout {
        return Ok(Ended::Early { after });
    }
    Ok(match heard.end {
        End::ByClient | End::Failed => heard.end.into(),
        End::Stopped | End::Refused(_) => {
            drop(stream);
            Ended::ByDeadline {
                late: heard.last_reset.elapsed().saturating_sub(handle.timeout()),
                after_stall: site.has_stalled_since(heard.last_reset),
            }
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
    Refused(Instant),
    ByClient,
    Failed,
}

/// Reads heartbeats and resets the deadline, until the connection ends or it is told to stop.
async fn listen(
    stream: Arc<TcpStream>,
    handle: Handle,
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
                    break End::Refused(at);
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
            End::Failed | End::Stopped | End::Refused(_) => Ended::Failed,
        }
    }
}
