//! Programs that found something, cut down to what matters.
//!
//! One that the crate still fails stands in `paused/known.rs` too. When the crate is mended its
//! test here fails, and the line there is to be taken out.

use crate::paused::{Ending, KNOWN, Known, Op, Program, replay, strictly};

/// Runs a program with all checks. The crate must fail it exactly as long as it is known to.
fn found(known: Known, timers: &[(u64, u8, u8)], ops: &[Op]) {
    found_at_the_end(known, timers, ops, Ending::AtOnce);
}

fn found_at_the_end(known: Known, timers: &[(u64, u8, u8)], ops: &[Op], ending: Ending) {
    let program = Program {
        timers: timers.to_vec(),
        ops: ops.to_vec(),
        ending,
    };
    let outcome = strictly(|| replay(&program));
    match (outcome, KNOWN.contains(&known)) {
        (Err(_), true) | (Ok(_), false) => {}
        (Ok(_), true) => panic!("{known:?} is mended: take it out of `KNOWN`"),
        (Err(message), false) => panic!("{message}\n{program:?}"),
    }
}

#[test]
fn advance_returns_when_all_that_is_due_was_woken() {
    let (after, spread) = (1_000, 0);
    let burst = Op::Burst {
        timer: 0,
        count: 257,
        after,
        spread,
        seed: 0,
    };
    found(
        Known::AdvanceLeavesSomeAsleep,
        &[(1_000, 64, 1)],
        &[burst, Op::Advance { by: 1_000 }],
    );
}

#[test]
fn an_empty_map_has_nothing_pending() {
    found(
        Known::EmptyMapCountsAsPending,
        &[(1_000, 64, 1)],
        &[Op::Recv { waker: 0, count: 1 }],
    );
}

#[test]
fn what_is_due_now_is_ready_at_the_first_poll_also_on_a_coarse_tick() {
    found(
        Known::NowWaitsForACoarseTick,
        &[(100_000, 64, 1)],
        &[
            Op::Advance { by: 30_000 },
            Op::SleepUntil {
                timer: 0,
                from_now: 0,
            },
            Op::Poll { nth: 0, waker: 0 },
        ],
    );
}

#[test]
fn a_scope_ends_although_its_coarse_timer_has_not_come_to_its_deadline() {
    found(
        Known::ScopeSpins,
        &[(1_000, 64, 1), (100_000, 64, 1)],
        &[
            Op::Scope {
                timer: 1,
                from_now: 840,
                inner: 0,
                after: 13_216,
            },
            Op::Poll { nth: 0, waker: 0 },
            Op::Advance { by: 15_000 },
            Op::Poll { nth: 0, waker: 0 },
        ],
    );
}

#[test]
fn a_reset_of_a_deadline_with_no_time_at_all_comes_too_late() {
    found(
        Known::ResetOfNoTimeAtAll,
        &[(100_000, 64, 1)],
        &[
            Op::Advance { by: 30_000 },
            // For the questions that are asked after each operation, which are looks too.
            Op::Deadline {
                timer: 0,
                timeout: 19_000,
            },
            Op::Deadline {
                timer: 0,
                timeout: 19_000,
            },
            Op::Deadline {
                timer: 0,
                timeout: 0,
            },
            Op::Reset {
                nth: 2,
                by_key: false,
            },
        ],
    );
}

#[test]
fn a_poll_that_is_ready_wakes_no_waker_of_an_earlier_poll() {
    found(
        Known::ReadyPollWakesToo,
        &[(1_000, 64, 1)],
        &[
            Op::Deadline {
                timer: 0,
                timeout: 19_000,
            },
            Op::PollDeadline { nth: 0, waker: 0 },
            Op::AdvanceUnseen {
                by: 30_000,
                operations: 3,
            },
            Op::PollDeadline { nth: 0, waker: 1 },
        ],
    );
}

#[test]
fn a_sleep_has_not_elapsed_before_a_poll_of_it_is_ready() {
    found(
        Known::ElapsedBetweenTwoLines,
        &[(1_000, 64, 1)],
        &[
            Op::Sleep {
                timer: 0,
                after: 2_000,
            },
            Op::Advance { by: 811 },
            Op::SleepResetAt {
                nth: 0,
                from_now: 0,
            },
        ],
    );
}

#[test]
fn a_restart_after_the_end_of_the_runtime_tells_of_that_end() {
    found_at_the_end(
        Known::RestartOfNoTimeAfterTheEnd,
        // The maps are on the first one, which so learns of the end.
        &[(1_000, 64, 1), (1_000, 64, 1)],
        &[Op::Deadline {
            timer: 1,
            timeout: 0,
        }],
        Ending::WithItsRuntime,
    );
}

#[test]
fn every_interval_that_has_missed_a_tick_is_ready() {
    found(
        Known::SecondMissedTickIsPending,
        &[(1_000, 64, 1)],
        &[
            Op::Interval {
                timer: 0,
                from_now: 0,
                period: 20_000,
                behavior: 0,
            },
            Op::Interval {
                timer: 0,
                from_now: 0,
                period: 1_000,
                behavior: 0,
            },
            Op::PollAll { waker: 0 },
            Op::Advance { by: 30_000 },
            Op::Sleep {
                timer: 0,
                after: 13_000,
            },
            Op::Poll { nth: 2, waker: 0 },
            Op::Poll { nth: 1, waker: 0 },
            Op::Poll { nth: 0, waker: 0 },
        ],
    );
}

#[test]
fn every_sleep_that_is_reset_to_now_fires_at_once() {
    found(
        Known::ResetToNowWaitsForACascade,
        &[(1_000, 4, 1)],
        &[
            Op::Advance { by: 32_000 },
            Op::Burst {
                timer: 0,
                count: 1_500,
                after: 13_000,
                spread: 68_000,
                seed: 0,
            },
            Op::SleepResetAt {
                nth: 1,
                from_now: 0,
            },
            Op::SleepResetAt {
                nth: 2,
                from_now: 0,
            },
        ],
    );
}

#[test]
fn a_sleep_that_was_due_before_its_first_poll_is_ready_after_another_was_reset_to_the_past() {
    found(
        Known::FirstPollWaitsForACascade,
        &[(1_000, 64, 1)],
        &[
            Op::Advance { by: 5_000_000 },
            Op::Burst {
                timer: 0,
                count: 255,
                after: 323_000,
                spread: 10_000_000,
                seed: 0,
            },
            Op::Sleep {
                timer: 0,
                after: 6_000,
            },
            Op::Advance { by: 8_000 },
            Op::SleepResetAt {
                nth: 1,
                from_now: -50_000,
            },
            Op::PollAll { waker: 1 },
        ],
    );
}

#[test]
fn what_is_due_fires_at_the_next_turn_also_after_a_reset_to_the_past() {
    found(
        Known::ResetToThePastPutsTheAlarmOff,
        &[(100, 2, 1)],
        &[
            Op::Advance { by: 19_000 },
            Op::Burst {
                timer: 0,
                count: 257,
                after: 288,
                spread: 3_000,
                seed: 0,
            },
            Op::AdvanceUnseen {
                by: 8_500,
                operations: 1,
            },
            Op::SleepResetAt {
                nth: 1,
                from_now: -18_000,
            },
        ],
    );
}

#[test]
fn a_reset_to_the_past_fires_at_once_after_another_one_that_was_further_back() {
    found(
        Known::ResetToNowWaitsForACascade,
        &[(100, 64, 1), (100, 2, 1), (100_000, 64, 1)],
        &[
            Op::AdvanceUnseen {
                by: 373,
                operations: 2,
            },
            Op::AdvanceUnseen {
                by: 30_000,
                operations: 1,
            },
            Op::Burst {
                timer: 52,
                count: 257,
                after: 18_791,
                spread: 14_261,
                seed: 134_908_550_415_054_906,
            },
            Op::SleepResetAt {
                nth: 64_366,
                from_now: -18_000,
            },
            Op::SleepResetAt {
                nth: 53_528,
                from_now: -662,
            },
        ],
    );
}
