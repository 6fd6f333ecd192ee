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
use std::fmt;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use redb::{
    Builder, ConcurrencyMode, Database, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, TableDefinition, WriteTransaction,
};
use serde::{Deserialize, Serialize};
use tickwheel::{Duration, Instant, WallClock};
use tokio::task::spawn_blocking;

use crate::job::{Finished, Job, Next, Run};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

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
    Granted(Run),
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

/// By identifier: a [`Line`] as JSON.
const JOBS: TableDefinition<'_, &str, &str> = TableDefinition::new("jobs");
/// The dues in milliseconds, and the identifiers.
const DUES: TableDefinition<'_, (u64, &str), ()> = TableDefinition::new("dues");
/// In order: a [`Finished`] as JSON.
const LEDGER: TableDefinition<'_, u64, &str> = TableDefinition::new("ledger");

#[derive(Serialize, Deserialize)]
struct Line {
    job: Job,
    runs: u64,
    failures: usize,
    state: State,
}

#[derive(PartialEq, Serialize, Deserialize)]
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
        let begin = store.write(move |now, jobs, _| {
            if purpose == Purpose::Schedule {
                for (id, mut line) in jobs.held()? {
                    jobs.set_state(&id, &mut line, State::WaitsUntil(millis(now)))?;
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
        step: impl FnOnce(SystemTime, &mut Jobs<'_>, &mut Ledger<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (database, now) = (
            self.database.clone(),
            self.clock().system_time(Instant::now()),
        );
        let write = spawn_blocking(move || {
            let transaction = database.begin_write()?;
            let answer = {
                let mut ledger = transaction.open_table(LEDGER)?;
                step(now, &mut Jobs::open(&transaction)?, &mut ledger)?
            };
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

type Ledger<'a> = redb::Table<'a, u64, &'static str>;

/// Jobs and their dues, in one transaction.
struct Jobs<'a> {
    lines: redb::Table<'a, &'static str, &'static str>,
    dues: redb::Table<'a, (u64, &'static str), ()>,
}

impl<'a> Jobs<'a> {
    fn open(transaction: &'a WriteTransaction) -> Result<Jobs<'a>> {
        let lines = transaction.open_table(JOBS)?;
        let dues = transaction.open_table(DUES)?;
        Ok(Jobs { lines, dues })
    }

    fn get(&self, id: &str) -> Result<Option<Line>> {
        let line = self.lines.get(id)?;
        let line = line.map(|line| serde_json::from_str(line.value()));
        Ok(line.transpose()?)
    }

    fn held(&self) -> Result<Vec<(String, Line)>> {
        let mut held = Vec::new();
        for line in self.lines.iter()? {
            let (id, line) = line?;
            let line: Line = serde_json::from_str(line.value())?;
            if line.state == State::Held {
                held.push((id.value().to_owned(), line));
            }
        }
        Ok(held)
    }

    /// Writes a line with another state, and its due with it.
    fn set_state(&mut self, id: &str, line: &mut Line, state: State) -> Result<()> {
        if let State::WaitsUntil(due) = line.state {
            self.dues.remove((due, id))?;
        }
        if let State::WaitsUntil(due) = state {
            self.dues.insert((due, id), ())?;
        }
        line.state = state;
        self.lines.insert(id, &*serde_json::to_string(line)?)?;
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
        self.write(move |_, jobs, _| {
            let mut added = 0;
            for (job, due) in new {
                let id = job.id.clone();
                if jobs.get(&id)?.is_none() {
                    let (runs, failures, state) = (0, 0, State::Held);
                    let mut line = Line {
                        job,
                        runs,
                        failures,
                        state,
                    };
                    jobs.set_state(&id, &mut line, State::WaitsUntil(millis(due)))?;
                    added += 1;
                }
            }
            Ok(added)
        })
        .await
    }

    /// The jobs that are due before a time, the earliest first, `limit` of them at most.
    pub(crate) async fn due_before(
        &self,
        end: SystemTime,
        limit: usize,
    ) -> Result<Vec<(String, SystemTime)>> {
        self.read(move |transaction| {
            let mut near = Vec::new();
            for line in transaction
                .open_table(DUES)?
                .range(..(millis(end), ""))?
                .take(limit)
            {
                let line = line?;
                let (due, id) = line.0.value();
                near.push((id.to_owned(), from_millis(due)));
            }
            Ok(near)
        })
        .await
    }

    /// Begins a run, if the job is due.
    pub(crate) async fn claim(&self, id: &str) -> Result<Claim> {
        let id = id.to_owned();
        self.write(move |now, jobs, _| {
            let Some(mut line) = jobs.get(&id)? else {
                return Ok(Claim::Gone);
            };
            match line.state {
                State::WaitsUntil(due) if from_millis(due) <= now => {}
                State::WaitsUntil(due) => return Ok(Claim::NotYet(from_millis(due))),
                State::Held | State::Finished => return Ok(Claim::Gone),
            }
            line.runs += 1;
            jobs.set_state(&id, &mut line, State::Held)?;
            let (job, number, failures) = (line.job, line.runs, line.failures);
            Ok(Claim::Granted(Run {
                job,
                number,
                failures,
            }))
        })
        .await
    }

    /// Ends a run.
    pub(crate) async fn record(&self, run: &Run, next: &Next) -> Result<Recorded> {
        let (id, number, next) = (run.job.id.clone(), run.number, next.clone());
        self.write(move |now, jobs, ledger| {
            let line = jobs.get(&id)?;
            let held = line.filter(|line| line.state == State::Held && line.runs == number);
            let Some(mut line) = held else {
                return Ok(Recorded::Refused);
            };
            if let Next::Finished(finished) = next {
                ledger.insert(ledger.len()?, &*serde_json::to_string(&finished)?)?;
                jobs.set_state(&id, &mut line, State::Finished)?;
                return Ok(Recorded::Finished);
            }
            let (wait, failures) = next.wait();
            line.failures += failures;
            let due = millis(now + wait);
            jobs.set_state(&id, &mut line, State::WaitsUntil(due))?;
            Ok(Recorded::DueAt(from_millis(due)))
        })
        .await
    }

    pub(crate) async fn counts(&self) -> Result<Counts> {
        self.read(|transaction| {
            let waiting = transaction.open_table(DUES)?.len()?;
            let finished = transaction.open_table(LEDGER)?.len()?;
            let running = transaction.open_table(JOBS)?.len()? - waiting - finished;
            Ok(Counts {
                waiting,
                running,
                finished,
            })
        })
        .await
    }

    /// All that is finished, in the order in which it was recorded.
    pub(crate) async fn ledger(&self) -> Result<Vec<Finished>> {
        self.read(|transaction| {
            let ledger = transaction.open_table(LEDGER)?;
            let lines = ledger.iter()?;
            lines
                .map(|line| Ok(serde_json::from_str(line?.1.value())?))
                .collect()
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
