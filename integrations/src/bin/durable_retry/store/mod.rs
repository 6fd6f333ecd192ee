//! The store: where all jobs lie, and the only judge of who may run one.
//!
//! | state of a job | in the store | what leads out of it |
//! |---|---|---|
//! | waiting | has a due | [`claim`](Store::claim), once its due has passed |
//! | running | the number of its run is *held*; Redis has the end of its lease as the due | [`record`](Store::record) with that number; the end of the lease; for redb the start of another scheduler |
//! | finished | a line in the ledger | nothing |
//!
//! Whether a waiting job is far, or near and so in a scheduler's map too, the store does not know.
//!
//! Each call is one transaction, so a kill comes before or after it. What it then leaves behind:
//!
//! | the process dies | the store has | what follows |
//! |---|---|---|
//! | before a claim is made | the job, waiting | it is run when it is due |
//! | between the claim and the run, or within the run | a held number | the job is run again |
//! | between the end of the run and its record | the same | the same: this is why it is *at least* once |
//! | after the record | the next due, or the line in the ledger | nothing is done twice |
//!
//! So a job is taken off only by the transaction that writes its line, and no run begins but by one
//! that has counted it. A job has one run, and one more for each failure that was recorded, each
//! kill, each lease that was lost, and each run that was given back.
//!
//! Invariant: a record is refused unless it names the number that is held. There is one number at
//! most for each job, and a claim makes a new one. So of two processes that both believe to run a
//! job, one at most can record, and a job has one line in the ledger.

pub(crate) mod redb;
pub(crate) mod redis;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickwheel::WallClock;

use crate::job::{Finished, Job, Next, Run};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Schedule,
    Add,
    Look,
}

/// What a scheduler asks of a store.
pub(crate) trait Store: Send + Sync + 'static {
    /// The clock by which this store judges what is due. All who share a store share it too.
    fn clock(&self) -> impl Future<Output = Result<WallClock>> + Send;

    /// Adds jobs with their dues, and returns how many were new to the store.
    fn add(&self, jobs: Vec<(Job, SystemTime)>) -> impl Future<Output = Result<usize>> + Send;

    /// The jobs that are due before a time, the earliest first, `limit` of them at most.
    fn due_before(
        &self,
        end: SystemTime,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<(String, SystemTime)>>> + Send;

    /// Begins a run, if the job is due.
    fn claim(&self, id: &str) -> impl Future<Output = Result<Claim>> + Send;

    /// How long a claim holds unless it is renewed. `None` where it holds as long as the process.
    fn lease(&self) -> Option<Duration>;

    /// Begins the lease of a run anew. `false` if that run has been overtaken.
    fn renew(&self, run: &Run) -> impl Future<Output = Result<bool>> + Send;

    /// Ends a run.
    fn record(&self, run: &Run, next: &Next) -> impl Future<Output = Result<Recorded>> + Send;

    fn counts(&self) -> impl Future<Output = Result<Counts>> + Send;

    /// All that is finished, in the order in which it was recorded.
    fn ledger(&self) -> impl Future<Output = Result<Vec<Finished>>> + Send;
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Granted(Run),
    /// It is due only then, or somebody runs it: then this is the end of that lease.
    NotYet(SystemTime),
    /// It is finished, or held by this process.
    Gone,
}

/// The answer to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    Finished,
    DueAt(SystemTime),
    /// Another run has the job by now, or it is finished.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) waiting: u64,
    pub(crate) running: u64,
    pub(crate) finished: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            waiting,
            running,
            finished,
        } = self;
        write!(
            f,
            "{waiting} waiting, {running} running, {finished} finished"
        )
    }
}

impl Counts {
    pub(crate) fn is_all_finished(&self) -> bool {
        self.waiting == 0 && self.running == 0
    }
}

/// Milliseconds since 1970, as stores keep dues. Rounds up, so that nothing is due early.
fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn wait_millis(wait: Duration) -> u64 {
    millis(UNIX_EPOCH + wait)
}

fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

#[cfg(test)]
mod tests;
