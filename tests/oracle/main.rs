//! The oracle: whatever a program does with the crate, a plain model says what may happen, and a
//! machine looks for the rest.
//!
//! `ORACLE_PROGRAMS` says how many random programs each part runs, and `ORACLE_SEED` where the
//! seeds begin. Programs that found something are in `found.rs`. `README.md` beside this file tells
//! what the oracle was tried on.

#[path = "../common/mod.rs"]
mod common;
mod delay_queues;
mod faults;
mod found;
#[path = "../common/idioms.rs"]
mod idioms;
mod memory;
mod parity;
mod paused;
#[path = "../common/paused_clock.rs"]
mod paused_clock;
mod wheel;

use std::any::Any;
use std::fmt::Debug;

/// The seeds of a run: fixed ones, and one that no run had before.
fn seeds(programs: u64) -> impl Iterator<Item = u64> {
    let told = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = told("ORACLE_SEED").unwrap_or(0);
    let programs = told("ORACLE_PROGRAMS").unwrap_or(programs);
    (first..first + programs).chain([fastrand::u64(..)])
}

fn same<T: PartialEq + Debug>(what: &str, told: T, expected: T) -> Result<(), String> {
    match told == expected {
        true => Ok(()),
        false => Err(format!("{what} answers {told:?}, not {expected:?}")),
    }
}

/// What a panic said.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
    text.unwrap_or_default()
}

#[test]
fn random_programs_do_what_the_model_allows() {
    let fired =
        seeds(600).map(|seed| paused::run(seed).unwrap_or_else(|failure| panic!("{failure}")));
    assert!(fired.sum::<u64>() > 0, "nothing was tried");
}

#[test]
fn a_great_many_keys_do_what_the_model_allows() {
    for seed in seeds(12) {
        if let Err(failure) = paused::run_large(seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn the_bare_wheel_does_what_a_sorted_list_does() {
    for seed in seeds(400) {
        if let Err(message) = wheel::run(seed, 400) {
            panic!("{message}");
        }
    }
}

#[test]
fn a_delay_queue_does_what_tokio_utils_does() {
    let mut spurious = [0, 0];
    for seed in seeds(400) {
        match delay_queues::run(seed, 200) {
            Ok([ours, peers]) => spurious = [spurious[0] + ours, spurious[1] + peers],
            Err(difference) => panic!("{difference}"),
        }
    }
    assert!(
        spurious[0] <= spurious[1],
        "woken for nothing: {spurious:?}"
    );
}

#[test]
fn the_same_program_does_the_same_on_tokio() {
    for seed in seeds(400) {
        if let Err(difference) = parity::run(seed, 120) {
            panic!("{difference}");
        }
    }
}

#[test]
fn wakers_that_panic_or_meddle_harm_no_other_timer() {
    for seed in seeds(150) {
        if let Err(message) = faults::wakers::run(seed) {
            panic!("{message}");
        }
    }
}

#[test]
fn keys_and_values_that_panic_harm_no_other_key() {
    for seed in seeds(150) {
        if let Err(message) = faults::keys::run(seed) {
            panic!("{message}");
        }
    }
}
