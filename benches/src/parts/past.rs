//! What is due already, and awaited: a sleep that is reset to the past, as an event loop does for
//! "now", one that is made for the past, and the ticks of an interval that catches up after a
//! stall.

use super::idioms::rows;
use crate::harness::Record;
use crate::idioms::PAST;
use crate::part::{How, Part};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "past",
    about: "what is due already: sleeps of the past, and the ticks after a stall",
    state: "One task awaits one such sleep after the other, with tokio's cooperative budget as a user \
            has it, next to a standing sleep. Unlike a server: the task does nothing in between, so \
            caches hold everything.",
    how: How::Together(run),
};

fn run(settings: &Settings) -> Vec<Record> {
    rows(PAST, true, settings)
}
