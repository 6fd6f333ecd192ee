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
//! - *The wall clock jumps.* What is in the map is due at the wrong instant. If that is too early,
//!   the claim is refused and the job armed anew. If it is too late, the next load moves it.
//! - *More is near than one load takes.* The earliest are loaded, and the rest when those are gone.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use backon::{ExponentialBuilder, Retryable};
use clap::Args;
use futures::FutureExt;
use tickwheel::{DelayMap, Duration, Expirations, Instant, Timer, WallClock};
use tickwheel_integrations::{parse_duration, parse_period};
use tokio::sync::{Notify, Semaphore};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::job::{Job, Next, Run};
use crate::output::Output;
use crate::runner::Runner;
use crate::store::{Claim, Recorded, Result, Store};

/// One load takes no more jobs than this.
const NEAR_LIMIT: usize = 10_000;

/// The store is looked at this often at least. Others may have added jobs, or the clock jumped.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// A wall clock that moves by more than this against the clock of the timers has jumped.
const JUMP: Duration = Duration::from_millis(100);

/// What the map holds: the due of each job, as the store has it.
type Near = DelayMap<String, SystemTime>;

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
}

pub(crate) struct Scheduler {
    store: Store,
    runner: Runner,
    settings: Settings,
    output: Output,
    near: Near,
    workers: Arc<Semaphore>,
    load_now: Notify,
    /// Whether the last load has left near jobs in the store.
    has_left: AtomicBool,
    /// Whether it is to end when all jobs are finished.
    may_finish: AtomicBool,
    all_finished: CancellationToken,
    give_back: CancellationToken,
}

impl Scheduler {
    pub(crate) fn new(
        store: Store,
        runner: Runner,
        settings: Settings,
        output: Output,
    ) -> Arc<Self> {
        // The supervisor takes the stream.
        let (near, _) = DelayMap::new(&Timer::current());
        Arc::new(Scheduler {
            store,
            runner,
            output,
            near,
            workers: Arc::new(Semaphore::new(settings.workers.into())),
            load_now: Notify::new(),
            has_left: AtomicBool::new(false),
            may_finish: AtomicBool::new(false),
            all_finished: CancellationToken::new(),
            give_back: CancellationToken::new(),
            settings,
        })
    }

    /// Runs until `end` is ready, or all is finished, and then until each run has ended or was
    /// given back.
    pub(crate) async fn run(self: Arc<Self>, end: impl Future<Output = ()>) -> Result<()> {
        let loader = tokio::spawn(self.clone().keep_loading());
        let supervisor = {
            let scheduler = self.clone();
            tokio::spawn(async move {
                let consume = |due| scheduler.clone().consume(due);
                supervise(&scheduler.near, consume).await;
            })
        };
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
        let all = u32::from(self.settings.workers);
        let idle = || self.workers.acquire_many(all);
        if tickwheel::timeout(self.settings.grace, idle())
            .await
            .is_err()
        {
            self.give_back.cancel();
            let recorded = tickwheel::timeout(LONGEST_PERIOD * 5, idle()).await;
            recorded
                .map_err(|_| "the store does not take back what was running")??
                .forget();
        }
        Ok(())
    }

    /// Adds jobs to the store, and returns how many are new to it.
    pub(crate) async fn add(&self, jobs: Vec<(Job, Duration)>) -> Result<usize> {
        let clock = self.store.clock();
        let now = clock.system_time(Instant::now());
        let dues: Vec<_> = jobs
            .into_iter()
            .map(|(job, delay)| (job, now + delay))
            .collect();
        let added = self.store.add(dues).await?;
        self.load_now.notify_one();
        Ok(added)
    }

    /// Lets it end when all jobs are finished. Nobody here adds any more.
    pub(crate) fn end_when_finished(&self) {
        self.may_finish.store(true, Ordering::Relaxed);
        self.load_now.notify_one();
    }

    /// One line about what there is to do.
    pub(crate) async fn report(&self) -> Result<String> {
        let counts = self.store.counts().await?;
        let near = self.near.len();
        let next = match self.near.first() {
            Some((id, due)) => {
                let left = due.saturating_duration_since(Instant::now()).as_millis();
                format!("next is {id} in {left} ms")
            }
            None => "none is near".to_owned(),
        };
        Ok(format!("{counts}; {near} near; {next}"))
    }

    /// Loads again and again, and moves what is armed after a jump of the wall clock.
    async fn keep_loading(self: Arc<Self>) {
        let period = (self.settings.horizon / 2).clamp(Duration::from_millis(10), LONGEST_PERIOD);
        let mut ticks = tickwheel::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.load_now.notified() => {}
            }
            if let Err(error) = self.load(&mut before).await {
                eprintln!("cannot load what is near, and try again: {error}");
            }
        }
    }

    async fn load(&self, before: &mut Option<WallClock>) -> Result<()> {
        let clock = self.store.clock();
        let jump = before
            .replace(clock)
            .map(|before| clock.jump_since(&before));
        if let Some(jump) = jump.filter(|jump| jump.by() > JUMP) {
            self.output
                .say(format_args!("the wall clock jumped: {jump:?}"));
            let mut dues = Vec::new();
            self.near
                .for_each(|id, due, _| dues.push((id.clone(), *due)));
            for (id, due) in dues {
                self.near.reset_at(&id, clock.instant(due));
            }
        }
        let end = clock.system_time(Instant::now()) + self.settings.horizon;
        let jobs = self.store.due_before(end, NEAR_LIMIT).await?;
        self.has_left
            .store(jobs.len() == NEAR_LIMIT, Ordering::Relaxed);
        for (id, due) in jobs {
            self.arm(id, due, &clock);
        }
        if self.may_finish.load(Ordering::Relaxed) && self.store.counts().await?.is_all_finished() {
            self.all_finished.cancel();
        }
        Ok(())
    }

    /// Puts a job into the map, or gives the one that is there its due. Once the map is closed
    /// there is nothing to be done: the job is in the store.
    fn arm(&self, id: String, due: SystemTime, clock: &WallClock) {
        let _ = self.near.insert_at(id, due, clock.instant(due));
    }

    /// Takes no more off the map than workers are free to claim.
    async fn consume(self: Arc<Self>, mut due: Expirations<String, SystemTime>) {
        while let Ok(worker) = self.workers.clone().acquire_owned().await {
            let Some(expired) = due.recv().await else {
                break;
            };
            let scheduler = self.clone();
            tokio::spawn(async move {
                scheduler.work(expired.key).await;
                drop(worker);
                let waits_for = [&scheduler.may_finish, &scheduler.has_left];
                if scheduler.near.is_empty()
                    && waits_for.iter().any(|it| it.load(Ordering::Relaxed))
                {
                    scheduler.load_now.notify_one();
                }
            });
        }
    }

    /// Claims a job. Whatever fails is tried again after the next load.
    async fn work(&self, id: String) {
        let due_again = match self.store.claim(&id).await {
            Ok(Claim::Granted(run)) => self.run_and_record(&run).await,
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
    async fn run_and_record(&self, run: &Run) -> Option<SystemTime> {
        let (id, number, attempt) = (&run.job.id, run.number, run.attempt());
        self.output
            .say(format_args!("{id}: run {number} begins, attempt {attempt}"));
        let running = AssertUnwindSafe(async { (self.runner)(run.clone()).await }).catch_unwind();
        let (next, how) = tokio::select! {
            result = running => {
                let result = result.unwrap_or_else(|_| Err("the runner panicked".to_owned()));
                let how = match &result {
                    Ok(()) => "is done".to_owned(),
                    Err(error) => format!("failed: {error}"),
                };
                (run.next(result), how)
            }
            () = self.give_back.cancelled() => (Next::GivenBack, "is given back".to_owned()),
        };
        let retries = ExponentialBuilder::new()
            .with_max_times(10)
            .with_max_delay(LONGEST_PERIOD);
        let record = (|| self.store.record(run, &next)).retry(retries);
        let (then, due) = match record.sleep(tickwheel::sleep).await {
            Ok(Recorded::Finished) => ("finished".to_owned(), None),
            Ok(Recorded::DueAt(due)) => (
                format!("due at {}", humantime::format_rfc3339_millis(due)),
                Some(due),
            ),
            Ok(Recorded::Refused) => ("not recorded: it was before".to_owned(), None),
            Err(error) => (format!("not recorded, it will be run again: {error}"), None),
        };
        self.output
            .say(format_args!("{id}: run {number} {how}; {then}"));
        due
    }
}

/// Starts a consumer of the map's stream again whenever it dies, until the map is closed.
///
/// What it had taken off the map and not handed on is in the store, and so in the next load.
async fn supervise<F>(near: &Near, consume: impl Fn(Expirations<String, SystemTime>) -> F)
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
