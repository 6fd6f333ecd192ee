//! Runs jobs at their due times, and again with a backoff when they fail. The dues outlive the
//! process, and several processes may share the work.
//!
//! | file | what |
//! |---|---|
//! | `job` | a job, its backoff, its runs |
//! | `store/mod` | who may run a job: the states, and what a kill between two steps leaves |
//! | `store/redb` | jobs in a file: one scheduler |
//! | `store/redis` | jobs in a server: several schedulers, by leases |
//! | `lease` | the leases that a process holds, in a `DeadlineMap` |
//! | `scheduler` | near jobs in a `DelayMap`: loads, claims, runs, records |
//! | `runner`, `output` | what a run does; what is printed |
//!
//! Invariant: this file only reads what the user asks for. What it refuses, it refuses before a
//! store is touched.

mod job;
mod lease;
mod output;
mod runner;
mod scheduler;
mod store;

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use clap::{Args, Parser, Subcommand};
use tickwheel::{Duration, Instant};
use tickwheel_integrations::{parse_duration, parse_period, shutdown_signal};
use tokio::sync::mpsc;
use uuid::Uuid;

use job::{Backoff, Job};
use output::Output;
use scheduler::{Scheduler, Settings};
use store::redb::RedbStore;
use store::redis::RedisStore;
use store::{Purpose, Result, Store};

/// Runs jobs at their due times, and again with a backoff when they fail.
#[derive(Debug, Parser)]
struct Options {
    /// Where the jobs lie: a file, or redis://HOST:PORT/DATABASE, which several processes share.
    #[arg(long, global = true, default_value = "durable_retry.redb", value_parser = parse_place)]
    store: Place,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Redis(redis::Client),
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs what is due, and what is read from stdin: lines of a delay and a payload, `5s mail bob`.
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
    /// How many jobs run at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
    /// Jobs that are due within this time are held in memory.
    #[arg(long, default_value = "30s", value_parser = parse_period)]
    horizon: Duration,
    /// With Redis: a job whose process was not heard of for this long is run by another one.
    #[arg(long, default_value = "10s", value_parser = parse_lease)]
    lease: Duration,
    /// How long runs may go on after SIGTERM. What is not done by then is given back.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    grace: Duration,
    /// Run this command of the shell for each job, with JOB_ID, JOB_PAYLOAD, JOB_KEY and JOB_ATTEMPT.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["takes", "fail"])]
    exec: Option<String>,
    /// Without --exec: how long a run takes.
    #[arg(long, default_value = "20ms", value_parser = parse_duration)]
    takes: Duration,
    /// Without --exec: how likely a run is to fail, from 0 to 1.
    #[arg(long, default_value_t = 0.3, value_parser = parse_chance)]
    fail: f64,
    /// Add so many jobs, `demo-0` and so on, unless they are there.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    demo: u32,
    /// End when stdin has ended and all jobs are finished.
    #[arg(long)]
    until_finished: bool,
    /// Print how much there is to do, this often.
    #[arg(long, value_parser = parse_period)]
    report: Option<Duration>,
    #[command(flatten)]
    backoff: BackoffOptions,
}

#[derive(Debug, Args)]
struct AddOptions {
    /// What is to be done.
    payload: String,
    /// The job is due after this time.
    #[arg(long = "in", value_name = "DELAY", default_value = "0s", value_parser = parse_delay)]
    delay: Duration,
    /// Names the job. The default is an identifier that no other job has.
    #[arg(long, value_parser = parse_id)]
    id: Option<String>,
    #[command(flatten)]
    backoff: BackoffOptions,
}

/// For the jobs that are added.
#[derive(Clone, Debug, Args)]
struct BackoffOptions {
    /// How long a job waits after its first failure. Later waits are twice as long each time.
    #[arg(long, default_value = "1s", value_parser = parse_delay)]
    backoff: Duration,
    /// Waits grow up to this.
    #[arg(long, default_value = "10m", value_parser = parse_delay)]
    backoff_longest: Duration,
    /// After so many failures a job has failed for good.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    attempts: u16,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let output = Output::default();
    match perform(options, &output).await {
        // Stdin may be waited for by a thread, which nothing but the end of the process ends.
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn perform(options: Options, output: &Output) -> Result<()> {
    let purpose = match &options.command {
        Command::Run(_) => Purpose::Schedule,
        Command::Add(_) => Purpose::Add,
        Command::Status | Command::Ledger => Purpose::Look,
    };
    // Only a scheduler's claims have a lease.
    let lease = match &options.command {
        Command::Run(run) => run.lease,
        _ => Duration::from_secs(20),
    };
    match options.store {
        Place::File(path) => {
            let store = RedbStore::open(path, purpose).await?;
            perform_on(store, options.command, output).await
        }
        Place::Redis(client) => {
            let store = RedisStore::open(client, lease).await?;
            perform_on(store, options.command, output).await
        }
    }
}

async fn perform_on(store: impl Store, command: Command, output: &Output) -> Result<()> {
    let now = store.clock().await?.system_time(Instant::now());
    let far = SystemTime::UNIX_EPOCH + 100 * LONGEST_DELAY;
    match command {
        Command::Run(options) => return run(store, options, output).await,
        Command::Add(options) => {
            let job = job(options.id, options.payload, options.backoff.check()?);
            let id = job.id.clone();
            let due = now + options.delay;
            match store.add(vec![(job, due)]).await? {
                0 => output.say(format_args!("{id} is known already")),
                _ => output.say(format_args!("{id} is due at {}", show(due))),
            }
        }
        Command::Status => {
            output.say(store.counts().await?);
            match store.due_before(far, 1).await?.first() {
                Some((id, due)) => output.say(format_args!("next is {id}, due at {}", show(*due))),
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

async fn run(store: impl Store, options: RunOptions, output: &Output) -> Result<()> {
    let backoff = options.backoff.check()?;
    let runner = match options.exec {
        Some(line) => runner::command(line),
        None => runner::demo(options.takes, options.fail),
    };
    let settings = Settings {
        workers: options.workers.into(),
        horizon: options.horizon,
        grace: options.grace,
    };
    let scheduler = Scheduler::new(store, runner, settings, output.clone())?;
    let demo = (0..options.demo).map(|number| {
        let id = Some(format!("demo-{number}"));
        (job(id, "demo".to_owned(), backoff.clone()), Duration::ZERO)
    });
    let added = scheduler.add(demo.collect()).await?;
    output.say(format_args!("ready, {added} jobs added"));
    let reading = tokio::spawn({
        let (scheduler, output) = (scheduler.clone(), output.clone());
        async move {
            add_lines(&scheduler, backoff, output).await;
            if options.until_finished {
                scheduler.end_when_finished();
            }
        }
    });
    let reporting = tokio::spawn(keep_reporting(
        scheduler.clone(),
        options.report,
        output.clone(),
    ));
    let ends = {
        let output = output.clone();
        async move {
            tokio::select! {
                () = shutdown_signal() => output.say("ending"),
                () = output.closed() => {}
            }
        }
    };
    let ended = scheduler.clone().run(ends).await;
    reading.abort();
    reporting.abort();
    ended?;
    output.say(format_args!("ended: {}", scheduler.report().await?));
    Ok(())
}

/// Adds each line of stdin, and says so once it is in the store.
async fn add_lines<S: Store>(scheduler: &Scheduler<S>, backoff: Backoff, output: Output) {
    let (lines, mut read) = mpsc::channel(64);
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
            Ok(line) if line.trim().is_empty() => continue,
            Ok(line) => line,
            Err(error) => {
                eprintln!("line {number} cannot be read: {error}");
                continue;
            }
        };
        let (delay, payload) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let delay = match parse_delay(delay) {
            Ok(delay) => delay,
            Err(error) => {
                eprintln!(
                    "line {number} is refused: {error}; write a delay first, as in `5s {line}`"
                );
                continue;
            }
        };
        let job = job(None, payload.trim().to_owned(), backoff.clone());
        let id = job.id.clone();
        match scheduler.add(vec![(job, delay)]).await {
            Ok(_) => output.say(format_args!("{id} is added")),
            Err(error) => eprintln!("line {number} is not added: {error}"),
        }
    }
}

async fn keep_reporting<S: Store>(
    scheduler: Arc<Scheduler<S>>,
    period: Option<Duration>,
    output: Output,
) {
    let Some(period) = period else { return };
    let mut ticks = tickwheel::interval(period);
    loop {
        ticks.tick().await;
        match scheduler.report().await {
            Ok(line) => output.say(line),
            Err(error) => eprintln!("cannot ask the store: {error}"),
        }
    }
}

fn job(id: Option<String>, payload: String, backoff: Backoff) -> Job {
    let id = id.unwrap_or_else(|| Uuid::now_v7().to_string());
    Job {
        id,
        payload,
        backoff,
    }
}

impl BackoffOptions {
    fn check(self) -> Result<Backoff> {
        if self.backoff > self.backoff_longest {
            return Err(
                "--backoff is longer than --backoff-longest: make the latter longer".into(),
            );
        }
        Ok(Backoff {
            first: self.backoff,
            longest: self.backoff_longest,
            attempts: self.attempts.into(),
        })
    }
}

fn show(time: SystemTime) -> impl std::fmt::Display {
    humantime::format_rfc3339_millis(time)
}

fn parse_place(text: &str) -> std::result::Result<Place, String> {
    let hint = "write a path, or redis://HOST:PORT/DATABASE";
    match text.split_once("://") {
        None if text.is_empty() => Err(format!("it is empty; {hint}")),
        None => Ok(Place::File(text.into())),
        Some(("redis", _)) => match redis::Client::open(text) {
            Ok(client) => Ok(Place::Redis(client)),
            Err(error) => Err(format!("{error}; {hint}")),
        },
        Some((scheme, _)) => Err(format!("there is no store of the kind {scheme}; {hint}")),
    }
}

fn parse_delay(text: &str) -> std::result::Result<Duration, String> {
    match parse_duration(text)? {
        delay if delay > LONGEST_DELAY => Err("it is longer than a hundred years".to_owned()),
        delay => Ok(delay),
    }
}

fn parse_lease(text: &str) -> std::result::Result<Duration, String> {
    match parse_delay(text)? {
        lease if lease < Duration::from_millis(100) => {
            Err("it must be 100ms at least, or a process could not renew it in time".to_owned())
        }
        lease => Ok(lease),
    }
}

fn parse_chance(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(chance) if (0.0..=1.0).contains(&chance) => Ok(chance),
        _ => Err("it must be a number from 0 to 1".to_owned()),
    }
}

fn parse_id(text: &str) -> std::result::Result<String, String> {
    match text.trim() {
        "" => Err("it is empty".to_owned()),
        id if id.contains(char::is_whitespace) => Err("it must have no blanks".to_owned()),
        id => Ok(id.to_owned()),
    }
}

const LONGEST_DELAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
