//! Whether a clock can be paused: known when the crate is compiled.
//!
//! Only builds with tokio's feature `test-util` can pause a clock, and only a current-thread
//! runtime has one to pause. A crate cannot see another one's features. But `tokio::time::pause`
//! exists only with this one, and a glob import within a block shadows the names of the module
//! around it. So `pause` in the block below is tokio's function if there is one, and otherwise the
//! constant. In that case the compiler removes all code for pausable clocks.

use crate::runtime::{Handle, RuntimeFlavor};

/// Whether tokio was built with `test-util`.
pub(crate) const HAS_TEST_UTIL: bool = {
    #[allow(unused_imports)] // Without the feature nothing of it is used.
    use tokio::time::*;
    // A function has no size, unlike the constant.
    size_of_val(&pause) == 0
};

pub(crate) fn can_be_paused(runtime: &Handle) -> bool {
    HAS_TEST_UTIL && runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
}

#[allow(non_upper_case_globals, dead_code)] // It stands in for a function of that name.
const pause: u8 = 1;
