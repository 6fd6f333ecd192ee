//! How late timers fire, under each load that has made timers late: both contenders in turn, in one
//! process, and each turn on a runtime of its own.
//!
//! ```text
//!   timers.rs   the contenders: what each makes of a sleep and a deadline
//!   probes.rs   timers whose lateness is measured
//!   loads.rs    the loads
//! ```
//!
//! What comes out is a table of its own, which a change of the driver is judged by.

mod loads;
mod probes;
mod timers;

use std::time::Duration;

use itertools::iproduct;
use loads::Turn;
use probes::Found;
pub use timers::Kind;

use crate::harness::Record;
use crate::part::{How, Part};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "lateness",
    about: "how late sleeps and deadlines are, under eight loads",
    state: "Each load has its timers, which are due first, and a sleep stands behind them. \
            Unlike a server: a load is one thing alone, such as a stall, and as heavy as it can \
            be.",
    how: How::Together(run),
};

/// What is shown of each measure: the median, 99 %, and the latest.
pub const QUANTILES: [&str; 3] = ["p50", "p99", "max"];

/// A load, and the timers that are armed with it.
pub struct Load {
    pub id: &'static str,
    pub title: &'static str,
    /// On how many workers it runs; 0 is a runtime on the current thread.
    pub workers: &'static [usize],
    pub kinds: &'static [Kind],
    /// How late its timers may be.
    pub limit: Limit,
    rounds: usize,
    turn: fn(Turn) -> Found,
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

/// All loads, in the order of the table.
pub const LOADS: &[Load] = &[
    Load {
        id: "rest",
        title: "at rest",
        workers: &[0, 2],
        kinds: Kind::ALL,
        limit: limit("p99", 1.0, 1.0),
        rounds: 9,
        turn: loads::at_rest,
    },
    Load {
        id: "timeouts",
        title: "1,000,000 timeouts a second",
        workers: &[0, 1, 2],
        kinds: Kind::ALL,
        limit: limit("p99", 1.0, 2.0),
        rounds: 5,
        turn: loads::timeouts,
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
        limit: limit("p99", 1.0, 3.0),
        rounds: 2,
        turn: loads::stall,
    },
    Load {
        id: "burst",
        title: "burst: 20,000 at one instant",
        workers: &[0, 1, 2],
        kinds: &[Kind::Sleep, Kind::Deadline],
        limit: limit("max", 1.5, 2.0),
        rounds: 5,
        turn: loads::burst,
    },
    Load {
        id: "full",
        title: "full: 5,000,000 others over 60 s",
        workers: &[2],
        kinds: &[Kind::Sleep],
        limit: Limit {
            at_most: 5.0,
            ..limit("max", 1.0, 0.0)
        },
        rounds: 2,
        turn: loads::full,
    },
];

const fn busy(id: &'static str, title: &'static str, turn: fn(Turn) -> Found) -> Load {
    Load {
        id,
        title,
        workers: &[0, 1, 2],
        kinds: Kind::ALL,
        limit: limit("p99", 1.0, 3.0),
        rounds: 1,
        turn,
    }
}

const fn limit(of: &'static str, times: f64, plus: f64) -> Limit {
    let at_most = f64::INFINITY;
    Limit {
        of,
        times,
        plus,
        at_most,
    }
}

impl Load {
    /// The row of one of [`QUANTILES`].
    pub fn row(&self, workers: usize, kind: Kind, quantile: &str) -> String {
        format!("lateness-{}-{workers}-{kind:?}-{quantile}", self.id)
    }
}

fn run(settings: &Settings) -> Vec<Record> {
    let mut records = Vec::new();
    let mut record = |row: &str, contender, sample| {
        Record::gather(&mut records, Record::new(row, contender, vec![sample]));
    };
    let mut early = [0; 2];
    let quick = settings.quick;
    let asked = |load: &&Load| !quick || !["busy-2", "busy-10"].contains(&load.id);
    for load in LOADS.iter().filter(asked) {
        let most_workers = &load.workers[load.workers.len() - 1..];
        let workers = settings.either(load.workers, most_workers);
        for (&workers, _) in iproduct!(workers, 0..settings.either(load.rounds, 1)) {
            let mut order = [0, 1];
            fastrand::shuffle(&mut order);
            for index in order {
                let contender = timers::CONTENDERS[index];
                let found = (load.turn)(Turn {
                    contender,
                    workers,
                    quick,
                });
                early[index] += found.early;
                for &kind in load.kinds {
                    let late = found.of(kind).into_iter().flatten();
                    for (quantile, late) in QUANTILES.into_iter().zip(late) {
                        record(&load.row(workers, kind, quantile), contender, late);
                    }
                }
            }
        }
    }
    for (contender, early) in timers::CONTENDERS.into_iter().zip(early) {
        record(EARLY, contender, early as f64);
    }
    // The turns came in an order of chance.
    records.sort_by_key(|record| record.contender != timers::CONTENDERS[0]);
    records
}

/// The row that counts timers that were woken before they were due.
pub const EARLY: &str = "lateness-early";
