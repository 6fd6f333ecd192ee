//! The program itself, as a process: stopped for a while, compared, and with its output cut off.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

fn keepalive_server() -> Command {
    Command::new(env!("CARGO_BIN_EXE_keepalive-server"))
}

#[test]
fn output_that_is_cut_off_ends_it_without_a_panic() {
    let mut server = keepalive_server()
        .args(["--connections", "10", "--timeout", "400ms"])
        .args(["--heartbeat", "100ms", "--run-time", "1s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
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
        .expect("it starts");
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
    assert_ne!(figure("stalls of the timer's driver"), "0", "{summary}");
    assert_ne!(figure("deadlines given a grace by a stall"), "0");
    assert!(output.status.success(), "{summary}");
    assert!(
        summary.contains("closed after a stall are not late"),
        "{summary}"
    );
    let zeros = summary.lines().filter(|line| line.ends_with(" 0"));
    assert_eq!(zeros.count(), 1, "{summary}");
    let lines = summary.lines().chain(progress.lines());
    let too_wide: Vec<_> = lines.filter(|line| line.chars().count() > 80).collect();
    assert_eq!(too_wide, [""; 0]);
}

#[test]
fn a_comparison_shows_both_timers_side_by_side() {
    let output = keepalive_server()
        .args(["--compare", "--connections", "100", "--run-time", "5s"])
        .output()
        .expect("it starts");
    let printed = String::from_utf8(output.stdout).expect("it is text");
    let row = |what: &str| {
        let line = printed.lines().find_map(|line| line.strip_prefix(what));
        let values = line.unwrap_or_else(|| panic!("no {what:?} in:\n{printed}"));
        values.split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(row("timer "), ["tickwheel", "tokio"]);
    assert_eq!(row("connections served"), ["100", "100"]);
    assert_eq!(row("live connections closed")[0], "0", "{printed}");
    assert_eq!(row("verdict")[0], "passed", "{printed}");
    let warnings = printed.matches("NOTE: a pause of 1s is shorter").count();
    assert_eq!(
        warnings, 2,
        "before the runs and below the table: {printed}"
    );
    assert!(
        output.status.success(),
        "whatever tokio's run did: {printed}"
    );
    let too_wide: Vec<_> = printed
        .lines()
        .filter(|line| line.chars().count() > 80)
        .collect();
    assert_eq!(too_wide, [""; 0]);
}

#[test]
fn a_comparison_takes_no_timer() {
    let options = ["--compare", "--timer=tokio"];
    let output = keepalive_server().args(options).output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("--compare"), "{told}");
}
