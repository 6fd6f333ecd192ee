//! Runs jobs when they are due: far ones lie in the store, near ones in a [`DelayMap`] too.
//!
//! | task | what it does |
//! |---|---|
//! | loader | now and then takes what has become near from the store into the map |
//! | consumer | takes what is due from the map's stream, as soon as a worker is free |
//! | supervisor | starts the consumer again when it dies |
//! | worker | claims one job, runs it, and records how that ended |
//!
//! Invariant: the map is a copy, and the store decides. Whatever the map holds too much, late or
//! twice, or has lost with a consumer that died, costs a claim that is refused, or a wait until the
//! next load. It never costs a job or a second run.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A job is loaded while a worker claims it.* It comes out of the map again, and the claim says
//!   when it is due, or that it is gone.
//! - *The wall clock is set.* What is in the map is due at the wrong instant. If that is too early,
//!   the claim is refused and the job armed anew. If it is too late, the next load moves it.
//! - *More is near than one load takes.* The earliest are loaded, and the rest when those are gone.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::SystemTime;

use backon::{ExponentialBuilder, Retryable};
use clap::Args;
use futures::FutureExt;
use humantime::format_rfc3339_millis;
use tickwheel::{DelayMap, Duration, Expirations, Instant, Timer, wall_clock::WallClock};
use tickwheel_integrations::{parse_duration, parse_period, say};
use tokio::sync::{Notify, Semaphore};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::job::{Job, Next};
use crate::runner::Runner;
use crate::store::{Claim, Recorded, Result, Store};

/// One load takes no more jobs than this.
const NEAR_LIMIT: usize = 10_000;

/// The store is looked at this often at least. Others may have added jobs, or the clock jumped.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// The identifiers of near jobs.
type Near = DelayMap<String, ()>;

#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    /// How many jobs run at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) workers: u16,
    /// Jobs that are due within this time are held in memory.
    #[arg(long, default_value = "30s", value_parser = parse_period)]
    pub(crate) horizon: Duration,
    /// How long runs may go on after SIGTERM. What is not done by then is given back.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub(crate) grace: Duration,
    /// End when all jobs are finished.
    #[arg(long)]
    pub(crate) until_finished: bool,
}

pub(crate) struct Scheduler {
    pub(crate) store: Store,
    runner: Runner,
    settings: Settings,
    near: Near,
    workers: Arc<Semaphore>,
    load_now: Notify,
    all_finished: CancellationToken,
    give_back: CancellationToken,
}

impl Scheduler {
    pub(crate) fn new(store: Store, runner: Runner, settings: Settings) -> Arc<Self> {
        // The supervisor takes the stream.
        let (near, _) = DelayMap::new(&Timer::current());
        Arc::new(Scheduler {
            store,
            runner,
            near,
            workers: Arc::new(Semaphore::new(settings.workers.into())),
            load_now: Notify::new(),
            all_finished: CancellationToken::new(),
            give_back: CancellationToken::new(),
            settings,
        })
    }

    /// Runs until `end` is ready, or all is finished, and then until each run has ended or was
    /// given back.
    pub(crate) async fn run(self: Arc<Self>, end: impl Future<Output = ()>) -> Result<()> {
        let loader = tokio::spawn(self.clone().keep_loading());
        let consuming = self.clone();
        let consume = move |due| consuming.clone().consume(due);
        let supervisor = tokio::spawn(supervise(self.near.clone(), consume));
        tokio::select! {
            () = end => {}
            () = self.all_finished.cancelled() => {}
        }
        loader.abort();
        // It may be looking at the store.
        let _ = loader.await;
        // The stream ends, and the consumer and its supervisor with it.
        self.near.close();
        supervisor.await?;
        let idle = || self.workers.acquire_many(self.settings.workers.into());
        let in_time = tickwheel::timeout(self.settings.grace, idle()).await;
        if in_time.is_err() {
            self.give_back.cancel();
            let recorded = tickwheel::timeout(LONGEST_PERIOD * 5, idle()).await;
            drop(recorded.map_err(|_| "the store does not take back what was running")??);
        }
        Ok(())
    }

    /// Loads again and again.
    async fn keep_loading(self: Arc<Self>) {
        let period = (self.settings.horizon / 2).clamp(Duration::from_millis(10), LONGEST_PERIOD);
        let mut ticks = tickwheel::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.load_now.notified() => {}
            }
            if let Err(error) = self.load().await {
                eprintln!("cannot load what is near, and try again: {error}");
            }
        }
    }

    /// What is in the map already gets the instant at which it is due by the present clock.
    async fn load(&self) -> Result<()> {
        let clock = self.store.clock();
        let end = clock.system_time(Instant::now()) + self.settings.horizon;
        for (id, due) in self.store.due_before(end, NEAR_LIMIT).await? {
            self.arm(id, due, &clock);
        }
        if self.settings.until_finished && matches!(self.store.counts().await?, [0, 0, _]) {
            self.all_finished.cancel();
        }
        Ok(())
    }

    /// Puts a job into the map, or gives the one that is there its due. Once the map is closed
    /// there is nothing to be done: the job is in the store.
    fn arm(&self, id: String, due: SystemTime, clock: &WallClock) {
        let _ = self.near.insert_at(id, (), clock.instant(due));
    }

    /// Takes no more off the map than workers are free to claim.
    async fn consume(self: Arc<Self>, mut due: Expirations<String, ()>) {
        while let Ok(worker) = self.workers.clone().acquire_owned().await {
            let Some(expired) = due.recv().await else {
                break;
            };
            let scheduler = self.clone();
            tokio::spawn(async move {
                scheduler.work(expired.key).await;
                drop(worker);
                if scheduler.near.is_empty() {
                    scheduler.load_now.notify_one();
                }
            });
        }
    }

    /// Claims a job. Whatever fails is tried again after the next load.
    async fn work(&self, id: String) {
        let due_again = match self.store.claim(&id).await {
            Ok(Claim::Granted(job)) => self.run_and_record(&job).await,
            Ok(Claim::NotYet(due)) => Some(due),
            Ok(Claim::Gone) => None,
            Err(error) => {
                eprintln!("cannot claim {id}, and try again: {error}");
                None
            }
        };
        let Some(due) = due_again else {
            // It may have been loaded meanwhile.
            self.near.remove(&id);
            return;
        };
        let clock = self.store.clock();
        if due <= clock.system_time(Instant::now()) + self.settings.horizon {
            self.arm(id, due, &clock);
        }
    }

    /// Returns when the job is due again.
    async fn run_and_record(&self, job: &Job) -> Option<SystemTime> {
        let (id, run, attempt) = (&job.id, job.runs, job.attempt());
        say!("{id}: run {run} begins, attempt {attempt}");
        let running = AssertUnwindSafe(async { (self.runner)(job.clone()).await }).catch_unwind();
        let (next, how) = tokio::select! {
            result = running => match result {
                Ok(Ok(())) => (job.next(true), "is done".to_owned()),
                Ok(Err(error)) => (job.next(false), format!("failed: {error}")),
                Err(_) => (job.next(false), "failed: the runner panicked".to_owned()),
            },
            () = self.give_back.cancelled() => (Next::GivenBack, "is given back".to_owned()),
        };
        let retries = ExponentialBuilder::new()
            .with_max_times(10)
            .with_max_delay(LONGEST_PERIOD);
        let record = (|| self.store.record(job, next)).retry(retries);
        let recorded = record.sleep(tickwheel::sleep).await;
        let then = match &recorded {
            Ok(Recorded::Finished) => "finished".to_owned(),
            Ok(Recorded::DueAt(due)) => format!("due at {}", format_rfc3339_millis(*due)),
            Ok(Recorded::Refused) => "not recorded: it was before".to_owned(),
            Err(error) => format!("not recorded, it will be run again: {error}"),
        };
        say!("{id}: run {run} {how}; {then}");
        match recorded {
            Ok(Recorded::DueAt(due)) => Some(due),
            _ => None,
        }
    }
}

/// Starts a consumer of the map's stream again whenever it dies, until the map is closed.
///
/// What it had taken off the map and not handed on is in the store, and so in the next load.
async fn supervise<F>(near: Near, consume: impl Fn(Expirations<String, ()>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    while let Some(due) = near.expirations() {
        match tokio::spawn(consume(due)).await {
            Ok(()) => break,
            Err(died) => eprintln!("the consumer is started again: {died}"),
        }
    }
}

#[cfg(test)]
mod tests;
