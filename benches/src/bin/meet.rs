//! The part `meet`, in a program that is built with `--cfg tokio_unstable`: tokio's alternative
//! timer is in no other build.

use tickwheel_bench::{conductor, parts, settings::Settings};

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    conductor::print(&parts::meet::run(&Settings::new(quick)));
}
