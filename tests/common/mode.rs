//! The mode of the driver that the environment forces upon a run of the tests.

/// True if every driver of this run ticks from its beginning on.
///
/// Such a driver wakes each tick. A clock that is paused while it ticks may move by two ticks
/// before the driver finds that out.
pub(crate) fn is_forced_to_tick() -> bool {
    is_forced("ticking")
}

/// True if no driver of this run ever ticks.
pub(crate) fn is_forced_to_rest() -> bool {
    is_forced("resting")
}

fn is_forced(mode: &str) -> bool {
    let Ok(forced) = std::env::var("TICKWHEEL_TEST_MODE") else {
        return false;
    };
    if !cfg!(tickwheel_test_mode) {
        panic!("TICKWHEEL_TEST_MODE is set; build with RUSTFLAGS=\"--cfg tickwheel_test_mode\"");
    }
    forced == mode
}
