//! The oracle of `DelayQueue`: random programs beside tokio-util's and a sorted list.
//!
//! `ORACLE_PROGRAMS` says how many random programs run, and `ORACLE_SEED` where the seeds begin.
#![cfg(feature = "time")]

#[path = "../../../tests/common/mod.rs"]
mod common;
mod delay_queues;
#[path = "../../../tests/common/paused_clock.rs"]
mod paused_clock;
#[path = "../../../tests/oracle/programs.rs"]
mod programs;
#[path = "../../../tests/oracle/paused/shrink.rs"]
mod shrink;

#[test]
fn a_delay_queue_does_what_tokio_utils_does() {
    let spurious = programs::all(400, |seed| delay_queues::run(seed, 200));
    let [ours, peers] = spurious.fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    assert!(ours <= peers, "woken for nothing: {ours}, not {peers}");
}
