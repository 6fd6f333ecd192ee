//! Whether a clock can be paused: known when the crate is compiled.
//!
//! Only builds with tokio's feature `test-util` can pause a clock, that of a current-thread
//! runtime. A crate cannot see another one's feature. But `tokio::time::pause` exists only with it,
//! and a glob import within a block shadows the names of the module around it. So `pause` in the
//! block below is tokio's function if there is one, and else the struct. Where it is the struct,
//! the compiler removes all that a clock that can be paused would need.

use crate::runtime::{Handle, RuntimeFlavor};

/// Whether tokio was built with `test-util`.
pub(crate) const HAS_TEST_UTIL: bool = {
    #[allow(unused_imports)] // Without the feature nothing of it is used.
    use tokio::time::*;
    is_function(&pause)
};

/// Whether the clock of a runtime can be paused, at any moment.
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

#[cfg(test)]
mod tests {
    /// The soak has the test that it is false in a build without the feature.
    #[test]
    fn the_feature_is_seen_where_it_is() {
        const { assert!(super::HAS_TEST_UTIL) };
    }
}
