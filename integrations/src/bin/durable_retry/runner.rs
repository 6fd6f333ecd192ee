//! Does what a job asks for. A runner knows nothing of the store.
//!
//! Invariant: a run that is dropped stops. The scheduler drops one that is given back. What a
//! command has started in the background goes on, and so does a command whose scheduler is killed.

use std::process::Stdio;
use std::sync::Arc;

use clap::Args;
use futures::FutureExt;
use futures::future::BoxFuture;
use tickwheel::Duration;
use tickwheel_integrations::parse_duration;
use tokio::process::Command;

use crate::job::Job;

/// Makes one run. An error says why it has failed.
pub(crate) type Runner = Arc<dyn Fn(Job) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

#[derive(Debug, Args)]
pub(crate) struct RunnerOptions {
    /// Run this command of the shell for each job, with its JOB_PAYLOAD, JOB_KEY, JOB_ID and
    /// JOB_ATTEMPT.
    #[arg(long, value_name = "COMMAND", conflicts_with = "takes")]
    exec: Option<String>,
    /// Without --exec: how long a run takes.
    #[arg(long, default_value = "20ms", value_parser = parse_duration)]
    takes: Duration,
}

impl RunnerOptions {
    pub(crate) fn runner(self) -> Runner {
        let options = Arc::new(self);
        Arc::new(move |job| {
            let options = options.clone();
            let run = async move {
                match &options.exec {
                    Some(line) => command(line, &job).await,
                    None => demo(options.takes).await,
                }
            };
            run.boxed()
        })
    }
}

/// Does nothing for a while, and fails now and then.
async fn demo(takes: Duration) -> Result<(), String> {
    tickwheel::sleep(takes).await;
    match fastrand::f64() < 0.3 {
        true => Err("the demo fails at random".to_owned()),
        false => Ok(()),
    }
}

/// Runs a command of the shell, which learns from its environment what to do.
async fn command(line: &str, job: &Job) -> Result<(), String> {
    let mut shell = Command::new("sh");
    // An interrupt from the keyboard is for the scheduler, which gives its commands a grace.
    #[cfg(unix)]
    shell.process_group(0);
    shell
        .args(["-c", line])
        .env("JOB_ID", &job.id)
        .env("JOB_PAYLOAD", &job.payload)
        .env("JOB_KEY", job.key())
        .env("JOB_ATTEMPT", job.attempt().to_string())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    match shell.status().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("there is no shell to run it: {error}")),
    }
}
