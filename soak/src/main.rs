//! Runs random programs against tickwheel in real time, on real threads, until something impossible
//! happens or the time is up: `cargo run --release -p tickwheel-soak -- --time 1h`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use peak_alloc::PeakAlloc;
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};
use tickwheel_soak::finding::{Findings, Kind};
use tickwheel_soak::program::Setting;
use tickwheel_soak::random::{self, Cast};
use tickwheel_soak::totals::Totals;
use tickwheel_soak::{children, ends, faults, histories};
use tokio::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

#[derive(Debug, Parser)]
#[command(about = "Random programs against tickwheel, in real time")]
struct Options {
    /// For how long.
    #[arg(long, default_value = "1m", value_parser = humantime::parse_duration)]
    time: Duration,
    /// The seed of the first program. Each later one has the next.
    #[arg(long)]
    seed: Option<u64>,
    /// Programs of these kinds alone, by turns.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,
    /// Stop at the first finding.
    #[arg(long)]
    first: bool,
}

type Run = fn(Setting) -> bool;

/// The programs by their names. Each gives `false` if it hangs. Those of other processes are in
/// `children`.
const PROGRAMS: [(&str, Run); 6] = [
    ("all", |setting| random::run(Cast::All, setting)),
    ("deadline", |setting| random::run(Cast::Deadline, setting)),
    ("deadline_map", |setting| {
        random::run(Cast::DeadlineMap, setting)
    }),
    ("delay_map", |setting| random::run(Cast::DelayMap, setting)),
    ("ends", ends::run),
    ("histories", |setting| {
        if let Err((kind, text)) = histories::run(setting.seed) {
            let again = format!("--only histories --seed {}", setting.seed);
            setting.findings.report(kind, setting.name, &again, &text);
        }
        true
    }),
];

/// The order in which programs follow each other.
const ROUND: [&str; 10] = [
    "all",
    "ends",
    "delay_map",
    "deadline",
    "all",
    "ends",
    "deadline_map",
    "delay_map",
    "ends",
    // A reset of a sleep on tokio's alternative timer loses the waker of the poll before. So there
    // is nothing to compare with.
    if cfg!(tokio_unstable) {
        "ends"
    } else {
        "histories"
    },
];

/// A round of the children is long. So it comes by the clock, once for so much time of the others.
const BETWEEN: Duration = Duration::from_secs(10);
/// A program that takes longer than this hangs, whatever it does.
const LONGEST: Duration = Duration::from_secs(180);
/// So much memory may stay after a program: what threads and libraries keep.
const KEPT: usize = 1 << 20;

fn names() -> Vec<&'static str> {
    let here = PROGRAMS.map(|(name, _)| name).into_iter();
    here.chain(children::names()).collect()
}

fn main() -> ExitCode {
    let options = Options::parse();
    faults::quiet_panics();
    let seed = options
        .seed
        .unwrap_or_else(|| fastrand::u64(..1_000_000_000));
    println!(
        "seed {seed}, for {}",
        humantime::format_duration(options.time)
    );
    let only = &options.only;
    if only.is_empty() || children::names().any(|name| only.iter().any(|only| only == name)) {
        if let Err(error) = children::build(seed) {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    }
    let (findings, totals) = (Arc::new(Findings::default()), Arc::new(Totals::default()));
    let now_running = watch(findings.clone(), totals.clone());
    let start = Instant::now();
    let (mut told, mut baseline) = (start, None);
    let mut last_long = start;
    let mut hangs = false;
    for number in 0.. {
        if start.elapsed() >= options.time || hangs || options.first && !findings.is_empty() {
            break;
        }
        let is_long_due = last_long.elapsed() > BETWEEN;
        let wanted = match is_long_due {
            _ if !only.is_empty() => &only[number as usize % only.len()],
            true => children::ALL,
            false => ROUND[number as usize % ROUND.len()],
        };
        let setting = Setting {
            name: names()
                .into_iter()
                .find(|name| *name == wanted)
                .expect("the parser takes these names alone"),
            seed: seed + number,
            findings: findings.clone(),
            totals: totals.clone(),
            may_disturb: true,
        };
        let name = setting.name;
        now_running.store(seed + number, Ordering::SeqCst);
        match PROGRAMS.into_iter().find(|(name, _)| *name == wanted) {
            Some((_, run)) => {
                hangs = !run(setting);
                totals.programs.fetch_add(1, Ordering::Relaxed);
            }
            None => children::run(setting),
        }
        if name == children::ALL {
            last_long = Instant::now();
        }
        if number >= 20 && !hangs {
            let again = format!("--only {} --seed {}", name, seed + number);
            check_memory(&findings, &mut baseline, name, &again);
        }
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            println!("{}", progress(start, &totals, &findings));
        }
    }
    println!("{}", progress(start, &totals, &findings));
    if hangs {
        println!("{}", threads());
    }
    if findings.is_empty() {
        println!("clean");
        return ExitCode::SUCCESS;
    }
    println!("found:\n{findings}");
    ExitCode::FAILURE
}

/// Ends the process if one program takes too long. Gives where the seed of the program is to be
/// put.
fn watch(findings: Arc<Findings>, totals: Arc<Totals>) -> Arc<AtomicU64> {
    let seed = Arc::<AtomicU64>::default();
    let watched = seed.clone();
    thread::spawn(move || {
        let mut last = (0, Instant::now());
        loop {
            thread::sleep(Duration::from_secs(1));
            let programs = totals.all();
            if programs != last.0 {
                last = (programs, Instant::now());
            }
            if last.1.elapsed() > LONGEST {
                let seed = watched.load(Ordering::SeqCst);
                findings.report(Kind::Hang, "?", &format!("--seed {seed}"), &threads());
                println!("found:\n{findings}");
                std::process::exit(3);
            }
        }
    });
    seed
}

/// What each thread of this process does.
fn threads() -> String {
    let mut told = String::from("threads:");
    for task in std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (name, wait, stat) = (read("comm"), read("wchan"), read("stat"));
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        told += &format!("\n  {} {state:?} {wait}", name.trim());
    }
    told
}

fn check_memory(findings: &Findings, baseline: &mut Option<usize>, name: &str, again: &str) {
    let limit = baseline.map(|before| before + KEPT);
    let mut used = ALLOCATOR.current_usage();
    // A runtime that was shut down in the background frees its memory a little later.
    for _ in 0..100 {
        if limit.is_none_or(|limit| used < limit) {
            break;
        }
        thread::sleep(Duration::from_millis(20));
        used = ALLOCATOR.current_usage();
    }
    if limit.is_some_and(|limit| used >= limit) {
        let grown = used - baseline.unwrap_or(used);
        findings.report(
            Kind::Memory,
            name,
            again,
            &format!("{grown} bytes more than before"),
        );
        *baseline = Some(used);
    }
    baseline.get_or_insert(used);
}

fn progress(start: Instant, totals: &Totals, findings: &Findings) -> String {
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (programs, paused) = (count(&totals.programs), totals.beside("paused"));
    format!(
        "{:>6.0} s  {} programs, {} paused programs, {} of other children, {} timers fired, {} calls judged, {} KiB in use, {} MiB resident, {} findings",
        start.elapsed().as_secs_f64(),
        programs,
        paused,
        totals.all() - programs - paused,
        count(&totals.fired),
        count(&totals.calls),
        ALLOCATOR.current_usage() >> 10,
        resident() >> 20,
        findings.len(),
    )
}

/// The memory that the system has given to this process.
fn resident() -> u64 {
    let (Ok(pid), Ok(mut system)) = (sysinfo::get_current_pid(), System::new()) else {
        return 0;
    };
    let kind = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, kind);
    system.process(pid).map_or(0, sysinfo::Process::memory)
}
