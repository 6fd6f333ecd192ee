//! The random programs of the soak, for some seconds. `ORACLE_SEED` says where the seeds begin, and
//! a failure names the command that runs its program again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel_soak::ends;
use tickwheel_soak::finding::{Findings, quiet_panics};
use tickwheel_soak::program::{Setting, Totals};
use tickwheel_soak::random::{self, Cast};

/// How long it goes on. A finding takes 3 s more, because what is due may sleep for so long.
const LENGTH: Duration = Duration::from_secs(20);

/// The programs, which take turns. The seed decides whose turn it is.
const PROGRAMS: [(&str, &[Cast]); 3] = [
    ("delay_map", random::DELAY_MAP),
    ("deadline_map", random::DEADLINE_MAP),
    ("all", random::ALL),
];

/// `ORACLE_SEED` says where the seeds begin.
fn first_seed() -> u64 {
    match std::env::var("ORACLE_SEED") {
        Ok(seed) => seed.parse().expect("ORACLE_SEED is a number"),
        Err(_) => fastrand::u64(..1_000_000_000),
    }
}

/// Runs programs that give `false` if they hang.
fn run_for(length: Duration, run: impl Fn(Setting) -> bool) {
    quiet_panics();
    let (findings, totals) = (Arc::new(Findings::default()), Arc::new(Totals::default()));
    let start = Instant::now();
    for seed in first_seed().. {
        let has_ended = run(Setting {
            name: "ends",
            seed,
            findings: findings.clone(),
            totals: totals.clone(),
        });
        assert!(
            has_ended && findings.is_empty(),
            "The same program again: \
             ORACLE_SEED={seed} cargo test -p tickwheel-soak --test threads"
        );
        if start.elapsed() > length {
            return;
        }
    }
}

#[test]
fn random_programs_on_threads_do_nothing_impossible() {
    run_for(LENGTH, |setting| {
        let (name, casts) = PROGRAMS[setting.seed as usize % PROGRAMS.len()];
        random::run(casts, Setting { name, ..setting })
    });
}

#[test]
fn those_elsewhere_alone_are_told_of_a_shutdown() {
    run_for(LENGTH / 2, ends::run);
}
