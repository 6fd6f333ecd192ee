//! What holds up the server: its process is stopped, its workers are blocked, or it has used up its
//! CPU quota. The clients go on meanwhile.

use std::io;
use std::sync::{Arc, Barrier};
use std::thread;

use clap::ValueEnum;
use tickwheel::Duration;
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::task;

use crate::quota::Quota;

/// What holds up the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cause {
    /// The process is stopped by SIGSTOP, and goes on by SIGCONT
    Sigstop,
    /// Tasks block all workers of the runtime
    Blocked,
    /// A cgroup's CPU quota is used up, for less than a second
    Quota,
}

impl Cause {
    /// Above a column of the table, and as `--cause` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cause::Sigstop => "SIGSTOP",
            Cause::Blocked => "blocked",
            Cause::Quota => "quota",
        }
    }

    /// Why a stall of this cause cannot be made here.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Cause::Sigstop if cfg!(unix) => None,
            Cause::Sigstop => Some("only Unix has the signals STOP and CONT".to_string()),
            Cause::Blocked => None,
            Cause::Quota => {
                let quota = Quota::new();
                quota.err().map(|problem| problem.to_string())
            }
        }
    }

    /// Holds up this process for so long. Call it outside of a worker.
    pub(crate) async fn hold_up(self, length: Duration) -> io::Result<()> {
        match self {
            Cause::Sigstop => stop_this_process(length).await,
            Cause::Blocked => {
                block_all_workers(length).await;
                Ok(())
            }
            Cause::Quota => {
                let quota = Quota::new()?;
                let used_up = task::spawn_blocking(move || quota.use_up(length));
                used_up.await.map_err(io::Error::other)?
            }
        }
    }
}

/// Like a virtual machine that is migrated: no thread runs, and then all go on.
///
/// A process that is stopped cannot wake itself, so the child sends both signals.
async fn stop_this_process(length: Duration) -> io::Result<()> {
    // Ctrl-C is for the whole group. A child that it ended would leave this process stopped.
    let script = r#"trap '' INT; kill -STOP "$1" && sleep "$2" && kill -CONT "$1""#;
    let status = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::process::id().to_string())
        .arg(format!("{:.3}", length.as_secs_f64()))
        .status()
        .await?;
    let problem = || io::Error::other(format!("this process could not be stopped: {status}"));
    status.success().then_some(()).ok_or_else(problem)
}

/// Each worker runs one of the tasks, because none of them ends before all have begun.
async fn block_all_workers(length: Duration) {
    let workers = Handle::current().metrics().num_workers();
    let have_begun = Arc::new(Barrier::new(workers));
    let block = || {
        let have_begun = have_begun.clone();
        tokio::spawn(async move {
            have_begun.wait();
            thread::sleep(length);
        })
    };
    let blocked: Vec<_> = (0..workers).map(|_| block()).collect();
    for task in blocked {
        task.await.expect("it only sleeps");
    }
}
