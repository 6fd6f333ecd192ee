//! Timeouts as users write them by hand. This file is compiled twice: with tokio's `time`, and
//! with that import swapped.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::time::{Duration, Instant, sleep, sleep_until, timeout};
use crate::connection::{Ended, GREETING};
use crate::server::Site;
use crate::ways::Idiom;

/// One task reads, and each read has its timeout, unless the stream has it.
pub(crate) async fn serve_by_reads(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    site: &Site,
) -> Ended {
    let (idiom, idle) = (site.way.idiom(), site.timeout);
    let mut heartbeats = [0; 64];
    let mut last_reset = Instant::now();
    let mut pinned = pin!(sleep(idle));
    if stream.write_all(&[GREETING]).await.is_err() {
        return Ended::Failed;
    }
    loop {
        let began = Instant::now();
        let read = stream.read(&mut heartbeats);
        let read = match idiom {
            Some(Idiom::Timeout) => timeout(idle, read).await.unwrap_or_else(|e| Err(e.into())),
            Some(Idiom::Select) => tokio::select! {
                read = read => read,
                () = &mut pinned => Err(io::ErrorKind::TimedOut.into()),
            },
            Some(Idiom::Biased) => tokio::select! {
                biased;
                read = read => read,
                () = &mut pinned => Err(io::ErrorKind::TimedOut.into()),
            },
            Some(Idiom::Fresh) => tokio::select! {
                read = read => read,
                () = sleep(idle) => Err(io::ErrorKind::TimedOut.into()),
            },
            None => read.await,
        };
        match read {
            Ok(0) => return Ended::ByClient,
            Ok(count) => {
                site.add_heartbeats(count);
                // A stream's own timeout was reset within the read, the others are from now on.
                last_reset = match idiom {
                    None => began,
                    Some(_) => Instant::now(),
                };
                if let Some(Idiom::Select | Idiom::Biased) = idiom {
                    pinned.as_mut().reset(last_reset + idle);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Ended::expired(last_reset.elapsed(), idle);
            }
            Err(_) => return Ended::Failed,
        }
    }
}

/// A deadline on a sleep, as it is written by hand. A heartbeat only writes the time. When the
/// sleep ends, the task that waits looks at the time, and sleeps on if it has moved.
#[derive(Clone)]
pub(crate) struct LastSeen {
    timeout: Duration,
    /// `None` once the deadline has expired.
    at: Arc<Mutex<Option<Instant>>>,
}

impl LastSeen {
    pub(crate) fn new(timeout: Duration) -> LastSeen {
        let at = Arc::new(Mutex::new(Some(Instant::now())));
        LastSeen { timeout, at }
    }

    pub(crate) async fn expired(&self) {
        while let Some(due) = self.look() {
            sleep_until(due).await;
        }
    }

    /// When to look again. `None` if the deadline has expired.
    fn look(&self) -> Option<Instant> {
        let mut at = self.at.lock().expect("nothing panics under it");
        let due = at.map(|at| at + self.timeout);
        let still_ahead = due.filter(|due| Instant::now() < *due);
        *at = at.filter(|_| still_ahead.is_some());
        still_ahead
    }

    /// The client was seen. `false` if the deadline has expired.
    pub(crate) fn reset(&self) -> bool {
        let mut at = self.at.lock().expect("nothing panics under it");
        *at = at.map(|_| Instant::now());
        at.is_some()
    }
}
