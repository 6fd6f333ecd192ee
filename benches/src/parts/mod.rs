//! The parts: each sets up contenders side by side and measures some rows.
//!
//! Every part runs in a process of its own. The parts that are about CPU or wake-ups have a process
//! for each contender. The parts that need another program build it first.

mod advance;
mod armed;
mod build;
mod expire;
mod hyper;
mod idioms;
mod idle;
mod keyed;
pub mod lateness;
mod longest;
mod loopback;
pub mod memory;
mod pending;
mod program;
mod proxy;
mod ready;
mod reset;
mod resets;
mod threads;
mod values;
mod wheel;
mod writes;

pub use armed::SIZES as ARMED_SIZES;
pub use program::{LOADS, RATES};
pub use ready::SIZES as FUTURE_SIZES;
pub use resets::RATES as RESET_RATES;
pub use wheel::SIZES as WHEEL_SIZES;

use crate::harness::Record;
use crate::settings::Settings;

/// The names of the contenders, in all tables and charts.
pub mod name {
    pub const TICKWHEEL: &str = "tickwheel";
    pub const DROP_IN: &str = "tickwheel drop-in";
    pub const GLOBAL: &str = "tickwheel global";
    pub const PARTS_256: &str = "tickwheel, 256 parts";
    pub const RECV_MANY: &str = "tickwheel, recv_many";
    pub const READ_WRITE: &str = "tickwheel, reads and writes apart";
    pub const QUEUE: &str = "tickwheel, DelayQueue";
    pub const TOKIO: &str = "tokio";
    pub const TOKIO_ALTERNATIVE: &str = "tokio, alternative timer";
    pub const ON_ALTERNATIVE: &str = "tickwheel, on the alternative timer";
    pub const DELAY_QUEUE: &str = "DelayQueue";
    pub const NEXUS: &str = "nexus-timer";
    pub const PINGORA: &str = "pingora-timeout";
    pub const TOKIO_IO_TIMEOUT: &str = "tokio-io-timeout";
    pub const LAST_SEEN: &str = "atomic last-seen + sleep";
    pub const MUTEX_MAP: &str = "Mutex<HashMap + DelayQueue>";
    pub const EACH_MILLISECOND: &str = "tickwheel, ticks of 1 ms";
    pub const EACH_TENTH: &str = "tickwheel, ticks of 100 ms";
    pub const NO_TIMER: &str = "no timer at all";
    pub const CLOCK: &str = "one reading of the clock";

    /// Neither ours nor only something to compare a figure with.
    pub fn is_peer(contender: &str) -> bool {
        !contender.starts_with(TICKWHEEL) && ![NO_TIMER, CLOCK].contains(&contender)
    }
}

/// Some rows that are measured together.
pub struct Part {
    pub name: &'static str,
    pub about: &'static str,
    pub how: How,
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
    /// In another program of this package, with these arguments.
    Built(&'static str, &'static str),
}

/// What a million deadlines that are pushed back cost, with a tick of 1 ms and of 100 ms. The
/// program `connections` measures it, with an allocator that counts and a driver that has a thread
/// to itself.
const SIZING: Part = Part {
    name: "sizing",
    about: "1,000,000 deadlines that are pushed back: the driver's CPU, with two ticks",
    how: How::Built(
        "connections",
        "--records --connections 1000000 --timeout 10s --heartbeat 3s --run-time 5s",
    ),
};

/// All of them, in the order in which they run.
pub const PARTS: &[Part] = &[
    idioms::PART,
    program::PART,
    resets::PART,
    hyper::PART,
    proxy::PART,
    expire::PART,
    values::PART,
    idle::PART,
    SIZING,
    lateness::PART,
    ready::PART,
    pending::PART,
    threads::PART,
    reset::PART,
    keyed::PART,
    armed::PART,
    wheel::PART,
    advance::PART,
    longest::PART,
    memory::PART,
    writes::PART,
    build::PART,
];
