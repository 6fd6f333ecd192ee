//! Runs jobs at their due times, and again with a backoff when they fail. The dues outlive the
//! process.
//!
//! | file | what |
//! |---|---|
//! | `job` | a job, its backoff, its runs |
//! | `store` | jobs in a file: who may run one, and what a kill between two steps leaves |
//! | `scheduler` | near jobs in a `DelayMap`: loads, claims, runs, records |
//! | `runner`, `output` | what a run does; what is printed |
//!
//! Invariant: this file knows what the user asks for, and nothing of how jobs are run.

mod job;
mod output;
mod runner;
mod scheduler;
mod store;

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand};
use tickwheel::{Duration, Instant};
use tickwheel_integrations::{parse_period, shutdown_signal};
use tokio::sync::mpsc;
use uuid::Uuid;

use job::{Backoff, Job, parse_delay};
use output::Output;
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
    /// Runs what is due, and adds what is read from stdin: lines such as `5s mail bob`.
    Run(RunOptions),
    /// Adds a job. It is safe to say it twice with the same --id.
    Add(AddOptions),
    /// Tells how many jobs there are, and which is the next.
    Status,
    /// Lists the jobs that are finished, in the order in which they were.
    Ledger,
}

#[derive(Debug, Args)]
struct RunOptions {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    runner: RunnerOptions,
    /// Add so many jobs, `demo-0` and so on, unless they are there.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    demo: u32,
    /// End when stdin has ended and all jobs are finished.
    #[arg(long)]
    until_finished: bool,
    /// Print how much there is to do, this often.
    #[arg(long, value_name = "PERIOD", value_parser = parse_period)]
    report: Option<Duration>,
    #[command(flatten)]
    backoff: Backoff,
}

#[derive(Debug, Args)]
struct AddOptions {
    /// What is to be done.
    payload: String,
    /// The job is due after this time.
    #[arg(long = "in", value_name = "DELAY", default_value = "0s", value_parser = parse_delay)]
    delay: Duration,
    /// Names the job. The default is an identifier that no other job has.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    id: Option<String>,
    #[command(flatten)]
    backoff: Backoff,
}

#[tokio::main]
async fn main() -> ExitCode {
    match perform(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn perform(options: Options) -> Result<()> {
    let purpose = match options.command {
        Command::Run(_) => Purpose::Schedule,
        Command::Add(_) => Purpose::Add,
        Command::Status | Command::Ledger => Purpose::Look,
    };
    let store = Store::open(options.store, purpose).await?;
    let output = Output::default();
    let now = store.clock().system_time(Instant::now());
    match options.command {
        Command::Run(options) => return run(store, options, &output).await,
        Command::Add(options) => {
            let job = job(options.id, options.payload, &options.backoff.check()?);
            let (id, due) = (job.id.clone(), now + options.delay);
            match store.add(vec![(job, due)]).await? {
                0 => output.say(format_args!("{id} is known already")),
                _ => {
                    let due = humantime::format_rfc3339_millis(due);
                    output.say(format_args!("{id} is due at {due}"));
                }
            }
        }
        Command::Status => {
            output.say(store.counts().await?);
            // Later than any due can be.
            let far = now + 1_000 * Duration::from_secs(365 * 24 * 60 * 60);
            match store.due_before(far, 1).await?.first() {
                Some((id, due)) => {
                    let due = humantime::format_rfc3339_millis(*due);
                    output.say(format_args!("next is {id}, due at {due}"));
                }
                None => output.say("no job waits"),
            }
        }
        Command::Ledger => {
            for line in store.ledger().await? {
                let how = if line.succeeded { "done" } else { "failed" };
                let (id, attempts, runs) = (line.id, line.attempts, line.runs);
                output.say(format_args!("{id} {how} attempts={attempts} runs={runs}"));
            }
        }
    }
    Ok(())
}

async fn run(store: Store, options: RunOptions, output: &Output) -> Result<()> {
    let backoff = options.backoff.check()?;
    let runner = options.runner.runner();
    let scheduler = Scheduler::new(store, runner, options.settings, output.clone());
    let demo = (0..options.demo).map(|number| {
        let id = Some(format!("demo-{number}"));
        (job(id, "demo".to_owned(), &backoff), Duration::ZERO)
    });
    let added = scheduler.add(demo.collect()).await?;
    output.say(format_args!("ready, {added} jobs added"));
    let mut beside = tokio::task::JoinSet::new();
    let (adding, said) = (scheduler.clone(), output.clone());
    beside.spawn(async move {
        add_lines(&adding, &backoff, &said).await;
        if options.until_finished {
            adding.end_when_finished();
        }
    });
    if let Some(period) = options.report {
        beside.spawn(keep_reporting(scheduler.clone(), period, output.clone()));
    }
    let end = async {
        tokio::select! {
            () = shutdown_signal() => output.say("ending"),
            () = output.closed() => {}
        }
    };
    let ended = scheduler.clone().run(end).await;
    beside.shutdown().await;
    ended?;
    output.say(format_args!("ended: {}", scheduler.report().await?));
    Ok(())
}

/// Adds each line of stdin, and says so once it is in the store.
async fn add_lines(scheduler: &Scheduler, backoff: &Backoff, output: &Output) {
    let (lines, mut read) = mpsc::channel(64);
    // Not one of tokio's threads: the end of the program does not wait for stdin.
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if lines.blocking_send(line).is_err() {
                break;
            }
        }
    });
    let mut number = 0;
    while let Some(line) = read.recv().await {
        number += 1;
        let line = match line {
            Ok(line) => line.trim().to_owned(),
            Err(error) => {
                eprintln!("line {number} is refused: {error}");
                continue;
            }
        };
        if line.is_empty() {
            continue;
        }
        let (delay, payload) = line.split_once(' ').unwrap_or((&line, ""));
        let delay = match parse_delay(delay) {
            Ok(delay) => delay,
            Err(error) => {
                eprintln!(
                    "line {number} is refused: {error}; begin with a delay, as in `5s {line}`"
                );
                continue;
            }
        };
        let job = job(None, payload.to_owned(), backoff);
        let id = job.id.clone();
        match scheduler.add(vec![(job, delay)]).await {
            Ok(_) => output.say(format_args!("{id} is added")),
            Err(error) => eprintln!("line {number} is not added: {error}"),
        }
    }
}

async fn keep_reporting(scheduler: Arc<Scheduler>, period: Duration, output: Output) {
    let mut ticks = tickwheel::interval(period);
    loop {
        ticks.tick().await;
        match scheduler.report().await {
            Ok(line) => output.say(line),
            Err(error) => eprintln!("cannot ask the store: {error}"),
        }
    }
}

fn job(id: Option<String>, payload: String, backoff: &Backoff) -> Job {
    let id = id.unwrap_or_else(|| Uuid::now_v7().to_string());
    let backoff = backoff.clone();
    Job {
        id,
        payload,
        backoff,
    }
}
