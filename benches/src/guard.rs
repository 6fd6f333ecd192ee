//! Tells whether `tokio/test-util` is in this build. It must not be: with it every reading of
//! tokio's clock looks first whether the clock is paused, which slows tokio and everything that is
//! built on it.

/// Whether `tokio/test-util` is in this build.
///
/// A glob import loses against nothing but an explicit name of the same scope. So the inner `pause`
/// is tokio's where tokio has one, which it has with `test-util` only, and the outer one else.
pub fn has_test_util() -> bool {
    #[allow(dead_code)]
    fn pause() {}
    {
        #[allow(unused_imports)]
        use tokio::time::*;
        std::any::type_name_of_val(&pause).starts_with("tokio::")
    }
}
