//! The program `durable_retry`: killed and asked to end at any moment.
//!
//! What was run is known from two sources, which must agree: the ledger of the store, and what all
//! processes have printed before they died.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::LONGEST_WAIT;

const PROGRAM: &str = env!("CARGO_BIN_EXE_durable_retry");
const KILLS: usize = 100;

/// The lines of one or more processes, of stdout and stderr.
#[derive(Clone, Default)]
struct Printed(Arc<(Mutex<Vec<String>>, Condvar)>);

impl Printed {
    fn read(&self, from: impl Read + Send + 'static) -> JoinHandle<()> {
        let printed = self.clone();
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                printed.0.0.lock().unwrap().push(line);
                printed.0.1.notify_all();
            }
        })
    }

    fn lines(&self) -> Vec<String> {
        self.0.0.lock().unwrap().clone()
    }

    /// Waits for a line with all of these parts, and gives it.
    fn wait_for(&self, parts: &[&str]) -> String {
        let end = Instant::now() + LONGEST_WAIT;
        let mut lines = self.0.0.lock().unwrap();
        loop {
            let is_it = |line: &&String| parts.iter().all(|part| line.contains(part));
            if let Some(line) = lines.iter().find(is_it) {
                return line.clone();
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no line with {parts:?} in {lines:#?}");
            lines = self.0.1.wait_timeout(lines, left).unwrap().0;
        }
    }
}

/// A scheduler, which ends with the test.
struct Scheduler {
    process: Child,
    printed: Printed,
    readers: Vec<JoinHandle<()>>,
}

impl Scheduler {
    fn start(store: &str, options: &[&str], printed: &Printed) -> Scheduler {
        let mut process = Command::new(PROGRAM)
            .args(["run", "--store", store])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let readers = vec![
            printed.read(process.stdout.take().unwrap()),
            printed.read(process.stderr.take().unwrap()),
        ];
        let printed = printed.clone();
        Scheduler {
            process,
            printed,
            readers,
        }
    }

    fn stdin(&mut self) -> ChildStdin {
        self.process.stdin.take().expect("it is taken once")
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("there is a program `kill`").success());
    }

    /// Waits for its end, and for all that it has printed.
    fn wait(&mut self) -> ExitStatus {
        drop(self.process.stdin.take());
        let status = wait_for_end(&mut self.process, &self.printed);
        self.readers
            .drain(..)
            .for_each(|reader| reader.join().unwrap());
        status
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.wait();
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_for_end(process: &mut Child, printed: &Printed) -> ExitStatus {
    let end = Instant::now() + LONGEST_WAIT;
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            let _ = process.kill();
            panic!("it does not end: {:#?}", printed.lines());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn command(arguments: &[&str]) -> Output {
    let output = Command::new(PROGRAM).args(arguments).output();
    output.expect("the program starts")
}

/// What a command prints that succeeds.
fn ask(arguments: &[&str]) -> String {
    let output = command(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// A file in a directory that is gone after the test.
fn file() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let store = directory
        .path()
        .join("jobs.redb")
        .to_str()
        .unwrap()
        .to_owned();
    (directory, store)
}

/// Compares the ledger with what was printed. `interrupted` is how many runs may have ended without
/// a record.
fn check(store: &str, jobs: usize, printed: &Printed, interrupted: usize) {
    let mut runs = HashMap::new();
    let mut again = 0;
    for line in ask(&["ledger", "--store", store]).lines() {
        let words: Vec<_> = line.split([' ', '=']).collect();
        let [id, "done", "attempts", attempts, "runs", number] = words[..] else {
            panic!("this is no line of a job that is done: {line}");
        };
        let (attempts, number): (usize, usize) =
            (attempts.parse().unwrap(), number.parse().unwrap());
        again += number - attempts;
        let before = runs.insert(id.to_owned(), number);
        assert_eq!(before, None, "{id} is in the ledger twice");
    }
    for number in 0..jobs {
        assert!(
            runs.contains_key(&format!("demo-{number}")),
            "demo-{number} is lost"
        );
    }
    assert_eq!(runs.len(), jobs);
    let mut begun = HashSet::new();
    for line in printed.lines() {
        let words: Vec<_> = line.split([' ', ':', ',']).collect();
        if let [id, "", "run", number, "begins", ..] = words[..] {
            let number: usize = number.parse().unwrap();
            assert!(
                begun.insert((id.to_owned(), number)),
                "run {number} of {id} began twice"
            );
            assert!(
                number <= runs[id],
                "run {number} of {id} began after its last one"
            );
        }
    }
    println!("{jobs} jobs, {again} runs made again, at most {interrupted} interrupted");
    assert!(
        again <= interrupted,
        "{again} runs were made again, of {interrupted} interrupted"
    );
}

const FAST: [&str; 4] = ["--backoff", "50ms", "--backoff-longest", "200ms"];

fn killed_options<'a>(jobs: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["--demo", jobs, "--workers", "4", "--attempts", "1000"];
    [&fixed, &FAST[..], rest].concat()
}

/// Lets whatever is left be done.
fn finish(store: &str, printed: &Printed) {
    let options = [
        "--until-finished",
        "--workers",
        "100",
        "--takes",
        "1ms",
        "--fail",
        "0",
    ];
    let mut last = Scheduler::start(store, &options, printed);
    assert!(last.wait().success());
}

#[test]
fn a_hundred_kills_lose_no_job_of_a_file() {
    let (_directory, store) = file();
    let printed = Printed::default();
    for kill in 0..KILLS {
        let life = Printed::default();
        let options = killed_options("300", &["--takes", "100ms"]);
        let mut scheduler = Scheduler::start(&store, &options, &life);
        // Half of the kills may come while it starts.
        if kill % 2 == 0 {
            life.wait_for(&["ready"]);
        }
        thread::sleep(Duration::from_millis(fastrand::u64(0..150)));
        scheduler.kill();
        printed.0.0.lock().unwrap().extend(life.lines());
    }
    finish(&store, &printed);
    check(&store, 300, &printed, KILLS * 4);
}

#[test]
fn a_run_that_outlasts_the_grace_is_given_back() {
    let (_directory, store) = file();
    let printed = Printed::default();
    let options = ["--demo", "1", "--takes", "1h", "--grace", "100ms"];
    let mut scheduler = Scheduler::start(&store, &options, &printed);
    printed.wait_for(&["demo-0: run 1 begins"]);
    scheduler.signal("-TERM");
    assert!(scheduler.wait().success());
    printed.wait_for(&["demo-0: run 1 is given back"]);
    let status = ask(&["status", "--store", &store]);
    assert!(
        status.starts_with("1 waiting, 0 running, 0 finished\nnext is demo-0"),
        "{status}"
    );
}

#[test]
fn a_run_that_ends_within_the_grace_is_recorded() {
    let (_directory, store) = file();
    let printed = Printed::default();
    let options = [
        "--demo", "1", "--takes", "500ms", "--fail", "0", "--grace", "1h",
    ];
    let mut scheduler = Scheduler::start(&store, &options, &printed);
    printed.wait_for(&["demo-0: run 1 begins"]);
    scheduler.signal("-TERM");
    assert!(scheduler.wait().success());
    check(&store, 1, &printed, 0);
}

#[test]
fn stdin_and_other_processes_add_jobs() {
    let (directory, store) = file();
    let printed = Printed::default();
    let done = directory.path().join("done");
    let exec = format!("echo \"$JOB_KEY $JOB_PAYLOAD\" >> {}", done.display());
    let options = ["--exec", &exec, "--until-finished"];
    let mut scheduler = Scheduler::start(&store, &options, &printed);
    printed.wait_for(&["ready"]);
    let add = [
        "add", "--store", &store, "--id", "bob", "--in", "100ms", "mail bob",
    ];
    assert!(ask(&add).starts_with("bob is due at "));
    assert_eq!(ask(&add), "bob is known already\n");
    let lines = b"100ms mail alice\nmail carol\n\n5 parsecs\n";
    scheduler.stdin().write_all(lines).unwrap();
    assert!(scheduler.wait().success());
    let refused = |parts: &[&str]| drop(printed.wait_for(parts));
    refused(&["line 2 is refused", "as in `5s mail carol`"]);
    let done = std::fs::read_to_string(done).unwrap();
    assert!(done.contains("bob/1 mail bob\n"), "{done}");
    assert!(done.contains("/1 mail alice\n"), "{done}");
    assert_eq!(done.lines().count(), 3, "5 ms is a delay: {done}");
    assert_eq!(ask(&add), "bob is known already\n");
}

#[test]
fn a_file_has_one_scheduler() {
    let (_directory, store) = file();
    let printed = Printed::default();
    let _first = Scheduler::start(&store, &[], &printed);
    printed.wait_for(&["ready"]);
    let second = Printed::default();
    assert!(!Scheduler::start(&store, &[], &second).wait().success());
    second.wait_for(&["is a scheduler running?"]);
}

#[test]
fn a_closed_stdout_ends_it_cleanly() {
    let (_directory, store) = file();
    let mut head = Command::new(PROGRAM)
        .args(["run", "--store", &store, "--report", "10ms"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(head.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("ready"), "{line}");
    let printed = Printed::default();
    let reader = printed.read(head.stderr.take().unwrap());
    assert!(wait_for_end(&mut head, &printed).success());
    reader.join().unwrap();
    assert_eq!(printed.lines(), [""; 0]);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let (directory, store) = file();
    let folder = directory.path().to_str().unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "no store").unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["run", "--store", folder], "cannot open"),
        (
            &["status", "--store", text.to_str().unwrap()],
            "a file of this program's own",
        ),
        (&["status", "--store", &store], "there is no store"),
        (
            &["run", "--store", &store, "--workers", "0"],
            "0 is not in 1..=65535",
        ),
        (
            &["run", "--store", &store, "--fail", "2"],
            "a number from 0 to 1",
        ),
        (
            &["add", "--store", &store, "--backoff", "1h", "x"],
            "make the latter longer",
        ),
        (
            &["add", "--store", &store, "--in", "101years", "x"],
            "longer than a hundred years",
        ),
    ];
    for (arguments, hint) in cases {
        let refused = command(arguments);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{arguments:?} is not refused");
        assert!(said.contains(hint), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}
