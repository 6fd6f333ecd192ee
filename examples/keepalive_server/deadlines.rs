//! The connections' deadlines by number, on either timer: one set of calls for both.
//!
//! Invariant: a call gives the same answer and has the same effect on both timers. What the
//! documentation of `DeadlineMap`, `KeyedDeadline` and `ResetHandle` says holds here, but for one
//! thing: on tokio's timer a stall of the process counts against a deadline.

use tickwheel::{DeadlineMap, Duration, KeyedDeadline, ResetHandle};

use crate::last_seen::LastSeen;
use crate::last_seen_map::{LastSeenMap, ListedLastSeen};
use crate::site::{ConnectionId, Listed};
use crate::timer::AnyTimer;

/// The deadlines of all connections.
pub(crate) enum Deadlines {
    Tickwheel(DeadlineMap<Listed>),
    Tokio(LastSeenMap),
}

/// The deadline of one connection, for the task that awaits it.
pub(crate) enum AnyDeadline {
    Tickwheel(KeyedDeadline<Listed>),
    Tokio(ListedLastSeen),
}

/// The same deadline, for all that act on it.
#[derive(Clone)]
pub(crate) enum AnyHandle {
    Tickwheel(ResetHandle),
    Tokio(LastSeen),
}

/// How a deadline came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Expired,
    Cancelled,
}

impl Deadlines {
    pub(crate) fn new(timer: &AnyTimer) -> Deadlines {
        match timer {
            AnyTimer::Tickwheel(timer) => Deadlines::Tickwheel(DeadlineMap::new(timer)),
            AnyTimer::Tokio => Deadlines::Tokio(LastSeenMap::default()),
        }
    }

    pub(crate) fn insert(&self, key: Listed, timeout: Duration) -> AnyDeadline {
        match self {
            Deadlines::Tickwheel(map) => {
                let deadline = map.insert(key, timeout);
                AnyDeadline::Tickwheel(deadline.expect("the map has no limit and is never closed"))
            }
            Deadlines::Tokio(map) => AnyDeadline::Tokio(map.insert(key, timeout)),
        }
    }

    /// `None` for a number that is not there; a deadline that is no longer pending is.
    pub(crate) fn handle(&self, id: ConnectionId) -> Option<AnyHandle> {
        match self {
            Deadlines::Tickwheel(map) => map.handle(&id).map(AnyHandle::Tickwheel),
            Deadlines::Tokio(map) => map.find(id).map(AnyHandle::Tokio),
        }
    }

    /// All connections that are there, in no order.
    pub(crate) fn keys(&self) -> Vec<Listed> {
        match self {
            Deadlines::Tickwheel(map) => map.keys(),
            Deadlines::Tokio(map) => map.keys(),
        }
    }

    /// Takes all out, and says how many deadlines it cancelled.
    pub(crate) fn drain(&self) -> usize {
        match self {
            Deadlines::Tickwheel(map) => map.drain().len(),
            Deadlines::Tokio(map) => map.drain(),
        }
    }
}

impl AnyDeadline {
    pub(crate) async fn outcome(&mut self) -> Outcome {
        match self {
            AnyDeadline::Tickwheel(deadline) => match deadline.await {
                Ok(()) => Outcome::Expired,
                Err(_) => Outcome::Cancelled,
            },
            AnyDeadline::Tokio(listed) => listed.deadline.outcome().await,
        }
    }

    pub(crate) fn handle(&self) -> AnyHandle {
        match self {
            AnyDeadline::Tickwheel(deadline) => AnyHandle::Tickwheel(deadline.handle()),
            AnyDeadline::Tokio(listed) => AnyHandle::Tokio(listed.deadline.clone()),
        }
    }
}

impl AnyHandle {
    pub(crate) fn reset(&self) -> bool {
        match self {
            AnyHandle::Tickwheel(handle) => handle.reset(),
            AnyHandle::Tokio(deadline) => deadline.reset(),
        }
    }

    pub(crate) fn cancel(&self) -> bool {
        match self {
            AnyHandle::Tickwheel(handle) => handle.cancel(),
            AnyHandle::Tokio(deadline) => deadline.cancel(),
        }
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) -> bool {
        match self {
            AnyHandle::Tickwheel(handle) => handle.set_timeout(timeout),
            AnyHandle::Tokio(deadline) => deadline.set_timeout(timeout),
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        match self {
            AnyHandle::Tickwheel(handle) => handle.timeout(),
            AnyHandle::Tokio(deadline) => deadline.timeout(),
        }
    }

    pub(crate) fn remaining(&self) -> Option<Duration> {
        match self {
            AnyHandle::Tickwheel(handle) => handle.remaining(),
            AnyHandle::Tokio(deadline) => deadline.remaining(),
        }
    }
}
