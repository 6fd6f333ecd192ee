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

/// Runs so many programs, and one that no run had before. Returns what they were counted by.
fn all<R>(programs: u64, run: impl Fn(u64) -> Result<R, String>) -> impl Iterator<Item = R> {
    seeds(programs).map(move |seed| run(seed).unwrap_or_else(|failure| panic!("{failure}")))
}

#[test]
fn random_programs_do_what_the_model_allows() {
    assert!(all(600, paused::run).sum::<u64>() > 0, "nothing was tried");
}

#[test]
fn a_great_many_keys_do_what_the_model_allows() {
    assert!(all(12, paused::run_large).count() > 0);
}

#[test]
fn a_delay_queue_does_what_tokio_utils_does() {
    let spurious = all(400, |seed| delay_queues::run(seed, 200));
    let [ours, peers] = spurious.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    assert!(ours <= peers, "woken for nothing: {ours}, not {peers}");
}

#[test]
fn the_same_program_does_the_same_on_tokio() {
    assert!(all(400, |seed| parity::run(seed, 120)).count() > 0);
}

#[test]
fn wakers_that_panic_or_meddle_harm_no_other_timer() {
    assert!(all(150, faults::wakers::run).count() > 0);
}

#[test]
fn keys_and_values_that_panic_harm_no_other_key() {
    assert!(all(150, faults::keys::run).count() > 0);
}
