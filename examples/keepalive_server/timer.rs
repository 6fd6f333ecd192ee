//! The timer that the server and its clients wait by: tickwheel's or tokio's own.
//!
//! Invariant: once one is chosen, nothing in the program waits by the other. So two runs that
//! differ in this choice alone compare the timers.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io, mem};

use clap::ValueEnum;
use tickwheel::{DeadlineMap, Duration, Instant, KeyedDeadline, Metrics, ResetHandle, Timer};
use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::server::{ConnectionId, Listed};

/// Which timer to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimerKind {
    /// This crate's, with a deadline in a `DeadlineMap` for each connection
    Tickwheel,
    /// Tokio's own, with a sleep and a last-seen time for each connection
    Tokio,
}

/// A timer of either kind.
#[derive(Clone, Debug)]
pub(crate) enum AnyTimer {
    Tickwheel(Timer),
    /// It belongs to the runtime, so there is nothing to hold.
    Tokio,
}

impl AnyTimer {
    pub(crate) fn new(kind: TimerKind) -> AnyTimer {
        match kind {
            TimerKind::Tickwheel => AnyTimer::Tickwheel(
                Timer::builder()
                    .name("keepalives")
                    .build()
                    .expect("a runtime runs this, and the settings are the defaults"),
            ),
            TimerKind::Tokio => AnyTimer::Tokio,
        }
    }

    pub(crate) fn kind(&self) -> TimerKind {
        match self {
            AnyTimer::Tickwheel(_) => TimerKind::Tickwheel,
            AnyTimer::Tokio => TimerKind::Tokio,
        }
    }

    /// What the timer has done; tokio's does not tell.
    pub(crate) fn metrics(&self) -> Option<Metrics> {
        match self {
            AnyTimer::Tickwheel(timer) => Some(timer.metrics()),
            AnyTimer::Tokio => None,
        }
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        match self {
            AnyTimer::Tickwheel(timer) => timer.sleep(duration).await,
            AnyTimer::Tokio => tokio::time::sleep(duration).await,
        }
    }

    pub(crate) async fn sleep_until(&self, end: Instant) {
        match self {
            AnyTimer::Tickwheel(timer) => timer.sleep_until(end).await,
            AnyTimer::Tokio => tokio::time::sleep_until(end).await,
        }
    }

    /// An error is that the time was over first.
    pub(crate) async fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> io::Result<F::Output> {
        match self {
            AnyTimer::Tickwheel(timer) => Ok(timer.timeout(duration, future).await?),
            AnyTimer::Tokio => Ok(tokio::time::timeout(duration, future).await?),
        }
    }

    /// An error is that the time was over first.
    pub(crate) async fn timeout_at<F: Future>(
        &self,
        end: Instant,
        future: F,
    ) -> io::Result<F::Output> {
        match self {
            AnyTimer::Tickwheel(timer) => Ok(timer.timeout_at(end, future).await?),
            AnyTimer::Tokio => Ok(tokio::time::timeout_at(end, future).await?),
        }
    }
}

impl fmt::Display for TimerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimerKind::Tickwheel => "tickwheel",
            TimerKind::Tokio => "tokio",
        })
    }
}

// The connections' deadlines by number, on either timer: one set of calls for both.
//
// Invariant: a call gives the same answer and has the same effect on both timers. What the
// documentation of `DeadlineMap`, `KeyedDeadline` and `ResetHandle` says holds here, but for one
// thing: on tokio's timer a stall of the process counts against a deadline.

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

// The deadlines on tokio's own timer, by number: what `DeadlineMap` is to tickwheel.
//
// Invariant: a number is there while its `ListedLastSeen` lives, unless a drain took it out.

#[derive(Clone, Default)]
pub(crate) struct LastSeenMap(Arc<Mutex<HashMap<Listed, LastSeen>>>);

/// A deadline that is in the map; dropping it takes it out.
pub(crate) struct ListedLastSeen {
    pub(crate) deadline: LastSeen,
    id: ConnectionId,
    map: LastSeenMap,
}

impl LastSeenMap {
    pub(crate) fn insert(&self, key: Listed, timeout: Duration) -> ListedLastSeen {
        let deadline = LastSeen::new(timeout);
        self.entries().insert(key, deadline.clone());
        ListedLastSeen {
            deadline,
            id: key.id,
            map: self.clone(),
        }
    }

    pub(crate) fn find(&self, id: ConnectionId) -> Option<LastSeen> {
        self.entries().get(&id).cloned()
    }

    pub(crate) fn keys(&self) -> Vec<Listed> {
        self.entries().keys().copied().collect()
    }

    /// Takes all out, and says how many deadlines it cancelled.
    pub(crate) fn drain(&self) -> usize {
        let drained = mem::take(&mut *self.entries());
        drained
            .values()
            .filter(|deadline| deadline.cancel())
            .count()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Listed, LastSeen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ListedLastSeen {
    fn drop(&mut self) {
        self.map.entries().remove(&self.id);
    }
}

// A deadline on tokio's own timer, written by hand: a sleep, and a last-seen time.
//
// A heartbeat only writes the time. When the sleep ends, the task that waits looks at the time. If
// the time plus the timeout lies ahead, it sleeps until then. Otherwise the deadline has expired.
//
// Invariant: the state leaves *pending* once, under its lock. So each call that says `true` did
// what it says, and no deadline expires before its timeout has passed.

/// A deadline, for the one task that awaits it and for all that act on it.
#[derive(Clone)]
pub(crate) struct LastSeen(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Told when the sleep may be too long: after a cancel, or a new timeout.
    changed: Notify,
}

struct State {
    last_seen: Instant,
    timeout: Duration,
    /// None while it is pending.
    outcome: Option<Outcome>,
}

impl LastSeen {
    pub(crate) fn new(timeout: Duration) -> LastSeen {
        LastSeen(Arc::new(Shared {
            state: Mutex::new(State {
                last_seen: Instant::now(),
                timeout,
                outcome: None,
            }),
            changed: Notify::new(),
        }))
    }

    /// Waits until the deadline has expired or was cancelled. One task at a time may do so.
    pub(crate) async fn outcome(&self) -> Outcome {
        loop {
            let due = match self.look() {
                Look::Ended(outcome) => return outcome,
                Look::PendingUntil(due) => due,
            };
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.0.changed.notified() => {}
            }
        }
    }

    /// The client was seen. `false` if the deadline has expired or was cancelled.
    pub(crate) fn reset(&self) -> bool {
        self.while_pending(|state| state.last_seen = Instant::now())
    }

    pub(crate) fn cancel(&self) -> bool {
        let cancelled = self.while_pending(|state| state.outcome = Some(Outcome::Cancelled));
        self.0.changed.notify_one();
        cancelled
    }

    /// Changes the timeout, counted from when the client was last seen.
    pub(crate) fn set_timeout(&self, timeout: Duration) -> bool {
        let set = self.while_pending(|state| state.timeout = timeout);
        self.0.changed.notify_one();
        set
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.state().timeout
    }

    /// The time that is left; `None` once it is not pending.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let state = self.state();
        match state.outcome {
            None => Some(state.due().saturating_duration_since(Instant::now())),
            Some(_) => None,
        }
    }

    /// Looks whether the time has passed, and lets the deadline expire if it has.
    fn look(&self) -> Look {
        let mut state = self.state();
        if let Some(outcome) = state.outcome {
            return Look::Ended(outcome);
        }
        if Instant::now() < state.due() {
            return Look::PendingUntil(state.due());
        }
        state.outcome = Some(Outcome::Expired);
        Look::Ended(Outcome::Expired)
    }

    fn while_pending(&self, change: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state();
        let is_pending = state.outcome.is_none();
        if is_pending {
            change(&mut state);
        }
        is_pending
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

enum Look {
    Ended(Outcome),
    PendingUntil(Instant),
}

impl State {
    fn due(&self) -> Instant {
        self.last_seen + self.timeout
    }
}
