//! Whether tokio's clock can be paused is decided when a program is compiled. All of this package
//! means nothing if it can and should not.

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
