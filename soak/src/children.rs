//! The programs that cannot run in this process: those under tokio's paused clock need
//! `tokio/test-util`, which the soak must not have. Each is a test that cargo builds once. It runs
//! as a child, for a batch of seeds, and what it prints when it fails is the finding.
//!
//! The children of a round keep all cores busy, and nothing runs beside them.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, JoinHandle};

use tokio::time::{Duration, Instant};

use crate::finding::Kind;
use crate::program::Setting;

struct Child {
    name: &'static str,
    /// What cargo is told to build.
    build: &'static str,
    /// What the built program is told to run.
    run: &'static str,
    /// The variables for the first seed, and for how many there are.
    variables: [&'static str; 2],
    /// How many programs a batch has. That is a second or two on one core.
    batch: u64,
    /// How many batches a round has.
    batches: u64,
}

/// All children. Whatever takes a seed and a count from its environment, and fails with a text, is
/// one line more.
const CHILDREN: [Child; 11] = [
    oracle("paused", "random_programs_do_what", 2_000, 8),
    oracle("wheel", "the_bare_wheel_does_what", 20_000, 1),
    oracle("parity", "the_same_program_does_the_same", 4_000, 1),
    oracle("paused-wakers", "wakers_that_panic_or_meddle", 1_000, 1),
    oracle("paused-keys", "keys_and_values_that_panic", 1_000, 1),
    schedules("schedules-deadline", "--only=deadline"),
    schedules("schedules-deadline-map", "--only=deadline_map"),
    schedules("schedules-delay-map", "--only=delay_map"),
    schedules("schedules-sleep", "--only=sleep"),
    schedules("schedules-restart", "--only=restart"),
    schedules("schedules-warn-before", "--only=warn_before"),
];

const fn oracle(name: &'static str, run: &'static str, batch: u64, batches: u64) -> Child {
    Child {
        name,
        build: "test --release --all-features --test oracle --no-run",
        run,
        variables: ["ORACLE_SEED", "ORACLE_PROGRAMS"],
        batch,
        batches,
    }
}

const fn schedules(name: &'static str, run: &'static str) -> Child {
    Child {
        name,
        build: "build --release -p tickwheel-schedules",
        run,
        variables: ["SEED", "SCHEDULES"],
        batch: 5_000,
        batches: 1,
    }
}

/// The name of a round of all of them.
pub const ALL: &str = "children";

/// A batch that takes longer than this hangs. One takes two seconds of CPU, and a busy machine may
/// take minutes for it.
const LONGEST: Duration = Duration::from_secs(600);

/// The built programs, by what cargo was told.
static BUILT: OnceLock<BTreeMap<&str, PathBuf>> = OnceLock::new();
/// Where the seeds of all children begin.
static FIRST: OnceLock<u64> = OnceLock::new();

pub fn names() -> impl Iterator<Item = &'static str> {
    CHILDREN.iter().map(|child| child.name).chain([ALL])
}

/// Builds the programs, which takes some minutes the first time.
///
/// # Errors
///
/// What cargo could not do. It has told the rest itself.
pub fn build(first: u64) -> Result<(), String> {
    let mut built = BTreeMap::new();
    for Child { build, .. } in CHILDREN {
        if !built.contains_key(build) {
            built.insert(build, build_one(build)?);
        }
    }
    let _ = FIRST.set(first);
    let _ = BUILT.set(built);
    Ok(())
}

fn build_one(build: &str) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(build.split(' '))
        .arg("--message-format=json")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .stderr(Stdio::inherit())
        .output();
    let output = output.map_err(|error| error.to_string())?;
    let messages = String::from_utf8_lossy(&output.stdout);
    let path = messages.rsplit_once("\"executable\":\"");
    let path = path.and_then(|(_, rest)| rest.split_once('"'));
    match path {
        Some((path, _)) if output.status.success() => Ok(path.into()),
        _ => Err(format!("`cargo {build}` gave no program")),
    }
}

/// Runs a round of one kind of child, or of all of them.
pub fn run(setting: Setting) {
    let mut batches = VecDeque::new();
    for child in &CHILDREN {
        if [child.name, ALL].contains(&setting.name) {
            let begun = setting.totals.beside(child.name);
            let first = FIRST.get().expect("it was built") + begun;
            let firsts = (0..child.batches).map(|number| first + number * child.batch);
            batches.extend(firsts.map(|first| (child, first)));
        }
    }
    let batches = Mutex::new(batches);
    let next = || batches.lock().unwrap().pop_front();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((child, first)) = next() {
                    run_batch(&setting, child, first);
                }
            });
        }
    });
}

fn run_batch(setting: &Setting, child: &Child, first: u64) {
    let [seed, count] = child.variables;
    let path = &BUILT.get().expect("it was built")[child.build];
    let mut process = Command::new(path)
        .arg(child.run)
        .env(seed, first.to_string())
        .env(count, child.batch.to_string())
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("what cargo has built can be started");
    let texts = [
        read(process.stdout.take().expect("it is piped")),
        read(process.stderr.take().expect("it is piped")),
    ];
    let start = Instant::now();
    let mut hangs = false;
    let status = loop {
        match process.try_wait().expect("nobody else waits for it") {
            Some(status) => break status,
            None if start.elapsed() > LONGEST => {
                hangs = true;
                process.kill().expect("it is ours");
            }
            None => {}
        }
        thread::sleep(Duration::from_millis(10));
    };
    let texts = texts.map(|text| text.join().expect("reading does not panic"));
    setting.totals.add_beside(child.name, child.batch);
    if !status.success() {
        let kind = if hangs { Kind::Hang } else { Kind::Model };
        let (build, run, batch) = (child.build, child.run, child.batch);
        let again = format!("{seed}={first} {count}={batch} cargo {build}, and {run}");
        let findings = &setting.findings;
        findings.report(kind, child.name, &again, &failure(&texts.concat()));
    }
}

fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The message of the panic in what a test program has printed, or all of it.
fn failure(text: &str) -> String {
    let from = text.find("panicked at").unwrap_or(0);
    let (text, _) = text[from..]
        .split_once("\nnote: ")
        .unwrap_or((&text[from..], ""));
    text.trim().to_owned()
}
