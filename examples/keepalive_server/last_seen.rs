//! A deadline on tokio's own timer, written by hand: a sleep, and a last-seen time.
//!
//! A heartbeat only writes the time. When the sleep ends, the task that waits looks at the time. If
//! the time plus the timeout lies ahead, it sleeps until then. Otherwise the deadline has expired.
//!
//! Invariant: the state leaves *pending* once, under its lock. So each call that says `true` did
//! what it says, and no deadline expires before its timeout has passed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tickwheel::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::sleep_until;

use crate::deadlines::Outcome;

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
