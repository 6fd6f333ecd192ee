//! The server: accepts connections, has each one served, and reports how they ended.
//!
//! It knows nothing of the load. One task owns the listener and every connection's task, so what they report
//! needs no lock; the [`Counters`] are for those who look on.
//!
//! A second port, for an operator to list, kick or drain connections, would be accepted in the same way by a task
//! beside [`Acceptor::run`], and act through each connection's `ResetHandle`: `cancel` is a kick, `reset_after` an
//! extension.

use std::convert::identity;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use hdrhistogram::Histogram;
use tickwheel::{Duration, Timer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::connection::{self, Ended};
use crate::counters::Counters;
use crate::site::Site;

/// After an error of accept, most likely too many open files, there is no use in trying again at once.
const PAUSE_AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

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
    /// How late connections were closed, in microseconds.
    pub(crate) late: Histogram<u64>,
    /// For each deadline that expired early, how long after the last reset that was.
    pub(crate) early: Vec<Duration>,
    /// Deadlines that were cancelled, though nobody here cancels any.
    pub(crate) cancelled: usize,
    /// Tasks that panicked.
    pub(crate) panics: usize,
    /// Connections that had to be cut off at the end.
    pub(crate) cut_off: usize,
}

impl Server {
    /// Listens on a free loopback port.
    pub(crate) async fn start(timer: &Timer, timeout: Duration) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let site = Arc::new(Site::new(timer, timeout));
        let (stop, stopped) = oneshot::channel();
        let acceptor = Acceptor {
            listener,
            connections: JoinSet::new(),
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

    pub(crate) fn counters(&self) -> &Counters {
        &self.site.counters
    }

    /// Accepts no more, gives the connections `within` to end by themselves, and cuts the others off.
    pub(crate) async fn shut_down(self, within: Duration) -> Report {
        // If the acceptor has panicked nobody takes the message, and the report says so.
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
    connections: JoinSet<Result<Ended, JoinError>>,
    report: Report,
}

impl Acceptor {
    async fn run(mut self, mut stopped: oneshot::Receiver<Duration>) -> Report {
        let within = loop {
            tokio::select! {
                within = &mut stopped => break within.unwrap_or_default(),
                Some(ended) = self.connections.join_next() => self.report.add(ended),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => self.serve(stream),
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

    fn serve(&mut self, stream: TcpStream) {
        self.counters().served.add(1);
        let site = self.report.site.clone();
        self.connections.spawn(connection::serve(stream, site));
    }

    fn counters(&self) -> &Counters {
        &self.report.site.counters
    }

    fn timer(&self) -> &Timer {
        &self.report.site.timer
    }
}

impl Report {
    fn new(site: Arc<Site>) -> Report {
        Report {
            site,
            late: lateness_histogram(),
            early: Vec::new(),
            cancelled: 0,
            panics: 0,
            cut_off: 0,
        }
    }

    fn add(&mut self, ended: Result<Result<Ended, JoinError>, JoinError>) {
        let counters = &self.site.counters;
        match ended.and_then(identity) {
            Ok(Ended::ByDeadline { late }) => {
                counters.closed_by_deadline.add(1);
                self.late.saturating_record(late.as_micros() as u64);
            }
            Ok(Ended::Early { after }) => {
                counters.closed_by_deadline.add(1);
                self.early.push(after);
            }
            Ok(Ended::Cancelled) => self.cancelled += 1,
            Ok(Ended::ByClient) => counters.closed_by_client.add(1),
            Ok(Ended::Failed) => counters.connection_errors.add(1),
            Err(_) => self.panics += 1,
        }
    }
}

/// From a microsecond to an hour, to three digits.
fn lateness_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("these constants are valid bounds")
}
