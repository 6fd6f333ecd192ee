//! The ways in which servers close idle connections. The clients go by tokio's timers in each.

use std::sync::{Arc, Mutex};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use tickwheel::{Duration, Instant};
use tokio::time::sleep_until;

/// How the server finds that a connection is idle. The first line is the name in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// a last-seen time and tokio's sleep
    LastSeen,
    /// `select!` of the read and a pinned sleep
    Select,
    /// the same, `biased`, the read first
    Biased,
    /// `timeout(IDLE, read)`, with tokio
    Timeout,
    /// the same, after a change of `use`
    ChangedUse,
    /// `IdleTimeout`
    IdleTimeout,
    /// `Deadline`
    Deadline,
}

impl Way {
    /// As `--way` takes it.
    pub(crate) fn name(self) -> String {
        self.value().get_name().to_string()
    }

    /// As the table has it.
    pub(crate) fn title(self) -> String {
        let value = self.value();
        let help = value.get_help().map(ToString::to_string);
        help.unwrap_or_default()
    }

    fn value(self) -> PossibleValue {
        self.to_possible_value().expect("no way is skipped")
    }

    /// Whether a pause of the process closes no live connection.
    pub(crate) fn survives_a_pause(self) -> bool {
        matches!(self, Way::IdleTimeout | Way::Deadline)
    }
}

/// A deadline on tokio's timer, as it is written by hand. A heartbeat only writes the time. When
/// the sleep ends, the task that waits looks at the time, and sleeps on if it has moved.
#[derive(Clone)]
pub(crate) struct LastSeen {
    timeout: Duration,
    /// `None` once the deadline has expired.
    at: Arc<Mutex<Option<Instant>>>,
}

impl LastSeen {
    pub(crate) fn new(timeout: Duration) -> LastSeen {
        let at = Arc::new(Mutex::new(Some(Instant::now())));
        LastSeen { timeout, at }
    }

    pub(crate) async fn expired(&self) {
        while let Some(due) = self.look() {
            sleep_until(due).await;
        }
    }

    /// When to look again. `None` if the deadline has expired.
    fn look(&self) -> Option<Instant> {
        let mut at = self.at.lock().expect("nothing panics under it");
        let due = at.map(|at| at + self.timeout);
        let still_ahead = due.filter(|due| Instant::now() < *due);
        *at = at.filter(|_| still_ahead.is_some());
        still_ahead
    }

    /// The client was seen. `false` if the deadline has expired.
    pub(crate) fn reset(&self) -> bool {
        let mut at = self.at.lock().expect("nothing panics under it");
        *at = at.map(|_| Instant::now());
        at.is_some()
    }
}
