//! The oracle: whatever a program does with the crate, a plain model says what may happen, and a
//! machine looks for the rest.
//!
//! `ORACLE_PROGRAMS` says how many random programs each part except `memory` runs, and
//! `ORACLE_SEED` where the seeds begin. Programs that found something are in `found.rs`.
//! `README.md` next to this file says what the oracle was tried on.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod found;
#[path = "../common/idioms.rs"]
mod idioms;
mod memory;
mod parity;
mod paused;
#[path = "../common/paused_clock.rs"]
mod paused_clock;

mod programs;

use parity::On;
use programs::{all, same};

#[test]
fn random_programs_do_what_the_model_allows() {
    assert!(all(600, paused::run).sum::<u64>() > 0, "nothing was tried");
}

#[test]
fn a_great_many_keys_do_what_the_model_allows() {
    assert!(all(12, paused::run_large).count() > 0);
}

#[test]
fn the_same_program_does_the_same_on_tokio() {
    assert!(all(400, |seed| parity::run(On::CurrentThread, seed, 120)).count() > 0);
}

#[test]
fn the_same_program_does_the_same_in_a_local_runtime() {
    assert!(all(300, |seed| parity::run(On::LocalRuntime, seed, 120)).count() > 0);
}

#[test]
fn wakers_that_panic_or_meddle_harm_no_other_timer() {
    assert!(all(150, faults::wakers::run).count() > 0);
}

#[test]
fn keys_and_values_that_panic_harm_no_other_key() {
    assert!(all(150, faults::keys::run).count() > 0);
}
