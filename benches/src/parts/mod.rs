//! The parts: each sets up contenders side by side and measures some rows.
//!
//! Every part runs in a process of its own. The parts that are about CPU or wake-ups have a process
//! for each contender. The parts that need another program build it first.

mod armed;
mod build;
mod cache;
mod expire;
mod hyper;
mod idioms;
mod idle;
mod keyed;
pub mod lateness;
mod longest;
mod loopback;
pub mod meet;
pub mod memory;
mod past;
mod pending;
mod program;
mod proxy;
pub mod ready;
mod reset;
mod resets;
mod threads;
mod values;
mod wheel;
mod writes;

pub use armed::SIZES as ARMED_SIZES;
pub use program::{LOADS, RATES};

use crate::harness::Race;
use crate::part::{Build, How, Part};

/// What a million deadlines that are pushed back cost, with a tick of 1 ms and of 100 ms. The
/// program `connections` measures it, with an allocator that counts and a driver that has a thread
/// to itself.
const SIZING: Part = Part {
    name: "sizing",
    about: "1,000,000 deadlines that are pushed back: the driver's CPU, with two ticks",
    state: "A heartbeat pushes each of the million back every 3 s, and a deadline is due all the time, \
            so no sleep stands next to them. Unlike a server: the driver has a worker to itself, and \
            one thread sends all heartbeats in order.",
    how: How::Built {
        program: "connections",
        arguments: "--records --connections 1000000 --timeout 10s --heartbeat 3s --run-time 5s",
        build: Build::SAME,
    },
};

/// All of them, in the order in which they run.
pub const PARTS: &[Part] = &[
    idioms::PART,
    meet::PART,
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
    ready::LARGE,
    pending::PART,
    threads::PART,
    past::PART,
    reset::PART,
    keyed::PART,
    cache::PART,
    armed::PART,
    wheel::PART,
    longest::PART,
    memory::PART,
    writes::PART,
    build::PART,
];

/// What the program `instructions` counts.
pub const COUNTED: &[fn() -> Race] = &[
    || ready::race(1),
    || pending::race(1),
    reset::one,
    reset::after,
    || keyed::resets(1),
    || keyed::inserts(1),
];
