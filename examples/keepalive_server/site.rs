//! What all connections of a server share: which of them are there, and what can be done to them
//! from outside their tasks.
//!
//! The [`Deadlines`] are the one list of the connections. The key of each holds its number and its
//! address, and the number alone finds it. A connection's own tasks use the deadline and its
//! handle. The admin uses the number.
//!
//! Invariants:
//!
//! - A connection is listed while its deadline is in the map: until it ends, or a drain takes it
//!   out.
//! - Each cancelled deadline is counted once, as kicked or as drained. The call that was told that
//!   it cancelled the deadline counts it. So when all have ended, no more connections can have
//!   ended by a cancelled deadline than these counts say.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use std::num::ParseIntError;
use std::str::FromStr;

use tickwheel::Duration;

use crate::counters::Counters;
use crate::deadlines::{AnyDeadline, Deadlines};
use crate::timer::AnyTimer;

pub(crate) struct Site {
    pub(crate) timer: AnyTimer,
    pub(crate) timeout: Duration,
    pub(crate) counters: Counters,
    deadlines: Deadlines,
}

/// A connection's number: 1 for the first that was accepted, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// The key of a connection. It is its number that counts, so it can be looked up by that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) id: ConnectionId,
    pub(crate) peer: SocketAddr,
}

/// Why nothing was done to a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoSuchConnection,
    /// Its deadline has just come to its end. It is about to be closed.
    JustEnding,
}

impl Site {
    pub(crate) fn new(timer: &AnyTimer, timeout: Duration) -> Site {
        Site {
            timer: timer.clone(),
            timeout,
            counters: Counters::default(),
            deadlines: Deadlines::new(timer),
        }
    }

    /// Arms the deadline of a new connection. It is listed until the deadline is dropped.
    pub(crate) fn open(&self, id: ConnectionId, peer: SocketAddr) -> AnyDeadline {
        self.deadlines.insert(Listed { id, peer }, self.timeout)
    }

    /// The connections that are there, in the order of their numbers.
    pub(crate) fn connections(&self) -> Vec<Listed> {
        let mut connections = self.deadlines.keys();
        connections.sort_unstable_by_key(|listed| listed.id);
        connections
    }

    /// The time that a connection has left; `None` if there is no such connection, or it is about
    /// to be closed.
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

    /// From now on the connection may be silent for this much longer than the server's timeout.
    ///
    /// `reset_after` would hold until the next heartbeat only. It would also look at the clock
    /// before it takes the lock. If a heartbeat reset the deadline in between, it could move the
    /// deadline to an earlier time than that heartbeat was promised. `set_timeout` counts from the
    /// last reset, whichever that was.
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
}

impl Borrow<ConnectionId> for Listed {
    fn borrow(&self) -> &ConnectionId {
        &self.id
    }
}

impl Hash for Listed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Listed) -> bool {
        self.id == other.id
    }
}

impl Eq for Listed {}

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
                "its deadline has just come to its end, and it is about to be closed"
            }
        })
    }
}
