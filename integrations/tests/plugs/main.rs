//! Each line of the table «Where it plugs in» of `docs/MIGRATION.md`, as a test of its name: the
//! real crate takes what the line gives it, and its time passes on tickwheel's timer.
//!
//! Most run under the paused clock. The longer tests of the adapters are in files of their own.
//!
//! Invariant: each line of the table names a test of this directory, and after each test nothing
//! stays armed.

mod services;
mod sleepers;
mod sockets;
mod streams;
mod timers;

use std::time::Duration;

use tickwheel::Timer;

const TABLE: &str = include_str!("../../../docs/MIGRATION.md");
const TESTS: [&str; 5] = [
    include_str!("services.rs"),
    include_str!("sleepers.rs"),
    include_str!("sockets.rs"),
    include_str!("streams.rs"),
    include_str!("timers.rs"),
];

/// How long a test waits for what must happen, and fails after that.
const PATIENCE: Duration = Duration::from_secs(30);

/// A task that held a timer may still be going away.
async fn assert_nothing_stays_armed(timer: &Timer) {
    let disarmed = async {
        while timer.metrics().pending > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let disarmed = tokio::time::timeout(PATIENCE, disarmed).await;
    disarmed.expect("nothing stays armed");
    assert!(timer.metrics().armed > 0, "the timer was in use");
}

/// The last cell of each row of the table, without its backticks.
fn tests_of_the_table() -> Vec<&'static str> {
    let section = TABLE.split("\n## Where it plugs in\n").nth(1);
    let section = section.expect("the section is there");
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter_map(|line| line.strip_suffix("` |"))
        .filter_map(|line| line.rsplit('`').next())
        .collect()
}

#[test]
fn each_line_of_the_table_has_its_test() {
    let named = tests_of_the_table();
    assert!(named.len() > 20, "the table was found: {named:?}");
    for name in &named {
        let test = format!("async fn {name}() {{");
        let count = TESTS.iter().filter(|file| file.contains(&test)).count();
        assert_eq!(count, 1, "tests named {name}");
    }
}

#[test]
fn each_test_is_named_in_the_table() {
    let named = tests_of_the_table();
    let tests = TESTS
        .iter()
        .flat_map(|file| file.split("]\nasync fn ").skip(1));
    for test in tests {
        let name = test.split('(').next().unwrap();
        assert!(named.contains(&name), "{name} has no line in the table");
    }
}
