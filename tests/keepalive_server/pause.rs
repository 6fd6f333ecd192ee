//! The example itself, as a process that is stopped for a while and goes on.

use std::process::{Command, Stdio};

/// Cargo builds the example first, if that has not been done. The verdict is about the silent
/// clients too.
#[test]
fn a_pause_of_the_server_closes_no_live_connection() {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--all-features", "--example"])
        .args(["keepalive_server", "--", "--pause", "2s"])
        .args(["--connections", "200", "--run-time", "8s"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    let summary = String::from_utf8(output.stdout).expect("the summary is text");
    let figure = |name: &str| {
        let line = summary.lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("no {name:?} in the summary:\n{summary}"));
        line.trim().to_string()
    };
    assert_eq!(figure("the server's process was stopped for"), "2.00 s");
    assert_eq!(figure("live connections closed"), "0", "{summary}");
    assert!(output.status.success(), "{summary}");
}
