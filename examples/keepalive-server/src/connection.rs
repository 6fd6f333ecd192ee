//! One connection of the server. A [`Way`] with a deadline has two tasks:
//!
//! ```text
//!   serve (awaits the deadline)                     listen (holds the deadline's handle)
//!     |                                               |  heartbeat read: handle.reset()
//!     |                                               |  heartbeat read: handle.reset()
//!   the deadline expires: stop listening ------------>|  or: the client has closed
//!     |<------------------- what was heard, exactly --+
//!   early? a violation
//!   else close the connection
//! ```
//!
//! In the other ways one task reads with a timeout, and closes the connection when that ends it.
//!
//! *Early* is judged exactly. The instant before the last reset and the one after the expiry, or
//! after a refused reset, may not lie less than the timeout apart. The deadline was reset between
//! them, so no delay of a task can make an honest timer look early.
//!
//! A server that was held up finds heartbeats that it has not read yet. Nothing here looks for
//! them: a `Deadline` stays pending for a while after such a stall, and the heartbeats reset it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinError, coop};

use crate::changed_use::idioms as changed;
use crate::on_tokio::idioms;
use crate::server::Site;
use crate::ways::Way;

/// The server sends it once when the connection is served. So a client that has it does not just
/// wait in the listener's queue.
pub(crate) const GREETING: u8 = b'+';

/// The client sends it now and then to stay connected.
pub(crate) const HEARTBEAT: u8 = b'.';

/// How a connection ended.
pub(crate) enum Ended {
    /// Its deadline had expired, this long after the last heartbeat and the timeout.
    ByDeadline(Duration),
    /// Its deadline had expired, but only this long after the last reset: a violation.
    Early(Duration),
    ByClient,
    /// The socket failed, or the runtime of the timer has ended.
    Failed,
}

impl Ended {
    pub(crate) fn expired(after: Duration, timeout: Duration) -> Ended {
        match after.checked_sub(timeout) {
            Some(late) => Ended::ByDeadline(late),
            None => Ended::Early(after),
        }
    }
}

/// Serves a connection until it is closed. An error is a panic of the listening task.
pub(crate) async fn serve(
    stream: TcpStream,
    client: SocketAddr,
    site: Arc<Site>,
) -> Result<Ended, JoinError> {
    // Before the deadline begins.
    let opened_at = Instant::now();
    match site.way {
        Way::Deadline => {
            let deadline = site.deadlines.insert(client, site.timeout);
            let deadline = deadline.expect("the map has no capacity and is never closed");
            // Taken once: a reset through it needs no look-up.
            let handle = deadline.handle();
            let expired = async { deadline.await.is_ok() };
            serve_by_deadline(stream, site, opened_at, expired, move || handle.reset()).await
        }
        Way::LastSeen => {
            let last_seen = idioms::LastSeen::new(site.timeout);
            let seen = last_seen.clone();
            let expired = async {
                last_seen.expired().await;
                true
            };
            serve_by_deadline(stream, site, opened_at, expired, move || seen.reset()).await
        }
        Way::LastSeenChanged => {
            let last_seen = changed::LastSeen::new(site.timeout);
            let seen = last_seen.clone();
            let expired = async {
                last_seen.expired().await;
                true
            };
            serve_by_deadline(stream, site, opened_at, expired, move || seen.reset()).await
        }
        Way::IdleTimeout => {
            let stream = IdleTimeout::new(stream, site.timeout);
            Ok(idioms::serve_by_reads(stream, &site).await)
        }
        Way::Timeout | Way::Select | Way::Biased | Way::Fresh => {
            Ok(idioms::serve_by_reads(stream, &site).await)
        }
        Way::TimeoutChanged | Way::SelectChanged | Way::BiasedChanged | Way::FreshChanged => {
            Ok(changed::serve_by_reads(stream, &site).await)
        }
    }
}

/// One task awaits the deadline, and another one reads and resets it. `expired` says whether the
/// deadline has expired, and `reset` whether it is still pending.
async fn serve_by_deadline(
    mut stream: TcpStream,
    site: Arc<Site>,
    opened_at: Instant,
    expired: impl Future<Output = bool>,
    reset: impl Fn() -> bool + Send + 'static,
) -> Result<Ended, JoinError> {
    if stream.write_all(&[GREETING]).await.is_err() {
        return Ok(Ended::Failed);
    }
    // Dropping `stop` ends the listener, also when this task is aborted.
    let (stop, stopped) = oneshot::channel();
    let listening = listen(stream, reset, site.clone(), opened_at, stopped);
    let mut listener = tokio::spawn(listening);
    let has_expired = tokio::select! {
        has_expired = expired => has_expired,
        heard = &mut listener => return Ok(heard?.otherwise.unwrap_or(Ended::Failed)),
    };
    let expired_at = Instant::now();
    drop(stop);
    let heard = listener.await?;
    if !has_expired {
        return Ok(Ended::Failed);
    }
    let found_at = heard.refused_at.unwrap_or(expired_at).min(expired_at);
    let after = found_at.saturating_duration_since(heard.last_reset);
    let expired = Ended::expired(after, site.timeout);
    Ok(match expired {
        Ended::Early(_) => expired,
        _ => heard.otherwise.unwrap_or(expired),
    })
}

/// What the listening task reports.
struct Heard {
    /// Taken before the last reset that was granted.
    last_reset: Instant,
    /// A reset was refused, and the answer was there at this instant.
    refused_at: Option<Instant>,
    /// How the connection ended, if not by its deadline.
    otherwise: Option<Ended>,
}

/// Reads heartbeats and resets the deadline, until the connection ends or it is stopped.
async fn listen(
    stream: TcpStream,
    reset: impl Fn() -> bool,
    site: Arc<Site>,
    mut last_reset: Instant,
    mut stopped: oneshot::Receiver<()>,
) -> Heard {
    // More than one heartbeat may come with one reading; one reset is enough for them.
    let mut heartbeats = [0; 64];
    let mut refused_at = None;
    let otherwise = loop {
        // `readable` and `try_read` spend no budget: a client that floods would keep the worker.
        coop::consume_budget().await;
        let read = tokio::select! {
            _ = &mut stopped => break None,
            ready = stream.readable() => ready.and_then(|()| stream.try_read(&mut heartbeats)),
        };
        match read {
            Ok(0) => break Some(Ended::ByClient),
            Ok(count) => {
                site.add_heartbeats(count);
                let before = Instant::now();
                if reset() {
                    last_reset = before;
                } else {
                    refused_at = Some(Instant::now());
                    // The deadline has expired, and the task that awaits it is about to say stop.
                    let _ = stopped.await;
                    break None;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break Some(Ended::Failed),
        }
    };
    Heard {
        last_reset,
        refused_at,
        otherwise,
    }
}
