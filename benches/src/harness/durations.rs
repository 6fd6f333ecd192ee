//! Durations that differ, at the price of one load.

use std::ops::Range;
use std::time::Duration;

const LEN: usize = 1024;

/// A table of random durations, read round and round.
pub struct Durations {
    table: Box<[Duration; LEN]>,
}

impl Durations {
    /// Durations within this range of seconds.
    pub fn seconds(range: Range<u64>) -> Durations {
        let micros = range.start * 1_000_000..range.end * 1_000_000;
        let table = (0..LEN)
            .map(|_| Duration::from_micros(fastrand::u64(micros.clone())))
            .collect::<Box<[_]>>();
        Durations {
            table: table.try_into().expect("it has that length"),
        }
    }

    /// What timeouts commonly are: 5 to 60 seconds.
    pub fn of_timeouts() -> Durations {
        Durations::seconds(5..60)
    }

    pub fn get(&self, index: usize) -> Duration {
        self.table[index % LEN]
    }
}
