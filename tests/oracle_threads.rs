//! Random programs in real time on real threads, judged from the record of their calls: the short
//! form of the soak, which is in `soak/` and runs for as long as one wants.

#![cfg(feature = "io")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "the soak uses all of these modules, and this test a part of them"
)]

#[path = "../soak/src/actors/mod.rs"]
mod actors;
#[path = "../soak/src/ends.rs"]
mod ends;
#[path = "../soak/src/faults.rs"]
mod faults;
#[path = "../soak/src/finding.rs"]
mod finding;
#[path = "../soak/src/life.rs"]
mod life;
#[path = "../soak/src/program.rs"]
mod program;
#[path = "../soak/src/random.rs"]
mod random;
#[path = "../soak/src/record.rs"]
mod record;
#[path = "../soak/src/totals.rs"]
mod totals;
#[path = "../soak/src/wait.rs"]
mod wait;
#[path = "../soak/src/world.rs"]
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use finding::Findings;
use program::Setting;
use random::Cast;
use totals::Totals;

/// How long it goes on. A finding takes 3 s more, because what is due may sleep for so long.
const LENGTH: Duration = Duration::from_secs(20);

#[test]
fn random_programs_on_threads_do_nothing_impossible() {
    faults::quiet_panics();
    let (findings, totals) = (Arc::new(Findings::new()), Arc::new(Totals::new()));
    let (start, first) = (Instant::now(), fastrand::u64(..1_000_000_000));
    let casts = [
        ("delay_map", Cast::DelayMap),
        ("deadline", Cast::Deadline),
        ("deadline_map", Cast::DeadlineMap),
        ("alone", Cast::Alone),
        ("idle", Cast::Idle),
        ("all", Cast::All),
    ];
    for (seed, (name, cast)) in (first..).zip(casts.into_iter().cycle()) {
        let setting = |name| Setting {
            name,
            seed,
            findings: findings.clone(),
            totals: totals.clone(),
            may_disturb: false,
        };
        let has_ended = ends::run(setting("ends")) && random::run(cast, setting(name));
        assert!(has_ended && findings.is_empty(), "{findings}");
        if start.elapsed() > LENGTH {
            return;
        }
    }
}
