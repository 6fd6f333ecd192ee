//! Whether tokio's clock can be paused is decided when a program is compiled, and the crate knows
//! it. All of this package means nothing if it can and should not.

use std::pin::Pin;
use std::task::{Context, Waker};

use tickwheel::{Duration, Instant, Timer};
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

/// Where nothing can pause the clock, a reset to later leaves the timer where it is, and the turn
/// that comes to it links it again. Where something can, that would pull virtual time along.
#[test]
fn the_crate_knows_whether_the_clock_can_be_paused() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let mut sleep = timer.sleep(Duration::from_millis(5));
    let polled = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    sleep.reset_after(Duration::from_secs(3600));
    let is_linked_again = || timer.metrics().rescheduled > 0;
    let patience = Duration::from_millis(if CAN_BE_PAUSED { 50 } else { 30_000 });
    let start = Instant::now();
    runtime.block_on(async {
        while !is_linked_again() && start.elapsed() < patience {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(is_linked_again(), !CAN_BE_PAUSED);
}
