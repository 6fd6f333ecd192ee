//! Tells whether `tokio/test-util` is in this build. It must not be. With it, every reading of
//! tokio's clock looks first whether the clock is paused. This slows tokio and everything that is
//! built on it.

/// Whether `tokio/test-util` is in this build.
///
/// A glob import loses only against an explicit name of the same scope. So the inner `pause` is
/// tokio's where tokio has one, and it has one with `test-util` only. Otherwise it is the outer
/// one.
pub fn has_test_util() -> bool {
    #[allow(dead_code)] // The inner one is taken where there is one.
    fn pause() {}
    {
        #[allow(unused_imports)] // Without `test-util` nothing of it is used.
        use tokio::time::*;
        std::any::type_name_of_val(&pause).starts_with("tokio::")
    }
}
