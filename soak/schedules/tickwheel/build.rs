//! Lets the crate look at the mode that a schedule chooses.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=tickwheel_test_mode");
}
