//! Does what a job asks for. A runner knows nothing of stores and leases.
//!
//! Invariant: a run that is dropped stops. The scheduler drops one whose lease is lost.

use std::process::Stdio;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tickwheel::Duration;
use tokio::process::Command;

use crate::job::Run;

/// Makes one run. An error says why it has failed.
pub(crate) type Runner = Arc<dyn Fn(Run) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Does nothing for a while, and fails at random.
pub(crate) fn demo(takes: Duration, fail: f64) -> Runner {
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
pub(crate) fn command(line: String) -> Runner {
    Arc::new(move |run| {
        let mut shell = Command::new("sh");
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
