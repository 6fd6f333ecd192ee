//! How many instructions each operation takes, as valgrind's callgrind counts them: nearly the same
//! number in each run, so that a change of the hot path shows to a per cent.
//!
//! ```sh
//! cargo run --release -p tickwheel-bench --bin instructions
//! CARGO_PROFILE_RELEASE_LTO=thin cargo run --release -p tickwheel-bench --bin instructions
//! ```
//!
//! The first is how cargo builds a program unless a flag says otherwise; the second lets the
//! compiler inline across crates. It runs either way, and the counts differ, so compare only tables
//! that were built alike.
//!
//! The operations are those that the parts measure. The program calls itself under callgrind, once
//! for each row and contender, with two counts. The difference is what one operation takes: start
//! and end drop out. Of an operation the calling thread alone is counted, and the driver is on
//! another. An idiom, and a loop that awaits what is due already, have all on one thread. A sleep
//! stands next to each, as in the parts. A reading of the clock counts as little as a system
//! call does, alike for all.

use std::env;
use std::process::Command;
use std::task::{Context, Waker};

use tickwheel_bench::harness::{Operation, Race, Standing, runtime};
use tickwheel_bench::idioms::{IDIOMS, Idiom, PAST};
use tickwheel_bench::part::name;
use tickwheel_bench::parts::COUNTED;
use tickwheel_bench::report::table;
use tickwheel_bench::results::shown;
use tickwheel_bench::rows::rows;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match &arguments[..] {
        [] => println!("{}\n{}", operations(), idioms()),
        // What the program calls itself with.
        [row, contender, times] => run(row, contender, times.parse().expect("a number")),
        _ => eprintln!("it takes no arguments"),
    }
}

/// An operation runs on a thread that is none of the runtime's, next to workers that drive. An
/// idiom runs on a runtime of the current thread.
fn run(row: &str, contender: &str, times: usize) {
    fastrand::seed(7); // the same keys and durations in each run
    match loops().find(|idiom| idiom.row(0) == row) {
        Some(idiom) => {
            let program = match contender {
                name::DROP_IN => idiom.tickwheel,
                name::TOKIO => idiom.tokio,
                _ => idiom.no_timer,
            };
            let runtime = runtime(0);
            let _standing = Standing::of(contender, &runtime);
            runtime.block_on(program(1, times));
        }
        None => {
            let mut races = COUNTED.iter().map(|race| race());
            let race = races.find(|race| race.row == row);
            let (runtime, mut hand) = race.expect("there is that row").alone(contender);
            let _standing = Standing::of(contender, &runtime);
            let _within = runtime.enter();
            counted(&mut *hand, times);
        }
    }
    // What was made is not dropped, and no thread waits for the workers.
    std::process::exit(0);
}

/// Only what runs within this function is counted of an operation.
#[inline(never)]
fn counted(hand: &mut dyn Operation, times: usize) {
    hand.run(&mut Context::from_waker(Waker::noop()), times);
}

fn operations() -> String {
    let rows = rows();
    let lines = |race: Race| {
        let row = rows.iter().find(|row| row.id == race.row);
        let title = row.expect("each race has a row").title.clone();
        let line = |contender: &&str| {
            let count = count(&race.row, contender, true).to_string();
            vec![title.clone(), shown(contender), count]
        };
        race.names.iter().map(line).collect::<Vec<_>>()
    };
    let lines = COUNTED.iter().flat_map(|race| lines(race())).collect();
    table("operation | contender | instructions", lines)
}

/// Without those that the same program takes without timers.
fn idioms() -> String {
    let line = |idiom: &Idiom| {
        let counted = |contender| count(&idiom.row(0), contender, false) as f64;
        let base = counted(name::NO_TIMER);
        let [ours, theirs] = [name::DROP_IN, name::TOKIO].map(|who| counted(who) - base);
        let share = format!("{:.3}", ours / theirs);
        vec![
            idiom.title.to_owned(),
            ours.to_string(),
            theirs.to_string(),
            share,
        ]
    };
    table(
        "idiom | tickwheel | tokio | share",
        loops().map(line).collect(),
    )
}

/// They have rows on a runtime of the current thread.
fn loops() -> impl Iterator<Item = &'static Idiom> {
    IDIOMS.iter().chain(PAST)
}

/// The instructions of one operation.
fn count(row: &str, contender: &str, is_operation: bool) -> u64 {
    const FEW: u64 = 2_000;
    const MANY: u64 = 12_000;
    let collected = |times: u64| -> u64 {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg("--fair-sched=yes");
        if is_operation {
            valgrind.arg("--toggle-collect=*instructions::counted*");
        }
        let output = valgrind
            .arg(env::current_exe().expect("the program has a path"))
            .args([row, contender, &times.to_string()])
            .output()
            .expect("valgrind runs; Debian's package is called so");
        let printed = String::from_utf8_lossy(&output.stderr);
        let mut lines = printed.lines();
        let collected = lines.find_map(|line| line.split("Collected : ").nth(1));
        match collected.filter(|_| output.status.success()) {
            Some(collected) => collected.trim().parse().expect("it is a number"),
            None => panic!("{printed}"),
        }
    };
    let (few, many) = (collected(FEW), collected(MANY));
    (many - few + (MANY - FEW) / 2) / (MANY - FEW)
}
