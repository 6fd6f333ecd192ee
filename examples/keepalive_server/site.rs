//! What all connections of a server share: who is there, and what can be done to them from outside their tasks.
//!
//! The [`Deadlines`] are under the connections' numbers. A connection's own tasks go by the
//! deadline and its handle, the admin by the number. Their addresses are kept beside, in the order in
//! which `list` shows them.
//!
//! Invariants:
//!
//! - A connection is listed only while its deadline is in the map, unless a drain has taken that out.
//! - Each cancelled deadline is counted once, as kicked or as drained, by the one call that was told it cancelled it.
//!   So when all have ended, no more connections can have ended by a cancelled deadline than these counts say.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tickwheel::Duration;

use crate::counters::Counters;
use crate::deadlines::{AnyDeadline, Deadlines};
use crate::timer::AnyTimer;

pub(crate) struct Site {
    pub(crate) timer: AnyTimer,
    pub(crate) timeout: Duration,
    pub(crate) counters: Counters,
    deadlines: Deadlines,
    peers: Mutex<BTreeMap<ConnectionId, SocketAddr>>,
}

/// A connection's number: 1 for the first that was accepted, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// Why nothing was done to a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoSuchConnection,
    /// Its deadline has just come to its end. It is about to be closed, if the second look finds nothing to read.
    JustEnding,
}

impl Site {
    pub(crate) fn new(timer: &AnyTimer, timeout: Duration) -> Site {
        Site {
            timer: timer.clone(),
            timeout,
            counters: Counters::default(),
            deadlines: Deadlines::new(timer),
            peers: Mutex::new(BTreeMap::new()),
        }
    }

    /// The connections that are there, in the order of their numbers.
    pub(crate) fn connections(&self) -> Vec<(ConnectionId, SocketAddr)> {
        let peers = self.peers();
        peers.iter().map(|(id, peer)| (*id, *peer)).collect()
    }

    /// The time that a connection has left; `None` if there is no such connection, or it is about to be closed.
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

    /// From now on the connection may be silent for so much longer than the server's timeout.
    ///
    /// `reset_after` would hold until the next heartbeat only. It would also look at the clock before it takes the
    /// lock, and so could move a deadline that a heartbeat resets in between to an earlier time than that heartbeat
    /// was promised. `set_timeout` counts from whatever reset was the last.
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

    fn peers(&self) -> MutexGuard<'_, BTreeMap<ConnectionId, SocketAddr>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection while it is open: its deadline is armed, and it is listed until this is dropped.
pub(crate) struct OpenConnection {
    pub(crate) deadline: AnyDeadline,
    id: ConnectionId,
    site: Arc<Site>,
}

impl OpenConnection {
    pub(crate) fn new(site: &Arc<Site>, id: ConnectionId, peer: SocketAddr) -> OpenConnection {
        let deadline = site.deadlines.insert(id, site.timeout);
        site.peers().insert(id, peer);
        OpenConnection {
            deadline,
            id,
            site: site.clone(),
        }
    }

    /// Makes the deadline pending again after it has expired, unless a drain has come in between.
    ///
    /// Such a drain has taken the key out, but found no pending deadline to cancel. So this looks for the key once
    /// the deadline is pending: a drain that comes after the look finds it, and one that came before it is made good.
    pub(crate) fn restart(&mut self) {
        self.deadline.restart();
        let drained = self.site.deadlines.handle(self.id).is_none();
        // Refused if that drain came after the restart: then it has counted this connection itself.
        if drained && self.deadline.handle().cancel() {
            self.site.counters.drained.add(1);
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.site.peers().remove(&self.id);
    }
}

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
                "its deadline has just come to its end; `list` shows whether it stays"
            }
        })
    }
}
