//! The parts: each sets up contenders side by side and measures some rows.
//!
//! Every part runs in a process of its own. The parts that are about CPU or wake-ups have a process
//! for each contender. The parts that need another build start that build.

pub mod alt_timer;
mod armed;
mod by_hand;
mod by_task;
mod delay_map;
mod drain;
mod echo;
mod expire;
mod http_server;
mod hyper;
mod hyper_load;
mod idle;
mod large_futures;
pub mod lateness;
mod longest;
mod loopback;
mod map;
pub mod memory;
pub mod pending;
mod program;
mod proxy;
mod queries;
mod quic;
mod ready;
mod reset_many;
mod reset_one;
mod resets;
mod sizing;
mod steady;
mod timeouts;
mod values;

use std::process::Command;

pub use armed::SIZES as ARMED_SIZES;
pub use large_futures::SIZES as FUTURE_SIZES;
pub use program::{LOADS, RATES};
pub use resets::RATES as RESET_RATES;

use crate::harness::Record;
use crate::settings::Settings;

/// The names of the contenders, in all tables and charts.
pub mod name {
    pub const TICKWHEEL: &str = "tickwheel";
    pub const DROP_IN: &str = "tickwheel drop-in";
    pub const GLOBAL: &str = "tickwheel global";
    pub const READ_WRITE: &str = "tickwheel, reads and writes apart";
    pub const QUEUE: &str = "tickwheel, DelayQueue";
    pub const TOKIO: &str = "tokio";
    pub const ALT_TIMER: &str = "tokio alternative timer";
    pub const DELAY_QUEUE: &str = "DelayQueue";
    pub const PINGORA: &str = "pingora-timeout";
    pub const TOKIO_IO_TIMEOUT: &str = "tokio-io-timeout";
    pub const LAST_SEEN: &str = "atomic last-seen + sleep";
    pub const NOTIFY: &str = "Notify loop, caller's part";
    pub const MUTEX_MAP: &str = "Mutex<HashMap + DelayQueue>";
    pub const BY_TASK: &str = "a wheel that a task turns";
    pub const EACH_MILLISECOND: &str = "tickwheel, ticks of 1 ms";
    pub const EACH_TENTH: &str = "tickwheel, ticks of 100 ms";
    pub const NO_OP: &str = "timer that does nothing";
    pub const NO_TIMER: &str = "no timer at all";
    pub const CLOCK: &str = "one reading of the clock";

    /// Neither ours nor only something to compare a figure with.
    pub fn is_peer(contender: &str) -> bool {
        !contender.starts_with(TICKWHEEL) && ![NO_OP, NO_TIMER, CLOCK, BY_TASK].contains(&contender)
    }
}

/// Some rows that are measured together.
pub struct Part {
    pub name: &'static str,
    pub about: &'static str,
    pub how: How,
}

impl Part {
    /// Whether it builds much the first time: tokio and all that stands on it.
    pub fn builds_peers(&self) -> bool {
        self.name == alt_timer::PART.name
    }
}

/// In which processes a part runs.
pub enum How {
    /// All contenders in one.
    Together(fn(&Settings) -> Vec<Record>),
    /// Each contender in one of its own, alternately.
    Apart {
        contenders: &'static [&'static str],
        rounds: usize,
        run: fn(&str, &Settings) -> Vec<Record>,
    },
    /// A program of its own, or this one built otherwise.
    Built(fn() -> Command),
}

/// All of them, in the order in which they run.
pub const PARTS: &[Part] = &[
    program::PART,
    resets::PART,
    by_task::PART,
    steady::PART,
    hyper::PART,
    hyper_load::PART,
    queries::PART,
    proxy::PART,
    quic::PART,
    echo::PART,
    expire::PART,
    values::PART,
    idle::PART,
    sizing::PART,
    lateness::PART,
    large_futures::PART,
    ready::PART,
    pending::PART,
    alt_timer::PART,
    reset_one::PART,
    reset_many::PART,
    map::PART,
    delay_map::PART,
    armed::PART,
    longest::PART,
    drain::PART,
    memory::PART,
];
