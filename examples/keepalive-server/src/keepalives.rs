//! The deadlines of the connections, on tickwheel's timers or on tokio's.
//!
//! Only the server's deadlines depend on the choice. The clients and the pauses between two tries
//! go by tokio's timers in either case. So two runs differ in the deadlines alone.
//!
//! Invariant: `reset` says `true` only if the deadline was put off, and no deadline expires before
//! its timeout has passed since then. This holds on both timers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;
use tickwheel::{
    DeadlineMap, Duration, Instant, KeyedDeadline, ResetHandle, Timer, metrics::Metrics,
};
use tokio::time::sleep_until;

/// Which timers to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimerKind {
    /// This crate's, with a deadline in a `DeadlineMap` for each connection
    Tickwheel,
    /// Tokio's own, with a sleep and a last-seen time for each connection
    Tokio,
}

impl TimerKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TimerKind::Tickwheel => "tickwheel",
            TimerKind::Tokio => "tokio",
        }
    }
}

/// The deadlines of all connections.
pub(crate) enum Keepalives {
    /// By the client's address.
    Tickwheel(Timer, DeadlineMap<SocketAddr>),
    Tokio,
}

/// The deadline of one connection, for the task that awaits it.
pub(crate) enum Keepalive {
    Tickwheel(KeyedDeadline<SocketAddr>),
    Tokio(LastSeen),
}

/// The same deadline, for the task that reads heartbeats.
#[derive(Clone)]
pub(crate) enum Handle {
    Tickwheel(ResetHandle),
    Tokio(LastSeen),
}

impl Keepalives {
    pub(crate) fn new(kind: TimerKind) -> Keepalives {
        match kind {
            TimerKind::Tickwheel => {
                let timer = Timer::current();
                let map = DeadlineMap::new(&timer);
                Keepalives::Tickwheel(timer, map)
            }
            TimerKind::Tokio => Keepalives::Tokio,
        }
    }

    /// Arms the deadline of a new connection.
    pub(crate) fn insert(&self, client: SocketAddr, timeout: Duration) -> Keepalive {
        match self {
            Keepalives::Tickwheel(_, map) => {
                let deadline = map.insert(client, timeout);
                Keepalive::Tickwheel(deadline.expect("the map has no limit and is never closed"))
            }
            Keepalives::Tokio => Keepalive::Tokio(LastSeen::new(timeout)),
        }
    }

    /// What tickwheel's timer has done; tokio's does not tell.
    pub(crate) fn metrics(&self) -> Option<Metrics> {
        match self {
            Keepalives::Tickwheel(timer, _) => Some(timer.metrics()),
            Keepalives::Tokio => None,
        }
    }
}

impl Keepalive {
    /// Completes when it has come to its end: whether it has expired.
    pub(crate) async fn has_expired(&mut self) -> bool {
        match self {
            Keepalive::Tickwheel(deadline) => deadline.await.is_ok(),
            Keepalive::Tokio(last_seen) => {
                last_seen.expired().await;
                true
            }
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        match self {
            Keepalive::Tickwheel(deadline) => Handle::Tickwheel(deadline.handle()),
            Keepalive::Tokio(last_seen) => Handle::Tokio(last_seen.clone()),
        }
    }
}

impl Handle {
    pub(crate) fn reset(&self) -> bool {
        match self {
            Handle::Tickwheel(handle) => handle.reset(),
            Handle::Tokio(last_seen) => last_seen.reset(),
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        match self {
            Handle::Tickwheel(handle) => handle.timeout(),
            Handle::Tokio(last_seen) => last_seen.timeout,
        }
    }
}

/// A deadline on tokio's own timer, as it is written by hand: a heartbeat only writes the time, and
/// when the sleep ends, the task that waits looks at it and sleeps on if it has moved.
#[derive(Clone)]
pub(crate) struct LastSeen {
    timeout: Duration,
    /// `None` once it has expired.
    at: Arc<Mutex<Option<Instant>>>,
}

impl LastSeen {
    fn new(timeout: Duration) -> LastSeen {
        let at = Arc::new(Mutex::new(Some(Instant::now())));
        LastSeen { timeout, at }
    }

    async fn expired(&self) {
        while let Some(due) = self.look() {
            sleep_until(due).await;
        }
    }

    /// When to look again. `None` if the deadline expires now.
    fn look(&self) -> Option<Instant> {
        let mut at = self.at();
        let due = at.map(|at| at + self.timeout);
        let still_ahead = due.filter(|due| Instant::now() < *due);
        if still_ahead.is_none() {
            *at = None;
        }
        still_ahead
    }

    /// The client was seen. `false` if the deadline has expired.
    fn reset(&self) -> bool {
        let mut at = self.at();
        let is_pending = at.is_some();
        if is_pending {
            *at = Some(Instant::now());
        }
        is_pending
    }

    fn at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
