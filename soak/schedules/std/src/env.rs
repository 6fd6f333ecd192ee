//! The environment, in which the program says in which mode the driver is.

use std::cell::Cell;

pub use std::env::*;

std::thread_local! {
    static MODE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// What the crate finds as `TICKWHEEL_TEST_MODE` from now on.
pub fn set_mode(mode: Option<&'static str>) {
    MODE.set(mode);
}

pub fn var(key: &str) -> Result<String, VarError> {
    if key == "TICKWHEEL_TEST_MODE" {
        return MODE.get().map(str::to_owned).ok_or(VarError::NotPresent);
    }
    std::env::var(key)
}
