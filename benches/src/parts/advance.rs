//! A bare wheel that is kept full: how long its longest advance by a tick takes, and all of them.
//!
//! The timers lie evenly over 60 s of ticks, and each that fires is armed again for 60 s later. The
//! clock is that of the thread, so a neighbour on the machine is not in the figures. What fires is,
//! and what cascades. To arm again is not.

use std::time::Duration;

use cpu_time::ThreadTime;
use tickwheel::wheel::Wheel;

use super::{How, Part, name};
use crate::harness::Record;
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "advance",
    about: "the longest advance by a tick of a wheel with 1, 5 and 10 million timers",
    how: How::Together(run),
};

/// Millions of timers.
const SIZES: [u64; 3] = [1, 5, 10];
const SPAN: u64 = 60_000;
/// The slots of the third level begin at every 4,096th of them.
const TICKS: u64 = 8_192;

fn run(settings: &Settings) -> Vec<Record> {
    let mut records = Vec::new();
    for millions in SIZES {
        let timers = millions * settings.either(1_000_000, 20_000);
        for _ in 0..settings.either(3, 1) {
            let (longest, all) = advances(timers);
            let mut record = |row, time: Duration| {
                let millis = time.as_secs_f64() * 1e3;
                let row = format!("{row}-{millions}");
                Record::gather(
                    &mut records,
                    Record::new(&row, name::TICKWHEEL, vec![millis]),
                );
            };
            record("advance", longest);
            record("advance-all", all);
        }
    }
    records
}

/// What the longest of [`TICKS`] advances takes, and what all of them do.
fn advances(timers: u64) -> (Duration, Duration) {
    let mut wheel = Wheel::new();
    for index in 0..timers {
        // Evenly, and in an order that has nothing to do with the ticks.
        wheel.insert(1 + index * 7_919 % SPAN, index);
    }
    let (mut longest, mut all) = (Duration::ZERO, Duration::ZERO);
    let mut fired = Vec::new();
    // A first second finds the allocator and the caches as they will be.
    for now in 1..=1_000 + TICKS {
        let begin = ThreadTime::now().as_duration();
        fired.extend(wheel.advance(now));
        let took = ThreadTime::now().as_duration() - begin;
        if now > 1_000 {
            longest = longest.max(took);
            all += took;
        }
        for (due, index) in fired.drain(..) {
            wheel.insert(due + SPAN, index);
        }
    }
    (longest, all)
}
