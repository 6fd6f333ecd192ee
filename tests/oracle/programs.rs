//! How random programs are run and compared, in the oracles of both crates.

use std::fmt::Debug;

/// The seeds of a run: fixed ones, and one that no run had before.
fn seeds(programs: u64) -> impl Iterator<Item = u64> {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = variable("ORACLE_SEED").unwrap_or(0);
    let programs = variable("ORACLE_PROGRAMS").unwrap_or(programs);
    (first..first + programs).chain([fastrand::u64(..)])
}

pub(crate) fn same<T: PartialEq + Debug>(what: &str, actual: T, expected: T) -> Result<(), String> {
    if actual == expected {
        Ok(())
    } else {
        Err(format!("{what} answers {actual:?}, not {expected:?}"))
    }
}

/// Runs so many programs, and one that no run had before. Returns what they were counted by.
pub(crate) fn all<R>(
    programs: u64,
    run: impl Fn(u64) -> Result<R, String>,
) -> impl Iterator<Item = R> {
    seeds(programs).map(move |seed| run(seed).unwrap_or_else(|failure| panic!("{failure}")))
}
