//! What a million deadlines that are pushed back cost, with a tick of 1 ms and of 100 ms. The
//! program `connections` measures it, with an allocator that counts and a driver that has a thread
//! to itself.

use std::process::Command;

use super::{How, Part};
use crate::conductor::cargo_run;

pub const PART: Part = Part {
    name: "sizing",
    about: "1,000,000 deadlines that are pushed back: the driver's CPU, with two ticks",
    how: How::Built(build),
};

fn build() -> Command {
    let mut command = cargo_run(env!("CARGO_MANIFEST_DIR"), "connections", "");
    command.args(["--", "--records", "--connections", "1000000"]);
    command.args(["--timeout", "10s", "--heartbeat", "3s", "--run-time", "5s"]);
    command
}
