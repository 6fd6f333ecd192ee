//! The program `durable_retry`: killed and asked to end at any moment.
//!
//! What was run is known from two sources, which must agree: the ledger of the store, and what all
//! processes have printed before they died.

use std::collections::{HashMap, HashSet};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::sleep;

use crate::process::Program;

const PROGRAM: &str = env!("CARGO_BIN_EXE_durable_retry");
const KILLS: usize = 100;

fn scheduler(store: &str, options: &[&str]) -> Program {
    Program::run(PROGRAM, &[&["run", "--store", store], options].concat())
}

/// What a command prints that succeeds.
fn ask(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A file in a directory that is gone after the test.
fn file() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("jobs.redb");
    let store = store.to_str().unwrap().to_owned();
    (directory, store)
}

/// Compares the ledger with what was printed. `interrupted` is how many runs may have ended without
/// a record.
fn check(store: &str, jobs: usize, printed: &[String], interrupted: usize) {
    let mut runs = HashMap::new();
    let mut again = 0;
    for line in ask(&["ledger", "--store", store]).lines() {
        let words: Vec<_> = line.split([' ', '=']).collect();
        let [id, "done", "attempts", attempts, "runs", number] = words[..] else {
            panic!("this is no line of a job that is done: {line}");
        };
        let [attempts, number] = [attempts, number].map(|it| it.parse::<usize>().unwrap());
        again += number - attempts;
        let before = runs.insert(id.to_owned(), number);
        assert_eq!(before, None, "{id} is in the ledger twice");
    }
    for job in (0..jobs).map(|number| format!("demo-{number}")) {
        assert!(runs.contains_key(&job), "{job} is lost");
    }
    assert_eq!(runs.len(), jobs);
    let mut begun = HashSet::new();
    for line in printed {
        let words: Vec<_> = line.split([' ', ':', ',']).collect();
        if let [id, "", "run", number, "begins", ..] = words[..] {
            let number: usize = number.parse().unwrap();
            let is_new = begun.insert((id, number));
            assert!(is_new, "run {number} of {id} began twice");
            assert!(number <= runs[id], "run {number} of {id} is after its last");
        }
    }
    assert!(
        again <= interrupted,
        "{again} runs were made again, of {interrupted} interrupted"
    );
}

#[tokio::test]
async fn a_hundred_kills_lose_no_job_of_a_file() {
    let (_directory, store) = file();
    let mut printed = Vec::new();
    let options = "--demo 300 --workers 4 --attempts 1000 --takes 100ms \
                   --backoff 50ms --backoff-longest 200ms";
    let options: Vec<_> = options.split_whitespace().collect();
    for kill in 0..KILLS {
        let mut scheduler = scheduler(&store, &options);
        // Half of the kills may come while it starts.
        if kill % 2 == 0 {
            scheduler.prints(&["ready"]).await;
        }
        sleep(Duration::from_millis(fastrand::u64(0..150))).await;
        scheduler.kill();
        scheduler.ends().await;
        printed.extend(scheduler.lines());
    }
    let finish = ["--until-finished", "--workers", "100", "--takes", "1ms"];
    let mut last = scheduler(&store, &finish);
    assert!(last.ends().await.success());
    printed.extend(last.lines());
    check(&store, 300, &printed, KILLS * 4);
}

#[tokio::test]
async fn a_run_that_outlasts_the_grace_is_given_back() {
    let (_directory, store) = file();
    let options = ["--demo", "1", "--takes", "1h", "--grace", "100ms"];
    let mut scheduler = scheduler(&store, &options);
    scheduler.prints(&["demo-0: run 1 begins"]).await;
    scheduler.terminate();
    scheduler.prints(&["demo-0: run 1 is given back"]).await;
    assert!(scheduler.ends().await.success());
    let status = ask(&["status", "--store", &store]);
    let expected = "1 waiting, 0 running, 0 finished\nnext is demo-0";
    assert!(status.starts_with(expected), "{status}");
}

#[tokio::test]
async fn a_run_that_ends_within_the_grace_is_recorded() {
    let (_directory, store) = file();
    let options = ["--demo", "1", "--exec", "sleep 0.5", "--grace", "1h"];
    let mut scheduler = scheduler(&store, &options);
    scheduler.prints(&["demo-0: run 1 begins"]).await;
    scheduler.terminate();
    assert!(scheduler.ends().await.success());
    check(&store, 1, &scheduler.lines(), 0);
}

#[tokio::test]
async fn a_job_that_another_process_adds_is_run_once() {
    let (directory, store) = file();
    let done = directory.path().join("done");
    let exec = format!("echo \"$JOB_KEY $JOB_PAYLOAD\" >> {}", done.display());
    let scheduler = scheduler(&store, &["--exec", &exec]);
    scheduler.prints(&["ready"]).await;
    let add = format!("add --store {store} --in 100ms mail --id bob");
    let add: Vec<_> = add.split(' ').collect();
    assert!(ask(&add).starts_with("bob is due at "));
    assert_eq!(ask(&add), "bob is known already\n");
    scheduler.prints(&["bob: run 1 is done; finished"]).await;
    assert_eq!(std::fs::read_to_string(done).unwrap(), "bob/1 mail\n");
    assert_eq!(ask(&add), "bob is known already\n");
}

#[tokio::test]
async fn a_file_has_one_scheduler() {
    let (_directory, store) = file();
    let first = scheduler(&store, &[]);
    first.prints(&["ready"]).await;
    let mut second = scheduler(&store, &[]);
    second.prints(&["is a scheduler running?"]).await;
    assert!(!second.ends().await.success());
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let (directory, store) = file();
    let folder = directory.path().to_str().unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "no store").unwrap();
    let text = text.to_str().unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["run", "--store", folder], "cannot open"),
        (&["status", "--store", text], "a file of this program's own"),
        (&["status", "--store", &store], "there is no store"),
        (&["run", "--workers", "0"], "0 is not in 1..=65535"),
        (&["add", "--in", "1001years", "x"], "than a thousand years"),
    ];
    for (arguments, hint) in cases {
        let refused = Command::new(PROGRAM).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{arguments:?} is not refused");
        assert!(said.contains(hint), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}
