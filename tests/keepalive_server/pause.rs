//! The example itself, as a process: stopped for a while, and with its output cut off.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Cargo builds the example first, if that has not been done.
fn keepalive_server() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--quiet", "--all-features", "--example"])
        .args(["keepalive_server", "--"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo
}

#[test]
fn output_that_is_cut_off_ends_it_without_a_panic() {
    let mut server = keepalive_server()
        .args(["--connections", "10", "--timeout", "400ms"])
        .args(["--heartbeat", "100ms", "--run-time", "1s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo runs");
    let mut stdout = BufReader::new(server.stdout.take().expect("it is piped"));
    stdout.read_line(&mut String::new()).expect("it prints");
    drop(stdout);
    assert_ne!(server.wait().expect("it ends").code(), Some(101));
    let mut told = String::new();
    let mut stderr = server.stderr.take().expect("it is piped");
    stderr.read_to_string(&mut told).expect("it is text");
    assert!(!told.contains("panicked"), "{told}");
}

/// The verdict is about the silent clients too.
#[test]
fn a_pause_of_the_server_closes_no_live_connection() {
    let output = keepalive_server()
        .args(["--pause", "2s", "--connections", "200", "--run-time", "8s"])
        .output()
        .expect("cargo runs");
    // There is no terminal, so the progress comes in lines.
    let progress = String::from_utf8(output.stderr).expect("the progress is text");
    assert!(progress.contains(" open, "), "{progress}");
    let summary = String::from_utf8(output.stdout).expect("the summary is text");
    let figure = |name: &str| {
        let line = summary.lines().find_map(|line| line.strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("no {name:?} in the summary:\n{summary}"));
        line.trim().to_string()
    };
    assert_eq!(figure("the server's process was stopped for"), "2.00 s");
    assert_eq!(figure("live connections closed"), "0", "{summary}");
    assert!(output.status.success(), "{summary}");
    let lines = summary.lines().chain(progress.lines());
    let too_wide: Vec<_> = lines.filter(|line| line.chars().count() > 80).collect();
    assert_eq!(too_wide, [""; 0]);
}
