//! kestrel-timer, in a program of its own, because it turns on `tokio/test-util` for the whole
//! build that depends on it.
//!
//! It runs against tickwheel and tokio in the same build. For that reason both are slower there
//! than elsewhere.

use std::process::Command;

use super::{How, Part};
use crate::conductor::cargo_run;

pub const PART: Part = Part {
    name: "kestrel",
    about: "arm, disarm and reset against kestrel-timer, in a build of its own",
    how: How::Built(build),
};

fn build() -> Command {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/kestrel");
    let mut command = cargo_run(manifest, "tickwheel-bench-kestrel", "kestrel");
    command.arg("--");
    command
}
