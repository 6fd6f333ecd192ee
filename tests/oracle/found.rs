//! Programs that found something, cut down to what matters.

use tickwheel::wheel::Wheel;

use crate::paused::Op::{self, *};
use crate::paused::{Ending, Program, replay};

/// Runs a program that is mended.
fn found(timers: &[(u64, u8)], ops: &[Op]) {
    let program = Program {
        made_after: 0,
        is_made_outside: false,
        timers: timers.to_vec(),
        ops: ops.to_vec(),
        ending: Ending::AtOnce,
    };
    if let Err(message) = replay(&program) {
        panic!("{message}\n{program:?}");
    }
}

#[test]
fn advance_returns_when_all_that_is_due_was_woken() {
    found(&[(1_000, 1)], &[Burst(0, 257, 1_000, 0, 0), Advance(1_000)]);
}

#[test]
fn every_sleep_that_is_reset_to_now_fires_at_once() {
    found(
        &[(1_000, 1)],
        &[
            Advance(32_000),
            Burst(0, 1_500, 13_000, 68_000, 0),
            SleepResetAt(1, 0),
            SleepResetAt(2, 0),
        ],
    );
}

#[test]
fn an_unpolled_due_sleep_is_ready_after_another_is_reset() {
    found(
        &[(1_000, 1)],
        &[
            Advance(5_000_000),
            Burst(0, 255, 323_000, 10_000_000, 0),
            Sleep(0, 6_000),
            Advance(8_000),
            SleepResetAt(1, -50_000),
            PollAll(1),
        ],
    );
}

#[test]
fn due_timers_fire_at_the_next_turn_after_a_reset_to_the_past() {
    found(
        &[(1_000, 1)],
        &[
            Advance(19_000),
            Burst(0, 257, 288, 3_000, 0),
            AdvanceUnseen(8_500, 1),
            SleepResetAt(1, -18_000),
        ],
    );
}

#[test]
fn a_reset_to_the_past_fires_at_once_after_one_further_back() {
    found(
        &[(1_000, 1), (1_000, 1), (100_000, 1)],
        &[
            AdvanceUnseen(373, 2),
            AdvanceUnseen(30_000, 1),
            Burst(52, 257, 18_791, 14_261, 134_908_550_415_054_906),
            SleepResetAt(64_366, -18_000),
            SleepResetAt(53_528, -662),
        ],
    );
}

/// The burst crowds a slot, whose cascade is due before the driver comes.
#[test]
fn a_sleep_reset_to_now_fires_at_once_beside_an_overdue_cascade() {
    found(
        &[(10_000, 1), (1_000, 1)],
        &[
            RunFor(230_000),
            Burst(79, 257, 12_000, 65_000, 4_482_631_954_708_990_219),
            SleepResetAt(35_880, 0),
            SleepResetAfter(65_525, 0),
        ],
    );
}

/// Nor is the alarm set for a cascade that time passes unseen.
#[test]
fn a_reset_to_the_past_beside_an_unseen_cascade_fires_at_once() {
    found(
        &[(1_000, 1)],
        &[
            RunFor(5_000_000),
            Burst(148, 257, 594, 8_000, 11_387_579_250_293_980_484),
            AdvanceUnseen(30_000, 4),
            SleepResetAt(55_728, -50_000),
        ],
    );
}

/// The first one was too late for the alarm, which then comes within the tick of both.
#[test]
fn every_sleep_first_polled_in_its_coarse_tick_is_ready_at_once() {
    found(
        &[(100_000, 1)],
        &[
            Timeout(127, 15_143),
            Advance(701),
            Poll(62_304, 0),
            AdvanceUnseen(455, 3),
            Advance(12_727),
            Idle,
            RunFor(13_000),
            RunFor(30_000),
            Advance(30_000),
            RunFor(3_656),
            Advance(30_000),
            Advance(34_629_232_339),
            Sleep(172, 4_097_000),
            RunFor(4_095_000),
            AdvanceUnseen(30_000, 4),
            Sleep(14, 18_156),
            RunFor(30_000),
            PollAll(1),
        ],
    );
}

/// Likewise in another shard, whose driver is the same.
#[test]
fn a_sleep_first_polled_in_its_coarse_tick_is_ready_on_any_shard() {
    found(
        &[(100_000, 4)],
        &[
            RunFor(30_000),
            Sleep(42, 90_000),
            Timeout(39, 19_000),
            Advance(218_000),
            PollAll(0),
        ],
    );
}

/// The present tick begins between two lines of tokio's grid. An alarm that is set for its start,
/// since an earlier tick was missed, passes by what tokio's driver finds at the present line.
#[test]
fn a_missed_tick_leaves_the_alarm_of_another_in_time() {
    found(
        &[(1_000, 1), (5_273, 1)],
        &[
            Advance(6_000),
            Sleep(89, 609),
            AdvanceUnseen(329, 1),
            AdvanceUnseen(13_000, 1),
            Advance(9_081),
            AdvanceUnseen(6_840, 1),
            Timeout(197, 1_753),
            AdvanceUnseen(17_555, 3),
            PollAll(1),
        ],
    );
}

/// The first poll misses its tick, and finds that the present one has passed too.
#[test]
fn a_sleep_of_the_present_tick_is_ready_after_one_of_a_missed_tick() {
    found(
        &[(100_000, 3)],
        &[
            Sleep(56, 140_000),
            Sleep(116, 14_545),
            Advance(220_000),
            AdvanceUnseen(10_000, 2),
            PollAll(0),
        ],
    );
}

/// A coarse slot of many is emptied ahead of its time. The wheel's unit tests call few timers many.
#[test]
fn ties_on_three_levels_keep_their_order_as_a_slot_cascades() {
    let mut wheel = Wheel::new();
    let start = 5 << 18;
    let due = start + 100;
    wheel.insert(due, "on level 3");
    for other in 0..300 {
        wheel.insert(start + 1_000 + other, "another");
    }
    assert_eq!(wheel.advance(due - 500_000).count(), 0);
    wheel.insert(due, "on level 2");
    assert_eq!(wheel.advance(due - 5_000).count(), 0);
    wheel.insert(due, "on level 1");
    for now in start - 5..start {
        assert_eq!(wheel.advance(now).count(), 0);
    }
    let advance = wheel.advance(due);
    let (least, most) = advance.size_hint();
    assert!(least <= 3 && most.is_none_or(|most| most >= 3));
    let fired = advance.map(|(_, value)| value);
    assert!(fired.eq(["on level 3", "on level 2", "on level 1"]));
}
