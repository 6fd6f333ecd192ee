//! Runs small random programs of a `Sleep`, a `Deadline` and both maps under random schedules of
//! their threads, and on clocks that step, for what is too large for `tests/loom`:
//!
//! ```sh
//! SCHEDULES=100000 cargo run --release -p tickwheel-schedules    # 100,000 of each program
//! cargo run --release -p tickwheel-schedules -- --only delay_map --seed 7
//! cargo run --release -p tickwheel-schedules --no-default-features    # as without tokio/test-util
//! cargo run --release -p tickwheel-schedules -- --only delay_map --replay /tmp/schedule000.txt
//! ```
//!
//! Each run begins at another seed, and prints it. It fails at the first schedule in which
//! something impossible happens. It writes that schedule to a file, and says which. `--replay` runs
//! that one again and prints every call, every step of the clock and every wake-up.
//!
//! # How
//!
//! The crate is compiled as it is, all but its optional features. Only its `std` and its `tokio`
//! are others:
//!
//! | package | what |
//! |---|---|
//! | `tickwheel` | `src/lib.rs` of the crate, with the next two as its `std` and its `tokio` |
//! | `std` | the standard library with shuttle's locks, atomics, threads and thread-locals, and with a clock that passes by 1 ns with each reading, and else when a program lets time pass or makes it step |
//! | `tokio` | sleeps, a time driver and tasks, which behave as tokio's: `tests/tokio.rs` compares them |
//! | `../model` | whether the calls and what came of them are possible; the soak has it too |
//! | `../programs` | the random calls on both maps; the soak has them too, and this is no package |
//! | this one | the other programs, and how each begins and ends |
//!
//! So shuttle chooses which thread goes on at each atomic operation, each lock and each reading of
//! the clock. It takes all orderings for sequentially consistent: weaker ones are for loom. A
//! `thread_local!` of the crate is shuttle's only if it is written `std::thread_local!`. Any other
//! is shared by all threads of all schedules. `--twice` finds out: it runs each schedule twice, and
//! both runs must be equal.
//!
//! A *schedule* here has its own program too: the kind of the runtime (several workers, one, or a
//! paused clock), the length of a tick, whether time passes at random or only from one timer to the
//! next, when the runtime ends, and the calls of each thread. The time driver is one more thread,
//! and turns the crate's wheels. Batches of 100 schedules come by turns from shuttle's random
//! scheduler and from its scheduler by random priorities (PCT). In each eighth batch the clock is
//! coarse: it shows every 15.6 ms only, as some systems' clocks do.
//!
//! # What is checked
//!
//! - No wake-up is lost. If one is, all threads wait, and shuttle calls it a deadlock. Or the
//!   consumer is woken too late, by the next timer.
//! - Each value comes out once. Each deadline has one outcome, and every answer agrees with it.
//! - Nothing is early: nothing expires before the time that the last call to set it gave it.
//! - Nothing that is gone pulls a clock along that can be paused.
//! - In the end the maps are empty, and nothing is armed.
//! - A clock that steps back a little, differs between threads or jumps ahead ends nothing. Nothing
//!   is early or late by more than that.

mod clock;
mod deadline;
mod deadline_map;
mod delay_map;
mod history;
#[path = "../../programs/mod.rs"]
mod programs;
mod record;
mod restart;
mod schedule_world;
mod sleep;
mod wait;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::PossibleValuesParser;
use shuttle::scheduler::{
    PctScheduler, RandomScheduler, ReplayScheduler, UncontrolledNondeterminismCheckScheduler,
};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use under_std::time::set_grain;

#[derive(Debug, Parser)]
#[command(
    about = "Small programs of tickwheel's sleeps, deadlines and maps under random schedules"
)]
struct Options {
    /// How many schedules of each program.
    #[arg(long, env = "SCHEDULES", default_value_t = 1000)]
    schedules: u64,
    /// The seed of the first batch of schedules. Each later one has the next. Another one for each
    /// run, if it is not given.
    #[arg(long, env = "SEED", default_value_t = fastrand::u64(..1_000_000_000))]
    seed: u64,
    /// This program alone.
    #[arg(long, value_parser = PossibleValuesParser::new(PROGRAMS.map(|(name, _)| name)))]
    only: Option<String>,
    /// The schedule in this file alone, of the program of `--only`.
    #[arg(long, requires = "only")]
    replay: Option<std::path::PathBuf>,
    /// With a clock that shows every 15.6 ms only, as in each eighth batch.
    #[arg(long, requires = "replay")]
    coarse: bool,
    /// Each schedule twice, to see whether both runs are equal.
    #[arg(long)]
    twice: bool,
}

const PROGRAMS: [(&str, fn()); 7] = [
    ("clock", clock::run),
    ("deadline", deadline::run),
    ("warn_before", deadline::run_with_warnings),
    ("deadline_map", deadline_map::run),
    ("delay_map", delay_map::run),
    ("restart", restart::run),
    ("sleep", sleep::run),
];

/// How many schedules of a program have begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// A failure that needs so many changes of priorities is found with a known probability.
const PCT_DEPTH: usize = 3;

/// So many schedules have one seed.
const BATCH: u64 = 100;

/// How far apart a coarse clock's readings are: 64 of them in a second.
const COARSE: Duration = Duration::from_micros(15_625);

fn main() -> ExitCode {
    let options = Options::parse();
    if options.replay.is_none() {
        println!("the first seed is {}", options.seed);
    }
    let is_chosen = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    for (name, run) in PROGRAMS.into_iter().filter(|(name, _)| is_chosen(name)) {
        if let Some(path) = &options.replay {
            record::trace_all();
            set_grain(if options.coarse {
                COARSE
            } else {
                Duration::ZERO
            });
            let schedule = ReplayScheduler::new_from_file(path).expect("the file can be read");
            Runner::new(schedule, config()).run(run);
            println!("{name}: the schedule passes");
        } else if !explore(name, run, &options) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs many schedules of a program. `false` if one fails.
fn explore(name: &str, run: fn(), options: &Options) -> bool {
    let began = Instant::now();
    let counted = move || {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        run();
    };
    BEGUN.store(0, Ordering::Relaxed);
    let mut left = options.schedules;
    for seed in options.seed.. {
        let batch = BATCH.min(left);
        if batch == 0 {
            break;
        }
        let explore = || run_batch(counted, seed, batch, options.twice);
        if catch_unwind(AssertUnwindSafe(explore)).is_err() {
            let number = BEGUN.load(Ordering::Relaxed);
            eprintln!("{name}: schedule {number} has failed, of the batch with the seed {seed}");
            eprintln!("its batch again: --only {name} --seed {seed} --schedules {batch}");
            let coarse = if is_coarse(seed) { "--coarse " } else { "" };
            eprintln!(
                "it alone: --only {name} {coarse}--replay and the first file that is named above"
            );
            return false;
        }
        left -= batch;
    }
    let number = options.schedules;
    println!(
        "{name}: {number} schedules passed in {:.1?}",
        began.elapsed()
    );
    true
}

fn is_coarse(seed: u64) -> bool {
    seed % 8 == 0
}

/// Batches of random schedules and by random priorities come by turns.
fn run_batch(run: impl Fn() + Send + Sync + 'static, seed: u64, schedules: u64, twice: bool) {
    set_grain(if is_coarse(seed) {
        COARSE
    } else {
        Duration::ZERO
    });
    let schedules = schedules as usize;
    let random = || RandomScheduler::new_from_seed(seed, schedules);
    if twice {
        let scheduler = UncontrolledNondeterminismCheckScheduler::new(random());
        Runner::new(scheduler, config()).run(run);
    } else if seed % 2 == 1 {
        Runner::new(random(), config()).run(run);
    } else {
        let scheduler = PctScheduler::new_from_seed(seed, PCT_DEPTH, schedules);
        Runner::new(scheduler, config()).run(run);
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 256 * 1024;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.silence_warnings = true;
    config.failure_persistence = FailurePersistence::File(Some(std::env::temp_dir()));
    config
}
