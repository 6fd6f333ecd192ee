//! `cargo run --release -p tickwheel-bench`: what the command line asks for.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tickwheel_bench::conductor;
use tickwheel_bench::guard::has_test_util;
use tickwheel_bench::parts::{PARTS, Part};
use tickwheel_bench::report::tables::{self, Style};
use tickwheel_bench::report::{Facts, Neighbours, Results, charts};
use tickwheel_bench::settings::Settings;

/// Measures tickwheel against its peers.
///
/// A whole run takes about twenty minutes, and the first time two more, to build tokio's
/// alternative timer and kestrel-timer. It writes benches/RESULTS.md and benches/charts/; one with
/// --quick or --only writes to the target folder instead.
#[derive(Parser)]
struct Options {
    /// A smoke run: short samples, few rounds, smaller numbers, and without the parts that build
    /// peers of their own. Its figures say little.
    #[arg(long)]
    quick: bool,

    /// Run this part only; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = PARTS.iter().map(|part| part.name).collect::<Vec<_>>())]
    only: Vec<String>,

    /// List the parts.
    #[arg(long)]
    list: bool,

    /// Measure a part within this process, and print records. What the program calls itself with.
    #[arg(long, hide = true)]
    inside: Option<String>,

    /// Of that part, one contender.
    #[arg(long, hide = true)]
    contender: Option<String>,
}

impl Options {
    fn ask_for(&self, part: &Part) -> bool {
        if self.only.is_empty() {
            !(self.quick && part.builds_peers())
        } else {
            self.only.iter().any(|name| name == part.name)
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if has_test_util() {
        eprintln!(
            "tokio/test-util is in this build and slows tokio's clock, so its figures would be worth nothing. \
             Build this package alone: cargo run --release -p tickwheel-bench"
        );
        return ExitCode::FAILURE;
    }
    let settings = if options.quick {
        Settings::quick()
    } else {
        Settings::full()
    };
    if let Some(part) = &options.inside {
        conductor::measure_inside(part, options.contender.as_deref(), &settings);
        return ExitCode::SUCCESS;
    }
    if options.list {
        for part in PARTS {
            println!("{:<14} {}", part.name, part.about);
        }
        return ExitCode::SUCCESS;
    }
    match run(&options, &settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, settings: &Settings) -> Result<(), Box<dyn Error>> {
    if cfg!(debug_assertions) {
        eprintln!("This is not a release build: its figures say nothing.");
    }
    let mut results = Results::default();
    for part in PARTS.iter().filter(|part| options.ask_for(part)) {
        eprint!("{:<14} {} … ", part.name, part.about);
        let (begin, before) = (Instant::now(), Neighbours::now());
        let outcome = conductor::measure(part, settings);
        eprint!("{:.0} s", begin.elapsed().as_secs_f64());
        if let (Some(before), Some(now)) = (before, Neighbours::now()) {
            let share = now.share_since(&before);
            eprint!(", others took {:.0} % of the machine", share * 100.0);
            results.neighbours.push((part.name, share));
        }
        eprintln!();
        match outcome {
            Ok(records) => results.records.extend(records),
            Err(reason) => {
                eprintln!("{} failed: {reason}", part.name);
                results.failures.push((part.name, reason));
            }
        }
    }

    println!("\n{}\n", tables::all_rows(&results, Style::Terminal));
    println!("{}\n", tables::lateness(&results, Style::Terminal));
    println!("{}\n", tables::all_goals(&results, Style::Terminal));
    println!("{}", tables::where_we_lose(&results));
    println!("{}", tables::neighbours(&results));
    let folder = folder_for(options);
    fs::create_dir_all(folder.join("charts"))?;
    fs::write(
        folder.join("RESULTS.md"),
        tables::markdown(&results, &Facts::gather()),
    )?;
    charts::draw(&results, &folder.join("charts"))?;
    println!("Written to {}", folder.display());
    Ok(())
}

/// Only a whole run replaces the results that the repository keeps.
fn folder_for(options: &Options) -> PathBuf {
    if options.quick || !options.only.is_empty() {
        conductor::target_folder()
            .unwrap_or_default()
            .join("tickwheel-bench")
    } else {
        Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
    }
}
