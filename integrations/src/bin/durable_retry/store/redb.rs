//! Jobs in a file, by redb: the store of one machine.
//!
//! Any process may look at the file and add jobs, also while a scheduler runs. There is one
//! scheduler at most: it locks a second file, which the system unlocks when the process dies,
//! however it does. So what is held when a scheduler starts was left by a dead one, and no lease is
//! needed.
//!
//! Invariant: a job stays in [`JOBS`] for ever. If it waits it is in [`DUES`] too, if it is
//! finished in [`LEDGER`], and if it is in neither then it is held.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use redb::{
    Builder, ConcurrencyMode, Database, ReadTransaction, ReadableDatabase, ReadableTable,
    ReadableTableMetadata, TableDefinition, WriteTransaction,
};
use serde::{Deserialize, Serialize};
use tickwheel::{Duration, Instant, WallClock};
use tokio::task::spawn_blocking;

use super::{Claim, Counts, Purpose, Recorded, Result, Store, from_millis, millis};
use crate::job::{Finished, Job, Next, Run};

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

pub(crate) struct RedbStore {
    database: Arc<Database>,
    clock: Clock,
}

impl RedbStore {
    /// Opens the file, or makes it if this is not only to look.
    pub(crate) async fn open(path: PathBuf, purpose: Purpose) -> Result<RedbStore> {
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
    pub(crate) async fn in_memory(clock: Clock) -> RedbStore {
        let memory = redb::backends::InMemoryBackend::new();
        let database = Builder::new().create_with_backend(memory).unwrap();
        Self::begin(database, clock, Purpose::Schedule)
            .await
            .unwrap()
    }

    /// Makes the tables. A scheduler makes due again what a dead one has held.
    async fn begin(database: Database, clock: Clock, purpose: Purpose) -> Result<RedbStore> {
        let database = Arc::new(database);
        let store = RedbStore { database, clock };
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
            (self.clock)().system_time(Instant::now()),
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
    file.try_lock().map_err(|error| {
        let hint = "is a scheduler running? Several share their work by --store redis://HOST";
        format!("cannot lock {shown}: {error}; {hint}")
    })?;
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

impl Store for RedbStore {
    async fn clock(&self) -> Result<WallClock> {
        Ok((self.clock)())
    }

    async fn add(&self, new: Vec<(Job, SystemTime)>) -> Result<usize> {
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

    async fn due_before(&self, end: SystemTime, limit: usize) -> Result<Vec<(String, SystemTime)>> {
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

    async fn claim(&self, id: &str) -> Result<Claim> {
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

    fn lease(&self) -> Option<Duration> {
        None
    }

    async fn renew(&self, _: &Run) -> Result<bool> {
        Ok(true)
    }

    async fn record(&self, run: &Run, next: &Next) -> Result<Recorded> {
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

    async fn counts(&self) -> Result<Counts> {
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

    async fn ledger(&self) -> Result<Vec<Finished>> {
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
