//! The server: accepts connections, lets a task serve each one, and reports how they ended.
//!
//! It knows nothing of the load, nor of the admin port, which acts on the connections through the
//! [`Site`]. One task owns the listener and every connection's task, so what they report needs no
//! lock. The [`Counters`] are for those that look on.

use std::collections::HashSet;
use std::convert::identity;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hdrhistogram::Histogram;
use tickwheel::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::connection::{self, Ended, Served};
use crate::counters::Counters;
use crate::site::{ConnectionId, Site};
use crate::timer::AnyTimer;

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
        self.connections
            .spawn(connection::serve(stream, peer, id, site));
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
