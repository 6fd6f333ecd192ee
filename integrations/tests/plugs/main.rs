//! Each line of the table «Where it plugs in» of `docs/MIGRATION.md`, as a test of its name: the
//! real crate takes what the line gives it, and its time passes on tickwheel's timer.
//!
//! Most run under the paused clock. The longer tests of the adapters are in files of their own.
//!
//! Invariant: each line of the table names a test of this directory, and after each test nothing
//! stays armed.

mod runtimes;
mod services;
mod sleepers;
mod sockets;
mod streams;
mod timers;

use std::collections::BTreeSet;
use std::time::Duration;

use tickwheel::Timer;

const TABLE: &str = include_str!("../../../docs/MIGRATION.md");
const TESTS: [&str; 6] = [
    include_str!("runtimes.rs"),
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

#[test]
fn the_table_names_each_test_and_no_other() {
    let section = TABLE.split("\n## Where it plugs in\n").nth(1);
    let section = section.expect("the section is there");
    let rows = section.split("\n## ").next().unwrap().lines();
    // The last cell of each row, without its backticks.
    let named = rows.filter_map(|line| line.strip_suffix("` |")?.rsplit('`').next());
    let named: BTreeSet<_> = named.collect();
    assert!(named.len() > 20, "the table was found: {named:?}");
    let tests = TESTS.iter().flat_map(|it| it.split("]\nasync fn ").skip(1));
    let tests = tests.filter_map(|test| test.split('(').next());
    assert_eq!(tests.collect::<BTreeSet<_>>(), named);
}
