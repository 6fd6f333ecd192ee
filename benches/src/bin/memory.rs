//! The part `memory`, in a program whose allocator counts. All other parts run without that burden.

use peak_alloc::PeakAlloc;
use tickwheel_bench::{conductor, parts, settings::Settings};

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    conductor::print(&parts::memory::run(&Settings::new(quick)));
}
