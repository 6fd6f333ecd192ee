//! `cargo run --release -p tickwheel-bench`: what the command line asks for.

use std::error::Error;
use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tickwheel_bench::conductor;
use tickwheel_bench::part::Part;
use tickwheel_bench::parts::PARTS;
use tickwheel_bench::results::{Facts, Results, Run};
use tickwheel_bench::settings::{Settings, target_folder};
use tickwheel_bench::{report, stalls};

/// Measures tickwheel against its peers.
///
/// A whole run takes about twenty minutes, and some more where it builds its programs for the first
/// time. It is kept as benches/results.json, from which it writes benches/RESULTS.md
/// and the table in README. A run with --quick or --only goes to the target folder instead.
#[derive(Parser)]
struct Options {
    /// A smoke run: short samples, few rounds, smaller numbers. Its figures say little.
    #[arg(long)]
    quick: bool,

    /// Run this part only; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = PARTS.iter().map(|part| part.name).collect::<Vec<_>>())]
    only: Vec<String>,

    /// List the parts, and in which state each has its contenders.
    #[arg(long)]
    list: bool,

    /// Measure nothing: take the run that was kept last, and write again what is made of it.
    #[arg(long, conflicts_with_all = ["quick", "only", "list"])]
    kept: bool,

    /// Tell too how each row stands to its limit, and fail if one is missed.
    #[arg(long)]
    limits: bool,

    /// Measure a part within this process, and print records. What the program calls itself with.
    #[arg(long, hide = true)]
    inside: Option<String>,

    /// Of that part, one contender.
    #[arg(long, hide = true)]
    contender: Option<String>,
}

fn main() -> ExitCode {
    // Output that is cut off, as by `| head -1`, ends the program without a panic.
    sigpipe::reset();
    let options = Options::parse();
    if has_test_util() {
        eprintln!(
            "tokio/test-util is in this build and slows tokio's clock, so its figures would be worth nothing. \
             Build this package alone: cargo run --release -p tickwheel-bench"
        );
        return ExitCode::FAILURE;
    }
    let settings = Settings::new(options.quick);
    if let Some(part) = &options.inside {
        conductor::measure_inside(part, options.contender.as_deref(), &settings);
        return ExitCode::SUCCESS;
    }
    if options.list {
        for part in PARTS {
            println!(
                "{:<14} {}\n{:<14} {}\n",
                part.name, part.about, "", part.state
            );
        }
        return ExitCode::SUCCESS;
    }
    match run(&options, &settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is as it was asked for.
fn run(options: &Options, settings: &Settings) -> Result<bool, Box<dyn Error>> {
    let run = if options.kept {
        Run::load(Run::kept_in())?
    } else {
        Run {
            facts: Facts::gather(),
            results: measure(options, settings),
        }
    };
    let is_whole = !options.quick && options.only.is_empty();
    let mut is_well = run.results.failures.is_empty();
    let keeps = options.kept || is_whole && is_well;
    let page = report::page(&run);
    println!("{page}");
    if options.limits {
        let (limits, missed) = report::limits(&run.results);
        println!("{limits}\n{missed} limits are missed");
        is_well &= missed == 0;
    }
    // Only a whole run replaces what the repository keeps.
    let folder = if keeps {
        Run::kept_in().to_owned()
    } else {
        target_folder().unwrap_or_default().join("tickwheel-bench")
    };
    run.save(&folder)?;
    fs::write(folder.join("RESULTS.md"), page)?;
    if keeps {
        let readme = folder.join("../README.md");
        let updated = report::readme(&fs::read_to_string(&readme)?, &run.results)?;
        fs::write(folder.join("charts/stalls.svg"), stalls::picture(&updated))?;
        fs::write(readme, updated)?;
    }
    println!("Written to {}", folder.display());
    Ok(is_well && (keeps || !is_whole))
}

fn measure(options: &Options, settings: &Settings) -> Results {
    if cfg!(debug_assertions) {
        eprintln!("This is not a release build: its figures say nothing.");
    }
    let mut results = Results::default();
    let only = &options.only;
    let is_asked = |part: &&Part| only.is_empty() || only.iter().any(|name| name == part.name);
    for part in PARTS.iter().filter(is_asked) {
        eprint!("{:<14} {} … ", part.name, part.about);
        let begin = Instant::now();
        let outcome = conductor::measure(part, settings);
        eprintln!("{:.0} s", begin.elapsed().as_secs_f64());
        match outcome {
            Ok(records) => results.records.extend(records),
            Err(reason) => {
                eprintln!("{} failed: {reason}", part.name);
                results.failures.push((part.name.to_owned(), reason));
            }
        }
    }
    results
}

/// Whether `tokio/test-util` is in this build. With it, every reading of tokio's clock looks first
/// whether the clock is paused. This slows tokio and everything that is built on it.
///
/// A glob import loses only against an explicit name of the same scope. So the inner `pause` is
/// tokio's where tokio has one, and it has one with `test-util` only. Otherwise it is the outer
/// one.
fn has_test_util() -> bool {
    #[allow(dead_code)] // The inner one is taken where there is one.
    fn pause() {}
    {
        #[allow(unused_imports)] // Without `test-util` nothing of it is used.
        use tokio::time::*;
        std::any::type_name_of_val(&pause).starts_with("tokio::")
    }
}
