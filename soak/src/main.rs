//! Runs random programs against tickwheel in real time, on real threads, until the time is up or a
//! program hangs: `cargo run --release -p tickwheel-soak -- --time 1h`. It reports what is
//! impossible, and with `--first` it stops there.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use peak_alloc::PeakAlloc;
use tickwheel_soak::finding::{Findings, Kind, quiet_panics};
use tickwheel_soak::program::{Setting, Totals};
use tickwheel_soak::random;
use tickwheel_soak::{ends, histories};
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
    #[arg(long, default_value_t = fastrand::u64(..1_000_000_000))]
    seed: u64,
    /// Programs of these kinds alone, by turns.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(PROGRAMS.map(|(name, _)| name)))]
    only: Vec<String>,
    /// Stop at the first finding.
    #[arg(long)]
    first: bool,
}

type Run = fn(Setting) -> bool;

/// The programs by their names. Each gives `false` if it hangs.
const PROGRAMS: [(&str, Run); 5] = [
    ("all", |setting| random::run(random::ALL, setting)),
    ("deadline_map", |setting| {
        random::run(random::DEADLINE_MAP, setting)
    }),
    ("delay_map", |setting| {
        random::run(random::DELAY_MAP, setting)
    }),
    ("ends", ends::run),
    ("histories", |setting| {
        if let Err((kind, text)) = histories::run(setting.seed) {
            let again = format!("--only histories --seed {}", setting.seed);
            setting.findings.report(kind, &again, &text);
        }
        true
    }),
];

/// The order in which programs follow each other.
const ROUND: [&str; 9] = [
    "all",
    "ends",
    "delay_map",
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

/// So much memory may stay after a program: what threads and libraries keep.
const KEPT: usize = 1 << 20;

fn main() -> ExitCode {
    let options = Options::parse();
    quiet_panics();
    let (seed, time) = (options.seed, options.time);
    println!("seed {seed}, for {}", humantime::format_duration(time));
    let (findings, totals) = (Arc::new(Findings::default()), Arc::new(Totals::default()));
    let start = Instant::now();
    let (mut printed, mut baseline) = (start, None);
    let order = if options.only.is_empty() {
        ROUND.map(str::to_owned).into()
    } else {
        options.only
    };
    for (seed, wanted) in (seed..).zip(order.iter().cycle()) {
        let wanted = PROGRAMS.into_iter().find(|(name, _)| name == wanted);
        let (name, run) = wanted.expect("the parser takes these names alone");
        let has_ended = run(Setting {
            name,
            seed,
            findings: findings.clone(),
            totals: totals.clone(),
        });
        let programs = totals.programs.fetch_add(1, Ordering::Relaxed);
        if programs >= 20 && has_ended {
            let again = format!("--only {name} --seed {seed}");
            check_memory(&findings, &mut baseline, &again);
        }
        let is_over = start.elapsed() >= time || options.first && !findings.is_empty();
        if is_over || !has_ended || printed.elapsed() > Duration::from_secs(10) {
            printed = Instant::now();
            println!("{}", progress(start, &totals, &findings));
        }
        if is_over || !has_ended {
            break;
        }
    }
    if findings.is_empty() {
        println!("clean");
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

fn check_memory(findings: &Findings, baseline: &mut Option<usize>, again: &str) {
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
        let text = format!("{grown} bytes more than before");
        findings.report(Kind::Memory, again, &text);
        *baseline = Some(used);
    }
    baseline.get_or_insert(used);
}

fn progress(start: Instant, totals: &Totals, findings: &Findings) -> String {
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    format!(
        "{:>6.0} s  {} programs, {} timers fired, {} calls checked, {} KiB in use, {} findings",
        start.elapsed().as_secs_f64(),
        count(&totals.programs),
        count(&totals.fired),
        count(&totals.calls),
        ALLOCATOR.current_usage() >> 10,
        findings.len(),
    )
}
