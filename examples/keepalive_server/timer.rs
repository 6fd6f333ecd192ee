//! The timer that the server and its clients wait by: tickwheel's or tokio's own.
//!
//! Invariant: once one is chosen, nothing in the program waits by the other. So two runs that
//! differ in this choice alone compare the timers.

use std::fmt;
use std::future::Future;
use std::io;

use clap::ValueEnum;
use tickwheel::{Duration, Instant, Metrics, Timer};

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
            TimerKind::Tickwheel => AnyTimer::Tickwheel(Timer::new()),
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
