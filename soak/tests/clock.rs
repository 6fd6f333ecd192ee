//! Whether tokio's clock can be paused is decided when a program is compiled, and the crate knows
//! it. All of this package means nothing if it can and should not.

use tickwheel::Timer;
use tokio::runtime::Builder;

/// Stands where `tokio::time` has no function of this name.
#[allow(non_camel_case_types, dead_code, reason = "it has to have that name")]
struct pause;

trait Pauses {
    const PAUSES: bool;
}

impl Pauses for pause {
    const PAUSES: bool = false;
}

impl<F: Fn()> Pauses for F {
    const PAUSES: bool = true;
}

const fn pauses<P: Pauses>(_: &P) -> bool {
    P::PAUSES
}

/// Whether tokio has its `test-util`. A glob import shadows the name of the module around it.
const CAN_BE_PAUSED: bool = {
    #[allow(unused_imports, reason = "it may have no such name")]
    use tokio::time::*;
    pauses(&pause)
};

#[test]
fn the_clock_can_be_paused_only_if_this_package_is_told_so() {
    let is_told = cfg!(feature = "test-util");
    assert_eq!(
        CAN_BE_PAUSED, is_told,
        "a dependency turns on tokio/test-util, or other packages are built too: cargo test -p tickwheel-soak"
    );
}

/// Where something can pause the clock, each timer has a task on its runtime.
#[test]
fn the_crate_knows_whether_the_clock_can_be_paused() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let tasks = runtime.metrics().num_alive_tasks();
    assert_eq!(tasks, usize::from(CAN_BE_PAUSED));
    drop(timer);
}
