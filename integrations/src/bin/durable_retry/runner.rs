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

use crate::job::Run;

/// Makes one run. An error says why it has failed.
pub(crate) type Runner = Arc<dyn Fn(Run) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

#[derive(Debug, Args)]
pub(crate) struct RunnerOptions {
    /// Run this command of the shell for each job, with its JOB_PAYLOAD, JOB_KEY, JOB_ID and
    /// JOB_ATTEMPT.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["takes", "fail"])]
    exec: Option<String>,
    /// Without --exec: how long a run takes.
    #[arg(long, default_value = "20ms", value_parser = parse_duration)]
    takes: Duration,
    /// Without --exec: how likely a run is to fail, from 0 to 1.
    #[arg(long, default_value_t = 0.3, value_parser = parse_chance)]
    fail: f64,
}

impl RunnerOptions {
    pub(crate) fn runner(self) -> Runner {
        match self.exec {
            Some(line) => command(line),
            None => demo(self.takes, self.fail),
        }
    }
}

fn parse_chance(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(chance) if (0.0..=1.0).contains(&chance) => Ok(chance),
        _ => Err("it must be a number from 0 to 1".to_owned()),
    }
}

/// Does nothing for a while, and fails at random.
fn demo(takes: Duration, fail: f64) -> Runner {
    Arc::new(move |_| {
        async move {
            tickwheel::sleep(takes).await;
            match fastrand::f64() < fail {
                true => Err("the demo fails at random".to_owned()),
                false => Ok(()),
            }
        }
        .boxed()
    })
}

/// Runs a command of the shell, which learns from its environment what to do.
fn command(line: String) -> Runner {
    Arc::new(move |run| {
        let mut shell = Command::new("sh");
        // An interrupt from the keyboard is for the scheduler, which gives its commands a grace.
        #[cfg(unix)]
        shell.process_group(0);
        shell
            .args(["-c", &line])
            .env("JOB_ID", &run.job.id)
            .env("JOB_PAYLOAD", &run.job.payload)
            .env("JOB_KEY", run.key())
            .env("JOB_ATTEMPT", run.attempt().to_string())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        async move {
            match shell.status().await {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(status.to_string()),
                Err(error) => Err(format!("there is no shell to run it: {error}")),
            }
        }
        .boxed()
    })
}
