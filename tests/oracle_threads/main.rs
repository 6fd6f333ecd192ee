//! Random programs in real time on real threads, judged from the record of their calls. This is the
//! short form of the soak, which takes these modules by their paths and runs them for as long as
//! one wants. `ORACLE_SEED` says where the seeds begin, and a failure names the command that runs
//! its program again.
//!
//! | file | what |
//! |---|---|
//! | `random`, `actors`, `ends` | the programs |
//! | `world`, `program`, `wait`, `faults` | runtimes and places, one program's life, who waits, what goes wrong on purpose |
//! | `record`, `life` | what was called, and whether it is possible |
//! | `finding`, `totals` | what is told |

#![cfg(feature = "io")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "the soak uses all of these modules, and this test a part of them"
)]

mod actors;
mod ends;
mod faults;
mod finding;
mod life;
mod program;
mod random;
mod record;
mod totals;
mod wait;
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use finding::Findings;
use program::Setting;
use random::Cast;
use totals::Totals;

/// How long it goes on. A finding takes 3 s more, because what is due may sleep for so long.
const LENGTH: Duration = Duration::from_secs(20);

/// The programs, which take turns. The seed decides whose turn it is.
const CASTS: [(&str, Cast); 6] = [
    ("delay_map", Cast::DelayMap),
    ("deadline", Cast::Deadline),
    ("deadline_map", Cast::DeadlineMap),
    ("alone", Cast::Alone),
    ("idle", Cast::Idle),
    ("all", Cast::All),
];

/// `ORACLE_SEED` says where the seeds begin.
fn first_seed() -> u64 {
    match std::env::var("ORACLE_SEED") {
        Ok(seed) => seed.parse().expect("ORACLE_SEED is a number"),
        Err(_) => fastrand::u64(..1_000_000_000),
    }
}

#[test]
fn random_programs_on_threads_do_nothing_impossible() {
    faults::quiet_panics();
    let (findings, totals) = (Arc::new(Findings::new()), Arc::new(Totals::new()));
    let start = Instant::now();
    for seed in first_seed().. {
        let (name, cast) = CASTS[seed as usize % CASTS.len()];
        let setting = |name| Setting {
            name,
            seed,
            findings: findings.clone(),
            totals: totals.clone(),
            may_disturb: false,
        };
        let has_ended = ends::run(setting("ends")) && random::run(cast, setting(name));
        assert!(
            has_ended && findings.is_empty(),
            "{findings}\nThe same program again: \
             ORACLE_SEED={seed} cargo test --all-features --test oracle_threads"
        );
        if start.elapsed() > LENGTH {
            return;
        }
    }
}
