//! The server: accepts connections, lets a task serve each one, and reports how they ended.
//!
//! It knows nothing of the load. One task owns the listener and every connection's task, so what
//! they report needs no lock.

use std::convert::identity;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tickwheel::{DeadlineMap, Duration, Timer};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::connection::{self, Ended};
use crate::ways::Way;

/// After an error of accept, most likely too many open files, there is no use in trying again at
/// once.
const PAUSE_AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

/// What all connections share.
pub(crate) struct Site {
    pub(crate) way: Way,
    pub(crate) timer: Timer,
    /// By the client's address. One [`Way`] uses it.
    pub(crate) deadlines: DeadlineMap<SocketAddr>,
    /// How long a client may be silent.
    pub(crate) timeout: Duration,
    pub(crate) heartbeats: AtomicU64,
}

impl Site {
    pub(crate) fn add_heartbeats(&self, count: usize) {
        self.heartbeats.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// A server that is running.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) site: Arc<Site>,
    stop: oneshot::Sender<Duration>,
    acceptor: JoinHandle<Report>,
}

/// How the server's connections ended.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) served: usize,
    pub(crate) closed_by_client: usize,
    pub(crate) socket_errors: usize,
    pub(crate) accept_errors: usize,
    pub(crate) late: Vec<Duration>,
    /// For each deadline that expired early, how long after the last reset that was.
    pub(crate) early: Vec<Duration>,
    pub(crate) panics: usize,
    /// Connections that had to be cut off at the end.
    pub(crate) cut_off: usize,
}

impl Server {
    /// Listens on a free loopback port.
    pub(crate) async fn start(way: Way, timeout: Duration) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let timer = Timer::current();
        let site = Arc::new(Site {
            way,
            deadlines: DeadlineMap::new(&timer),
            timer,
            timeout,
            heartbeats: AtomicU64::new(0),
        });
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
        // If the acceptor has panicked, no task takes the message, and the report says so.
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
    let within = loop {
        tokio::select! {
            within = &mut stopped => break within.unwrap_or_default(),
            Some(ended) = connections.join_next() => report.add(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, client)) => {
                    report.served += 1;
                    connections.spawn(connection::serve(stream, client, site.clone()));
                }
                Err(_) => {
                    report.accept_errors += 1;
                    sleep(PAUSE_AFTER_ACCEPT_ERROR).await;
                }
            },
        }
    };

    drop(listener);
    let all_ended = timeout(within, async {
        while let Some(ended) = connections.join_next().await {
            report.add(ended);
        }
    });
    if all_ended.await.is_err() {
        report.cut_off = connections.len();
        connections.shutdown().await;
    }
    report
}

impl Report {
    fn add(&mut self, ended: Result<Result<Ended, JoinError>, JoinError>) {
        match ended.and_then(identity) {
            Ok(Ended::ByDeadline(late)) => self.late.push(late),
            Ok(Ended::Early(after)) => self.early.push(after),
            Ok(Ended::ByClient) => self.closed_by_client += 1,
            Ok(Ended::Failed) => self.socket_errors += 1,
            Err(_) => self.panics += 1,
        }
    }
}
