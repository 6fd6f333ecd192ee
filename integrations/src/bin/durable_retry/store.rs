//! The store: all jobs lie in a file, by redb, and it is the only judge of who may run one.
//!
//! | state of a job | in the store | what leads out of it |
//! |---|---|---|
//! | waiting | has a due | [`claim`](Store::claim), once its due has passed |
//! | running | the number of its run is held | [`record`](Store::record) with that number; the start of another scheduler |
//! | finished | a line in the ledger | nothing |
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
//! Any process may look at the file and add jobs, also while a scheduler runs. There is one
//! scheduler at most: it locks a second file, which the system unlocks when the process dies,
//! however it does. So what is held when a scheduler starts was left by a dead one.
//!
//! Invariant: a record is refused unless it names the number that is held. A job stays in [`JOBS`]
//! for ever. If it waits it is in [`DUES`] too, if it is finished in [`LEDGER`], and if it is in
//! neither then it is held.

use std::error::Error;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use redb::{
    Builder, ConcurrencyMode, Database, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, TableDefinition, WriteTransaction,
};
use serde::{Deserialize, Serialize};
use tickwheel::{Duration, Instant, wall_clock::WallClock};
use tokio::task::spawn_blocking;

use crate::job::{Job, Next};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// An identifier, and when the job is due.
pub(crate) type Due = (String, SystemTime);

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Schedule,
    Add,
    Look,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The job may run.
    Granted(Job),
    /// It is due only then.
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

/// By identifier: a [`Job`] and its [`State`] as JSON.
const JOBS: TableDefinition<'_, &str, &str> = TableDefinition::new("jobs");
/// The dues in milliseconds, and the identifiers.
const DUES: TableDefinition<'_, (u64, &str), ()> = TableDefinition::new("dues");
/// In order: a [`Job`] as JSON, and whether it succeeded.
const LEDGER: TableDefinition<'_, u64, (&str, bool)> = TableDefinition::new("ledger");

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
enum State {
    WaitsUntil(u64),
    Held,
    Finished,
}

/// Reads both clocks. A test has its own.
pub(crate) type Clock = Arc<dyn Fn() -> WallClock + Send + Sync>;

pub(crate) struct Store {
    database: Arc<Database>,
    clock: Clock,
}

impl Store {
    /// Opens the file, or makes it if this is not only to look.
    pub(crate) async fn open(path: PathBuf, purpose: Purpose) -> Result<Store> {
        let shown = path.display().to_string();
        if purpose == Purpose::Look && !path.exists() {
            return Err(format!("there is no store {shown}: `add` and `run` make one").into());
        }
        if purpose == Purpose::Schedule {
            lock(&path)?;
        }
        let mut builder = Builder::new();
        builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
        let database = builder.create(path).map_err(|error| {
            format!("cannot open {shown}: {error}; --store takes a file of this program's own")
        })?;
        Self::begin(database, Arc::new(WallClock::now), purpose).await
    }

    #[cfg(test)]
    pub(crate) async fn in_memory(clock: Clock) -> Store {
        let memory = redb::backends::InMemoryBackend::new();
        let database = Builder::new().create_with_backend(memory).unwrap();
        Self::begin(database, clock, Purpose::Schedule)
            .await
            .unwrap()
    }

    /// Makes the tables. A scheduler makes due again what a dead one has held.
    async fn begin(database: Database, clock: Clock, purpose: Purpose) -> Result<Store> {
        let database = Arc::new(database);
        let store = Store { database, clock };
        let begin = store.write(move |now, jobs| {
            if purpose == Purpose::Schedule {
                for job in jobs.held()? {
                    jobs.set(&job, State::Held, State::WaitsUntil(millis(now)))?;
                }
            }
            Ok(())
        });
        begin.await?;
        Ok(store)
    }

    /// Makes one transaction, which is on the disk when this returns. `step` gets the present time.
    async fn write<T: Send + 'static>(
        &self,
        step: impl FnOnce(SystemTime, &mut Jobs<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = self.database.clone();
        let now = self.clock().system_time(Instant::now());
        let write = spawn_blocking(move || {
            let transaction = database.begin_write()?;
            let answer = step(now, &mut Jobs::open(&transaction)?)?;
            transaction.commit()?;
            Ok(answer)
        });
        write.await?
    }

    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(ReadTransaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = self.database.clone();
        spawn_blocking(move || look(database.begin_read()?)).await?
    }
}

/// Locks a file beside the store until this process dies.
fn lock(store: &Path) -> Result<()> {
    let mut path = store.as_os_str().to_owned();
    path.push(".lock");
    let path = Path::new(&path);
    let shown = path.display();
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| format!("cannot make the lock file {shown}: {error}"))?;
    file.try_lock()
        .map_err(|error| format!("cannot lock {shown}: {error}; is a scheduler running?"))?;
    std::mem::forget(file);
    Ok(())
}

/// All tables, in one transaction.
struct Jobs<'a> {
    jobs: redb::Table<'a, &'static str, &'static str>,
    dues: redb::Table<'a, (u64, &'static str), ()>,
    ledger: redb::Table<'a, u64, (&'static str, bool)>,
}

impl<'a> Jobs<'a> {
    fn open(transaction: &'a WriteTransaction) -> Result<Jobs<'a>> {
        Ok(Jobs {
            jobs: transaction.open_table(JOBS)?,
            dues: transaction.open_table(DUES)?,
            ledger: transaction.open_table(LEDGER)?,
        })
    }

    fn get(&self, id: &str) -> Result<Option<(Job, State)>> {
        let line = self.jobs.get(id)?;
        let line = line.map(|line| serde_json::from_str(line.value()));
        Ok(line.transpose()?)
    }

    fn held(&self) -> Result<Vec<Job>> {
        let mut held = Vec::new();
        for line in self.jobs.iter()? {
            let (job, state): (Job, State) = serde_json::from_str(line?.1.value())?;
            held.extend((state == State::Held).then_some(job));
        }
        Ok(held)
    }

    /// Writes a job with another state, and its due with it.
    fn set(&mut self, job: &Job, before: State, state: State) -> Result<()> {
        if let State::WaitsUntil(due) = before {
            self.dues.remove((due, &*job.id))?;
        }
        if let State::WaitsUntil(due) = state {
            self.dues.insert((due, &*job.id), ())?;
        }
        let line = serde_json::to_string(&(job, state))?;
        self.jobs.insert(&*job.id, &*line)?;
        Ok(())
    }
}

impl Store {
    /// The clock by which the store judges what is due.
    pub(crate) fn clock(&self) -> WallClock {
        (self.clock)()
    }

    /// Adds jobs with their dues, and returns how many were new to the store.
    pub(crate) async fn add(&self, new: Vec<(Job, SystemTime)>) -> Result<usize> {
        self.write(move |_, jobs| {
            let mut added = 0;
            for (job, due) in new {
                if jobs.get(&job.id)?.is_none() {
                    jobs.set(&job, State::Held, State::WaitsUntil(millis(due)))?;
                    added += 1;
                }
            }
            Ok(added)
        })
        .await
    }

    /// The jobs that are due before a time, the earliest first, `limit` of them at most.
    pub(crate) async fn due_before(&self, end: SystemTime, limit: usize) -> Result<Vec<Due>> {
        self.read(move |transaction| {
            let dues = transaction.open_table(DUES)?;
            let near = dues.range(..(millis(end), ""))?.take(limit);
            let near = near.map(|line| {
                let line = line?;
                let (due, id) = line.0.value();
                Ok((id.to_owned(), from_millis(due)))
            });
            near.collect()
        })
        .await
    }

    /// Begins a run, if the job is due.
    pub(crate) async fn claim(&self, id: &str) -> Result<Claim> {
        let id = id.to_owned();
        self.write(move |now, jobs| match jobs.get(&id)? {
            Some((mut job, before @ State::WaitsUntil(due))) if from_millis(due) <= now => {
                job.runs += 1;
                jobs.set(&job, before, State::Held)?;
                Ok(Claim::Granted(job))
            }
            Some((_, State::WaitsUntil(due))) => Ok(Claim::NotYet(from_millis(due))),
            _ => Ok(Claim::Gone),
        })
        .await
    }

    /// Ends the run of a job as it was claimed.
    pub(crate) async fn record(&self, claimed: &Job, next: Next) -> Result<Recorded> {
        let mut job = claimed.clone();
        self.write(move |now, jobs| {
            let is_held = |(held, state): (Job, _)| state == State::Held && held.runs == job.runs;
            if !jobs.get(&job.id)?.is_some_and(is_held) {
                return Ok(Recorded::Refused);
            }
            let due = match next {
                Next::Finished(has_succeeded) => {
                    let (place, line) = (jobs.ledger.len()?, serde_json::to_string(&job)?);
                    jobs.ledger.insert(place, (&*line, has_succeeded))?;
                    jobs.set(&job, State::Held, State::Finished)?;
                    return Ok(Recorded::Finished);
                }
                Next::Failed(wait) => {
                    job.failures += 1;
                    millis(now + wait)
                }
                Next::GivenBack => millis(now),
            };
            jobs.set(&job, State::Held, State::WaitsUntil(due))?;
            Ok(Recorded::DueAt(from_millis(due)))
        })
        .await
    }

    /// How many jobs wait, run and are finished.
    pub(crate) async fn counts(&self) -> Result<[u64; 3]> {
        self.read(|transaction| {
            let waiting = transaction.open_table(DUES)?.len()?;
            let finished = transaction.open_table(LEDGER)?.len()?;
            let running = transaction.open_table(JOBS)?.len()? - waiting - finished;
            Ok([waiting, running, finished])
        })
        .await
    }

    /// All that is finished, in the order in which it was recorded, and whether it succeeded.
    pub(crate) async fn ledger(&self) -> Result<Vec<(Job, bool)>> {
        self.read(|transaction| {
            let ledger = transaction.open_table(LEDGER)?;
            let lines = ledger.iter()?.map(|line| {
                let line = line?;
                let (job, has_succeeded) = line.1.value();
                Ok((serde_json::from_str(job)?, has_succeeded))
            });
            lines.collect()
        })
        .await
    }
}

/// Milliseconds since 1970, as stores keep dues. Rounds up, so that nothing is due early.
fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

#[cfg(test)]
mod tests;
