//! The random programs of the soak, for some seconds. `ORACLE_SEED` says where the seeds begin, and
//! a failure names the command that runs its program again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel_soak::finding::Findings;
use tickwheel_soak::program::{Setting, Totals};
use tickwheel_soak::random::{self, Cast};
use tickwheel_soak::{ends, faults};

/// How long it goes on. A finding takes 3 s more, because what is due may sleep for so long.
const LENGTH: Duration = Duration::from_secs(20);

/// The programs, which take turns. The seed decides whose turn it is.
const CASTS: [(&str, Cast); 4] = [
    ("delay_map", Cast::DelayMap),
    ("deadline", Cast::Deadline),
    ("deadline_map", Cast::DeadlineMap),
    ("all", Cast::All),
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
    faults::quiet_panics();
    let (findings, totals) = (Arc::new(Findings::default()), Arc::new(Totals::default()));
    let start = Instant::now();
    for seed in first_seed().. {
        let has_ended = run(Setting {
            name: "ends",
            seed,
            findings: findings.clone(),
            totals: totals.clone(),
            may_disturb: false,
        });
        assert!(
            has_ended && findings.is_empty(),
            "{findings}\nThe same program again: \
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
        let (name, cast) = CASTS[setting.seed as usize % CASTS.len()];
        random::run(cast, Setting { name, ..setting })
    });
}

#[test]
fn those_elsewhere_alone_are_told_of_a_shutdown() {
    run_for(LENGTH / 2, ends::run);
}
