//! How late timers fire, under each load that has made timers late: both contenders in turn, in one
//! process, and each turn on a runtime of its own.
//!
//! ```text
//!   timers.rs   the contenders: what each makes of a sleep, a timeout, a deadline and a value
//!   probes.rs   timers whose lateness is told
//!   loads.rs    the loads
//! ```
//!
//! What comes out is a table of its own, which a change of the driver is judged by. Under a load
//! whose timers are due when it is over, the turns of the two overlap: one waits while the other
//! loads its runtime. The loads do not overlap, nor a load and the instants at which the timers of
//! the other are due.

mod loads;
mod probes;
mod timers;

use std::thread;
use std::time::Duration;

use loads::Turn;
use probes::Found;
pub use timers::Kind;

use super::{How, Part, name};
use crate::harness::Record;
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "lateness",
    about: "how late sleeps, timeouts, deadlines and values are, under eight loads",
    how: How::Together(run),
};

/// What is told of each measure: the median, 99 %, and the latest.
pub const QUANTILES: [&str; 3] = ["p50", "p99", "max"];

/// A load, and the timers that are armed beside it.
pub struct Load {
    pub id: &'static str,
    pub title: &'static str,
    /// On how many workers it runs; 0 is a runtime on the current thread.
    pub workers: &'static [usize],
    pub kinds: &'static [Kind],
    /// How late its timers may be.
    pub limit: Limit,
    rounds: usize,
    turn: Run,
}

/// One of [`QUANTILES`] may be as late as tokio's times a factor, and some milliseconds more, and
/// never later than so many.
#[derive(Clone, Copy)]
pub struct Limit {
    pub of: &'static str,
    pub times: f64,
    pub plus: f64,
    pub at_most: f64,
}

enum Run {
    /// All kinds in a turn.
    AllKinds(fn(Turn) -> Found),
    /// The same. The next turn begins so long after this one, while this one only waits.
    Overlapped(Duration, fn(Turn) -> Found),
}

/// All loads, in the order of the table.
pub const LOADS: &[Load] = &[
    Load {
        id: "rest",
        title: "at rest",
        workers: &[0, 2],
        kinds: Kind::ALL,
        limit: p99(1.0, 1.0),
        rounds: 9,
        turn: Run::AllKinds(loads::at_rest),
    },
    Load {
        id: "timeouts",
        title: "1,000,000 timeouts a second",
        workers: &[0, 1, 2],
        kinds: Kind::ALL,
        limit: p99(1.0, 2.0),
        rounds: 5,
        turn: Run::AllKinds(loads::timeouts),
    },
    busy("busy-2", "busy: 8 tasks, polls of 2 ms", |turn| {
        loads::busy(turn, Duration::from_millis(2))
    }),
    busy("busy-5", "busy: 8 tasks, polls of 5 ms", |turn| {
        loads::busy(turn, Duration::from_millis(5))
    }),
    busy("busy-10", "busy: 8 tasks, polls of 10 ms", |turn| {
        loads::busy(turn, Duration::from_millis(10))
    }),
    Load {
        id: "stall",
        title: "stall: a task blocks for 500 ms",
        workers: &[0, 1],
        kinds: Kind::ALL,
        limit: p99(1.0, 3.0),
        rounds: 2,
        turn: Run::Overlapped(loads::LOAD, loads::stall),
    },
    Load {
        id: "burst",
        title: "burst: 20,000 at one instant",
        workers: &[0, 1, 2],
        kinds: &[Kind::Sleep, Kind::Timeout, Kind::Deadline],
        limit: Limit {
            of: "max",
            times: 1.5,
            plus: 2.0,
            at_most: f64::INFINITY,
        },
        rounds: 5,
        turn: Run::AllKinds(loads::burst),
    },
    Load {
        id: "cascade",
        title: "cascade: 200,000 others",
        workers: &[0, 1, 2],
        kinds: &[Kind::Sleep],
        limit: p99(1.5, 2.0),
        rounds: 1,
        turn: Run::Overlapped(loads::CASCADE, loads::cascade),
    },
    Load {
        id: "full",
        title: "full: 5,000,000 others over 60 s",
        workers: &[2],
        kinds: &[Kind::Sleep],
        limit: Limit {
            of: "max",
            times: 1.0,
            plus: 0.0,
            at_most: 5.0,
        },
        rounds: 2,
        turn: Run::AllKinds(loads::full),
    },
];

const fn busy(id: &'static str, title: &'static str, turn: fn(Turn) -> Found) -> Load {
    Load {
        id,
        title,
        workers: &[0, 1, 2],
        kinds: Kind::ALL,
        limit: p99(1.0, 3.0),
        rounds: 1,
        turn: Run::Overlapped(loads::LOAD, turn),
    }
}

const fn p99(times: f64, plus: f64) -> Limit {
    Limit {
        of: "p99",
        times,
        plus,
        at_most: f64::INFINITY,
    }
}

impl Load {
    /// The row of one of [`QUANTILES`].
    pub fn row(&self, workers: usize, kind: Kind, quantile: &str) -> String {
        format!("lateness-{}-{workers}-{kind:?}-{quantile}", self.id)
    }

    /// Both contenders in an order of chance, and with each what its turn found.
    fn round(&self, workers: usize, quick: bool) -> Vec<(&'static str, Found)> {
        let mut contenders = timers::CONTENDERS;
        fastrand::shuffle(&mut contenders);
        let turns = contenders.map(|contender| Turn {
            contender,
            workers,
            quick,
        });
        match self.turn {
            Run::AllKinds(run) => turns.map(|turn| (turn.contender, run(turn))).into(),
            Run::Overlapped(gap, run) => thread::scope(|scope| {
                let running: Vec<_> = turns
                    .into_iter()
                    .map(|turn| {
                        let running = scope.spawn(move || run(turn));
                        thread::sleep(gap);
                        (turn.contender, running)
                    })
                    .collect();
                running
                    .into_iter()
                    .map(|(contender, turn)| (contender, turn.join().expect("no load panics")))
                    .collect()
            }),
        }
    }
}

fn run(settings: &Settings) -> Vec<Record> {
    let mut records = Vec::new();
    let mut record = |row: &str, contender, sample| {
        Record::gather(&mut records, Record::new(row, contender, vec![sample]));
    };
    let mut early = [0; 2];
    let is_short = |load: &&Load| !["busy-2", "busy-10"].contains(&load.id);
    for load in LOADS
        .iter()
        .filter(|load| !settings.quick || is_short(load))
    {
        let most_workers = &load.workers[load.workers.len() - 1..];
        for &workers in settings.either(load.workers, most_workers) {
            for _ in 0..settings.either(load.rounds, 1) {
                for (contender, found) in load.round(workers, settings.quick) {
                    early[usize::from(contender == name::TOKIO)] += found.early;
                    for &kind in load.kinds {
                        let late = found.of(kind).into_iter().flatten();
                        for (quantile, late) in QUANTILES.into_iter().zip(late) {
                            record(&load.row(workers, kind, quantile), contender, late);
                        }
                    }
                }
            }
        }
    }
    for (contender, early) in timers::CONTENDERS.into_iter().zip(early) {
        record(EARLY, contender, early as f64);
    }
    // The turns came in an order of chance.
    records.sort_by_key(|record| {
        timers::CONTENDERS
            .iter()
            .position(|name| *name == record.contender)
    });
    records
}

/// The row that counts timers that were woken before they were due.
pub const EARLY: &str = "lateness-early";
