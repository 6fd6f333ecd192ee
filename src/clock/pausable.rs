//! Whether a clock can be paused: known when the crate is compiled.
//!
//! Only builds with tokio's feature `test-util` can pause a clock, and only that of a
//! current-thread runtime. A crate cannot see another one's features. But `tokio::time::pause`
//! exists only with this one, and a glob import within a block shadows the names of the module
//! around it. So `pause` in the block below is tokio's function if there is one, and otherwise the
//! struct. In that case the compiler removes all code for pausable clocks.

use crate::runtime::{Handle, RuntimeFlavor};

/// Whether tokio was built with `test-util`.
pub(crate) const HAS_TEST_UTIL: bool = {
    #[allow(unused_imports)] // Without the feature nothing of it is used.
    use tokio::time::*;
    is_function(&pause)
};

pub(crate) fn can_be_paused(runtime: &Handle) -> bool {
    HAS_TEST_UTIL && runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
}

#[allow(non_camel_case_types, dead_code)] // It stands in for a function of that name.
struct pause;

const fn is_function<T: MaybeFunction>(_: &T) -> bool {
    T::IS_FUNCTION
}

trait MaybeFunction {
    const IS_FUNCTION: bool;
}

impl MaybeFunction for pause {
    const IS_FUNCTION: bool = false;
}

impl<F: Fn()> MaybeFunction for F {
    const IS_FUNCTION: bool = true;
}
