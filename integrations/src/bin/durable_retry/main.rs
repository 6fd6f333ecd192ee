//! Runs jobs at their due times, and again with a backoff when they fail. The dues outlive the
//! process.
//!
//! | file | what |
//! |---|---|
//! | `job` | a job, its backoff, its runs |
//! | `store` | jobs in a file: who may run one, and what a kill between two steps leaves |
//! | `scheduler` | near jobs in a `DelayMap`: loads, claims, runs, records |
//! | `runner` | what a run does |
//!
//! Invariant: this file knows what the user asks for, and nothing of how jobs are run. When nobody
//! reads what the program says, it ends at once. That is a kill to the store, and costs as little.

mod job;
mod runner;
mod scheduler;
mod store;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use humantime::format_rfc3339_millis;
use tickwheel::{Duration, Instant};
use tickwheel_integrations::{LONGEST_DURATION, parse_duration, say, shutdown_signal};
use uuid::Uuid;

use job::{Backoff, Job};
use runner::RunnerOptions;
use scheduler::{Scheduler, Settings};
use store::{Purpose, Result, Store};

/// Runs jobs at their due times, and again with a backoff when they fail.
#[derive(Debug, Parser)]
struct Options {
    /// The file in which the jobs lie.
    #[arg(long, global = true, default_value = "durable_retry.redb")]
    store: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs what is due.
    Run {
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        runner: RunnerOptions,
        /// Add so many jobs, `demo-0` and so on, unless they are there.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        demo: u32,
        #[command(flatten)]
        backoff: Backoff,
    },
    /// Adds a job. It is safe to say it twice with the same --id.
    Add {
        /// What is to be done.
        payload: String,
        /// The job is due after this time.
        #[arg(long = "in", value_name = "DELAY", default_value = "0s", value_parser = parse_duration)]
        delay: Duration,
        /// Names the job. The default is an identifier that no other job has.
        #[arg(long)]
        id: Option<String>,
        #[command(flatten)]
        backoff: Backoff,
    },
    /// Tells how many jobs there are, and which is the next.
    Status,
    /// Lists the jobs that are finished, in the order in which they were.
    Ledger,
}

fn main() -> ExitCode {
    tickwheel_integrations::run(perform(Options::parse()))
}

async fn perform(options: Options) -> Result<()> {
    let purpose = match options.command {
        Command::Run { .. } => Purpose::Schedule,
        Command::Add { .. } => Purpose::Add,
        Command::Status | Command::Ledger => Purpose::Look,
    };
    let store = Store::open(options.store, purpose).await?;
    let now = store.clock().system_time(Instant::now());
    match options.command {
        Command::Run {
            settings,
            runner,
            demo,
            backoff,
        } => {
            let demo = (0..demo).map(|number| {
                let id = format!("demo-{number}");
                (Job::new(id, "demo".to_owned(), backoff.clone()), now)
            });
            let added = store.add(demo.collect()).await?;
            let scheduler = Scheduler::new(store, runner.runner(), settings);
            say!("ready, {added} jobs added");
            scheduler.clone().run(shutdown_signal()).await?;
            say!("ended: {}", counts(&scheduler.store).await?);
        }
        Command::Add {
            payload,
            delay,
            id,
            backoff,
        } => {
            let id = id.unwrap_or_else(|| Uuid::now_v7().to_string());
            let due = now + delay;
            let job = Job::new(id.clone(), payload, backoff);
            match store.add(vec![(job, due)]).await? {
                0 => say!("{id} is known already"),
                _ => say!("{id} is due at {}", format_rfc3339_millis(due)),
            }
        }
        Command::Status => {
            say!("{}", counts(&store).await?);
            // Later than any due can be.
            let far = now + 3 * LONGEST_DURATION;
            match store.due_before(far, 1).await?.first() {
                Some((id, due)) => say!("next is {id}, due at {}", format_rfc3339_millis(*due)),
                None => say!("no job waits"),
            }
        }
        Command::Ledger => {
            for (job, has_succeeded) in store.ledger().await? {
                let how = if has_succeeded { "done" } else { "failed" };
                let (id, attempts, runs) = (&job.id, job.attempt(), job.runs);
                say!("{id} {how} attempts={attempts} runs={runs}");
            }
        }
    }
    Ok(())
}

async fn counts(store: &Store) -> Result<String> {
    let [waiting, running, finished] = store.counts().await?;
    Ok(format!(
        "{waiting} waiting, {running} running, {finished} finished"
    ))
}
