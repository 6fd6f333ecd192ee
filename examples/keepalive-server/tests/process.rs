//! The program itself, as a process: held up for a while, and compared.
#![cfg(unix)]

use std::process::{Command, Output};

fn keepalive_server(options: &str) -> Output {
    let mut server = Command::new(env!("CARGO_BIN_EXE_keepalive-server"));
    server.args(options.split(' ')).output().expect("it starts")
}

fn figure<'a>(printed: &'a str, row: &str) -> &'a str {
    let line = printed.lines().find_map(|line| line.strip_prefix(row));
    line.unwrap_or_else(|| panic!("no {row:?} in:\n{printed}"))
        .trim()
}

/// The verdict is about the silent clients too.
#[test]
fn a_stall_of_the_server_closes_no_live_connection() {
    let output = keepalive_server("--stall 2s --connections 200 --run-time 8s");
    let summary = String::from_utf8(output.stdout).expect("the summary is text");
    let figure = |row| figure(&summary, row);
    assert_eq!(figure("the server was held up by"), "SIGSTOP");
    assert_eq!(figure("the server was held up for"), "2.00 s");
    assert_eq!(figure("live connections closed"), "0", "{summary}");
    assert_ne!(figure("stalls of the timer's driver"), "0");
    assert_ne!(figure("deadlines given a grace"), "0");
    assert!(output.status.success(), "{summary}");
    let zeros = summary.lines().filter(|line| line.ends_with(" 0"));
    assert_eq!(zeros.count(), 1, "{summary}");
    let is_narrow = |line: &str| line.chars().count() <= 80;
    assert!(summary.lines().all(is_narrow), "{summary}");
}

/// The timer sees each of them as a stall.
#[test]
fn each_cause_holds_up_the_server() {
    for cause in ["sigstop", "blocked", "quota"] {
        for workers in [0, 2] {
            let output = keepalive_server(&format!(
                "--stall 600ms --cause {cause} --workers {workers} --connections 20 --silent 0 \
                 --run-time 2s --timeout 500ms --heartbeat 50ms"
            ));
            let problem = String::from_utf8_lossy(&output.stderr);
            if cause == "quota" && problem.starts_with("keepalive-server: ") {
                continue; // No cgroup can be had.
            }
            let summary = String::from_utf8(output.stdout).expect("the summary is text");
            let held_up = figure(&summary, "the server was held up by");
            assert_eq!(held_up.to_lowercase(), cause);
            assert_ne!(figure(&summary, "stalls of the timer's driver"), "0");
            assert!(output.status.success(), "{problem}{summary}");
        }
    }
}

/// It has no grace, so a machine may be too busy for it in one try. With tokio's sleep such a stop
/// has always closed some.
#[test]
fn a_stop_closes_no_live_connection_after_a_change_of_use() {
    let lives = (0..20).any(|_| {
        let output = keepalive_server(
            "--way last-seen-changed --stall 900ms --connections 100 --silent 0 --run-time 2400ms \
             --timeout 500ms --heartbeat 50ms",
        );
        let summary = String::from_utf8(output.stdout).expect("the summary is text");
        figure(&summary, "live connections closed") == "0"
    });
    assert!(lives, "or the machine is too busy");
}

#[test]
fn a_comparison_closes_nothing_with_a_deadline() {
    let options = "--compare --rounds 1 --connections 50 --stall 300ms,600ms --run-time 1900ms \
                   --cause sigstop";
    let output = keepalive_server(options);
    let printed = String::from_utf8(output.stdout).expect("it is text");
    assert!(printed.contains("here 450ms.\n\n| how"), "{printed}");
    let rows = printed.lines().filter_map(|line| line.strip_prefix('|'));
    let rows: Vec<Vec<&str>> = rows
        .map(|row| row.split_terminator('|').map(str::trim).collect())
        .collect();
    assert_eq!(
        rows[0][1..],
        ["SIGSTOP, 0.3 s", "SIGSTOP, 0.6 s"],
        "{printed}"
    );
    for way in ["`IdleTimeout`", "`Deadline`"] {
        assert!(rows.contains(&vec![way, "0", "0"]), "{printed}");
    }
    assert_eq!(rows.len(), 14, "{printed}");
    assert!(rows.iter().all(|row| row.len() == 3), "{printed}");
    assert!(output.status.success(), "tokio's runs decide nothing");
}

#[test]
fn a_run_with_two_stalls_is_refused() {
    let output = keepalive_server("--stall 1s,2s");
    let problem = String::from_utf8(output.stderr).expect("it is text");
    assert!(!output.status.success());
    assert!(
        problem.contains("only --compare takes more than one --stall"),
        "{problem}"
    );
}
