//! The idioms with the import swapped.

use tickwheel::time;

// The same file twice shows that nothing else has changed.
#[allow(clippy::duplicate_mod)]
#[path = "idioms.rs"]
pub(crate) mod idioms;
