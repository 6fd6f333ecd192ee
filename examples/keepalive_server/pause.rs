//! Stops this process for a while, as a virtual machine that is migrated or a container that is
//! throttled: no thread runs, and then all go on.

use std::io;

use tickwheel::Duration;
use tokio::process::Command;

/// Stops this process as soon as a child of it can, and returns when it has gone on for a moment.
///
/// A process that is stopped cannot wake itself, so the child sends both signals.
pub(crate) async fn stop_this_process(pause: Duration) -> io::Result<()> {
    let script = r#"kill -STOP "$1" && sleep "$2" && kill -CONT "$1""#;
    let status = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(std::process::id().to_string())
        .arg(format!("{:.3}", pause.as_secs_f64()))
        .status()
        .await?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "this process could not be stopped and let go on: {status}"
        )))
    }
}
