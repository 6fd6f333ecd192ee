//! The part `large`, in a program that is built with thin LTO and one unit of code: how often a
//! timeout moves its future is what the compiler inlines.

use tickwheel_bench::{conductor, parts, settings::Settings};

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    conductor::print(&parts::ready::run_large("large-lto", &Settings::new(quick)));
}
