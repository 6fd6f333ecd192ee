//! The memory of the process, counted by its allocator.
//!
//! No other test may allocate while one counts.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The bytes that are in use now.
pub(crate) fn used() -> usize {
    ALLOCATOR.current_usage()
}

/// How many bytes more are in use than once were, or zero if there are fewer.
pub(crate) fn grown_since(before: usize) -> usize {
    used().saturating_sub(before)
}
