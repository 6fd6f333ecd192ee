//! The server: accepts connections, lets a task serve each one, and reports how they ended.
//!
//! It knows nothing of the load. One task owns the listener and every connection's task, so what
//! they report needs no lock. The [`Counters`] are for those that look on.

use std::convert::identity;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tickwheel::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::connection::{self, Ended};
use crate::keepalives::{Keepalives, TimerKind};

/// After an error of accept, most likely too many open files, there is no use in trying again at
/// once.
const PAUSE_AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

/// What all connections share.
pub(crate) struct Site {
    pub(crate) keepalives: Keepalives,
    /// How long a client may be silent.
    pub(crate) timeout: Duration,
    pub(crate) counters: Counters,
    stall: Mutex<LastStall>,
}

/// When the timer or the whole process was held up last.
#[derive(Default)]
struct LastStall {
    /// The stalls that tickwheel's driver had counted then.
    counted: u64,
    /// Far off, while the process is paused.
    ended: Option<Instant>,
}

impl Site {
    pub(crate) fn new(kind: TimerKind, timeout: Duration) -> Site {
        Site {
            keepalives: Keepalives::new(kind),
            timeout,
            counters: Counters::default(),
            stall: Mutex::default(),
        }
    }

    /// The process is about to be stopped by its own wish, or goes on.
    pub(crate) fn set_paused(&self, is_paused: bool) {
        let far_off = Duration::from_secs(u64::from(is_paused) * 1_000_000);
        lock(&self.stall).ended = Some(Instant::now() + far_off);
    }

    /// Whether the timer was held up since then. Where it is in doubt it says yes: it learns of a
    /// stall of the driver when it is asked.
    pub(crate) fn has_stalled_since(&self, instant: Instant) -> bool {
        let mut stall = lock(&self.stall);
        // Tokio's timers count no stalls.
        let counted = self
            .keepalives
            .metrics()
            .map_or(0, |metrics| metrics.stalls);
        if counted > stall.counted {
            stall.counted = counted;
            stall.ended = stall.ended.max(Some(Instant::now()));
        }
        stall.ended.is_some_and(|ended| ended > instant)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the server has done so far, for anybody to read at any time.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) served: Count,
    pub(crate) open: Count,
    pub(crate) heartbeats: Count,
    pub(crate) resets: Count,
    pub(crate) closed_by_deadline: Count,
    pub(crate) closed_by_client: Count,
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

    fn set(&self, count: usize) {
        self.0.store(count as u64, Ordering::Relaxed);
    }
}

/// A server that is running.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) site: Arc<Site>,
    stop: oneshot::Sender<Duration>,
    acceptor: JoinHandle<Report>,
}

/// How the server's connections ended, beside what its counters say.
#[derive(Default)]
pub(crate) struct Report {
    /// How late connections were closed, if nothing held up the timer since their last heartbeat.
    pub(crate) late: Vec<Duration>,
    /// How late the others were closed. That is a grace, where the timer gives one.
    pub(crate) late_after_stall: Vec<Duration>,
    /// For each deadline that expired early, how long after the last reset that was.
    pub(crate) early: Vec<Duration>,
    /// Tasks that panicked.
    pub(crate) panics: usize,
    /// Connections that had to be cut off at the end.
    pub(crate) cut_off: usize,
}

impl Server {
    /// Listens on a free loopback port.
    pub(crate) async fn start(kind: TimerKind, timeout: Duration) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let site = Arc::new(Site::new(kind, timeout));
        let (stop, stopped) = oneshot::channel();
        Ok(Server {
            address,
            stop,
            acceptor: tokio::spawn(accept(listener, site.clone(), stopped)),
            site,
        })
    }

    /// Accepts no more, gives the connections `within` to end by themselves, and cuts the others
    /// off.
    pub(crate) async fn shut_down(self, within: Duration) -> Report {
        // If the acceptor has panicked, nobody takes the message, and the report says so.
        let _ = self.stop.send(within);
        self.acceptor.await.unwrap_or_else(|_| Report {
            panics: 1,
            ..Report::default()
        })
    }
}

/// The task that owns the listener and the connections.
async fn accept(
    listener: TcpListener,
    site: Arc<Site>,
    mut stopped: oneshot::Receiver<Duration>,
) -> Report {
    let mut connections = JoinSet::new();
    let mut report = Report::default();
    let counters = &site.counters;
    let within = loop {
        tokio::select! {
            within = &mut stopped => break within.unwrap_or_default(),
            Some(ended) = connections.join_next() => report.add(ended, counters),
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    counters.served.add(1);
                    connections.spawn(connection::serve(stream, client, site.clone()));
                }
                Err(_) => {
                    counters.accept_errors.add(1);
                    sleep(PAUSE_AFTER_ACCEPT_ERROR).await;
                }
            },
        }
        counters.open.set(connections.len());
    };

    drop(listener);
    let all_ended = timeout(within, async {
        while let Some(ended) = connections.join_next().await {
            report.add(ended, counters);
        }
    });
    if all_ended.await.is_err() {
        report.cut_off = connections.len();
        connections.shutdown().await;
    }
    report
}

impl Report {
    fn add(&mut self, ended: Result<Result<Ended, JoinError>, JoinError>, counters: &Counters) {
        match ended.and_then(identity) {
            Ok(Ended::ByDeadline { late, after_stall }) => {
                counters.closed_by_deadline.add(1);
                match after_stall {
                    true => self.late_after_stall.push(late),
                    false => self.late.push(late),
                }
            }
            Ok(Ended::Early { after }) => {
                counters.closed_by_deadline.add(1);
                self.early.push(after);
            }
            Ok(Ended::ByClient) => counters.closed_by_client.add(1),
            Ok(Ended::Failed) => counters.connection_errors.add(1),
            Err(_) => self.panics += 1,
        }
    }
}
