//! What a part is: some rows that are measured together, and the names of their contenders.

use crate::harness::Record;
use crate::settings::Settings;

/// The names of the contenders, in all tables.
pub mod name {
    pub const TICKWHEEL: &str = "tickwheel";
    pub const DROP_IN: &str = "tickwheel drop-in";
    pub const GLOBAL: &str = "tickwheel global";
    pub const RECV_MANY: &str = "tickwheel, recv_many";
    pub const READ_WRITE: &str = "tickwheel, reads and writes apart";
    pub const QUEUE: &str = "tickwheel, DelayQueue";
    pub const TOKIO: &str = "tokio";
    pub const TOKIO_ALTERNATIVE: &str = "tokio, alternative timer";
    pub const ON_ALTERNATIVE: &str = "tickwheel, on the alternative timer";
    pub const DROP_IN_ON_ALTERNATIVE: &str = "tickwheel drop-in, on the alternative timer";
    pub const DELAY_QUEUE: &str = "DelayQueue";
    pub const HASH_MAP: &str = "HashMap + DelayQueue";
    pub const NEXUS: &str = "nexus-timer";
    pub const PINGORA: &str = "pingora-timeout";
    pub const TOKIO_IO_TIMEOUT: &str = "tokio-io-timeout";
    pub const LAST_SEEN: &str = "atomic last-seen + sleep";
    pub const MOKA: &str = "moka";
    pub const MUTEX_MAP: &str = "Mutex<HashMap + DelayQueue>";
    pub const EACH_MILLISECOND: &str = "tickwheel, ticks of 1 ms";
    pub const EACH_TENTH: &str = "tickwheel, ticks of 100 ms";
    pub const NO_FAST_BINS: &str = "tickwheel, no fast bins";
    pub const NO_TIMER: &str = "no timer at all";
    pub const NO_TIMER_NO_FAST_BINS: &str = "no timer at all, no fast bins";
    pub const CLOCK: &str = "one reading of the clock";

    /// Neither ours nor only something to compare a figure with.
    pub fn is_peer(contender: &str) -> bool {
        !contender.starts_with(TICKWHEEL) && !has_no_timer(contender)
    }

    /// Only something to compare a figure with.
    pub fn has_no_timer(contender: &str) -> bool {
        contender.starts_with(NO_TIMER) || contender == CLOCK
    }

    /// What a contender's process has in its environment, if it has a process of its own.
    pub fn environment(contender: &str) -> Option<(&'static str, &'static str)> {
        // glibc then joins each small block with its neighbours as soon as it is freed.
        let without = ("GLIBC_TUNABLES", "glibc.malloc.mxfast=0");
        [NO_FAST_BINS, NO_TIMER_NO_FAST_BINS]
            .contains(&contender)
            .then_some(without)
    }
}

/// Some rows that are measured together.
pub struct Part {
    pub name: &'static str,
    pub about: &'static str,
    /// In which state the contenders are, and what in it is unlike a server.
    pub state: &'static str,
    pub how: How,
}

/// In which processes a part runs.
pub enum How {
    /// All contenders in one.
    Together(fn(&Settings) -> Vec<Record>),
    /// Each contender in one of its own, alternately. It returns a figure for each row.
    Apart {
        contenders: &'static [&'static str],
        rounds: usize,
        run: fn(&str, &Settings) -> Vec<(String, f64)>,
    },
    /// In another program of this package.
    Built {
        program: &'static str,
        arguments: &'static str,
        build: Build,
    },
}

/// How a program is built.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Where in the target folder: programs that are built differently keep out of each other's.
    pub folder: &'static str,
    /// What cargo has in its environment.
    pub environment: &'static [(&'static str, &'static str)],
}

impl Build {
    /// As this program is.
    pub const SAME: Build = Build {
        folder: "",
        environment: &[],
    };
}
