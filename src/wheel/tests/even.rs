//! How much work a single turn does beside firing.
//!
//! Invariant: a turn of a wheel that is turned at each tick touches a bounded number of timers
//! beside those that fire, however many there are.

use super::*;

/// How many nodes a turn touches at most to move or fire one timer: the timer and its neighbours,
/// several times.
const TOUCHED: usize = 12;

/// Turns the wheel at each tick up to `last`, and lets `refill` replace the fired timers. Returns
/// the most nodes that a turn touched beside those that it fired.
fn most_touched(
    wheel: &mut Wheel<()>,
    last: u64,
    mut refill: impl FnMut(&mut Wheel<()>, usize),
) -> usize {
    let mut most = 0;
    for now in wheel.now() + 1..=last {
        let (before, mut fired) = (VISITS.get(), 0);
        let is_finished = turn(wheel, now, usize::MAX >> 8, |due| {
            assert_eq!(due, now, "it fires in its tick");
            fired += 1;
        });
        assert!(is_finished);
        let touched = VISITS.get() - before;
        assert!(touched >= fired, "what fires is touched");
        most = most.max(touched.saturating_sub(fired * TOUCHED));
        refill(wheel, fired);
    }
    wheel.check();
    most
}

/// The bound, for each level: timers that cascade ahead of their time, and a slot of few.
fn bound(wheel: &Wheel<()>) -> usize {
    (EARLY + FEW) * wheel.levels() * TOUCHED
}

#[test]
fn a_turn_touches_a_bounded_number_at_any_load() {
    // A wheel that is kept full, at loads up to the limit of all turns together.
    for (many, span) in [
        (100, 300_u64),
        (10_000, 10_000),
        (40_000, 15_000),
        (20_000, 400_000),
    ] {
        let mut random = fastrand::Rng::with_seed(many);
        let wheel = &mut Wheel::new();
        assert_eq!(wheel.pop_due(random.u64(..1 << 40)), None);
        let mut fill = |wheel: &mut Wheel<()>, count: usize| {
            let now = wheel.now();
            wheel.extend((0..count).map(|_| (now + random.u64(1..=span), ())));
        };
        fill(wheel, many as usize);
        let last = wheel.now() + span.min(30_000);
        let touched = most_touched(wheel, last, fill);
        let bound = bound(wheel);
        assert!(
            touched <= bound,
            "{touched} of {many} within {span} ticks, not {bound}"
        );
    }
}

#[test]
fn a_crowd_that_is_due_far_away_at_one_tick_comes_down_evenly() {
    // Far more than a turn moves, and no more than all turns before it can.
    let (many, due) = (1_500, 20_000);
    let wheel = &mut Wheel::new();
    wheel.extend((0..many).map(|_| (due, ())));
    let touched = most_touched(wheel, due, |_, _| ());
    assert!(wheel.is_empty());
    assert!(touched <= bound(wheel), "{touched}");
}

#[test]
fn slots_that_begin_at_one_tick_share_what_a_turn_moves() {
    let begin = 8_192;
    let wheel = &mut Wheel::new();
    wheel.extend((0..200).map(|number| (begin + 128 + 10 * number, "on level 2")));
    assert_eq!(wheel.advance(begin - 1_000).count(), 0);
    wheel.extend((0..200).map(|number| (begin + number % 64, "on level 1")));
    let levels = |wheel: &Wheel<_>| -> Vec<_> {
        let indices = wheel.iter().map(|(key, ..)| key.index());
        indices
            .map(|index| wheel.nodes[index].position.level())
            .collect()
    };
    let mut before = levels(wheel);
    while wheel.now() < begin - 1 {
        let now = wheel.now() + 1;
        while !turn(wheel, now, 1, |_| panic!("nothing is due")) {}
        let after = levels(wheel);
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(one, other)| one != other);
        assert!(moved.count() <= 2 * EARLY, "at {now}");
        before = after;
    }
    let left = before.iter().filter(|level| **level == 2).count();
    assert!(left <= FEW, "{left} were not moved before it began");
}

#[test]
fn a_crowd_behind_the_slot_that_comes_next_is_moved_in_time_too() {
    let mut wheel = Wheel::new();
    wheel.insert(383, ());
    wheel.extend((0..1_000).map(|number| (384 + number % 64, ())));
    let turns = 2 * 1_000_u64.div_ceil(EARLY as u64);
    assert_eq!(wheel.next_turn(), Some(384 - turns));
}

#[test]
fn a_load_beyond_the_bound_is_shared_by_the_turns_before_it() {
    // At 100 a tick, three times as many as `EARLY`.
    let (rate, first, last) = (100, 8_192_u64, 12_288);
    let mut wheel = Wheel::new();
    wheel.extend((first..last).flat_map(|due| (0..rate).map(move |_| (due, ()))));
    let touched = most_touched(&mut wheel, last, |_, _| ());
    assert!(wheel.is_empty());
    // Of each of the two levels at most twice what makes its slots empty in time.
    let most = 2 * (2 * (rate + 1) + FEW) * TOUCHED;
    assert!(touched <= most, "{touched}, not {most}");
}

#[test]
fn a_wheel_that_has_nothing_to_do_names_no_tick() {
    let mut wheel = Wheel::new();
    wheel.extend((0..FEW).map(|_| (5_000, ())));
    assert_eq!(wheel.next_turn(), Some(5_000));
    assert_eq!(wheel.turn_for(5_000), 5_000);
    // A slot of the finest level is not emptied, whatever it holds.
    let near: Vec<_> = (0..=FEW).map(|_| wheel.insert(50, ())).collect();
    assert_eq!(wheel.turn_for(50), 50);
    assert!(near.into_iter().all(|key| wheel.remove(key).is_some()));
    // More than a few are moved before their slot begins, in time for two turns.
    wheel.extend((0..FEW + 10).map(|_| (40_000, ())));
    // The next turn is no later than the tick from which the slot fits into the finer level.
    assert_eq!(wheel.turn_for(40_000), 32_768);
    assert_eq!(wheel.advance(32_768).count(), FEW);
    assert_eq!(wheel.next_turn(), Some(36_864 - 2));
    assert_eq!(wheel.advance(36_861).count(), 0);
    assert_eq!(wheel.next_turn(), Some(36_864 - 2));
    assert_eq!(wheel.advance(36_862).count(), 0);
    // All were moved in one turn, and will be once more, from level 1 to level 0.
    assert_eq!(wheel.next_turn(), Some(40_000 - 2));
    wheel.check();
}

#[test]
fn a_wheel_that_is_turned_only_when_it_has_to_be_is_even_too() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let wheel = &mut Wheel::new();
        assert_eq!(wheel.pop_due(random.u64(..1 << 40)), None);
        let mut expiry = u64::MAX;
        let (first, span) = (random.u64(200..100_000), random.u64(100..20_000));
        let many = random.u64(..(span * EARLY as u64 / 4).min(20_000));
        for round in 0.. {
            // The owner knows only `turn_for` of an insert, and otherwise its last `next_turn`.
            for _ in 0..if round == 0 { many } else { 0 } {
                let due = wheel.now() + first + random.u64(..span);
                wheel.insert(due, ());
                expiry = expiry.min(wheel.turn_for(due));
            }
            let (before, mut fired) = (VISITS.get(), 0);
            assert!(turn(wheel, expiry, usize::MAX >> 8, |due| {
                assert_eq!(due, expiry, "it fires in its tick");
                fired += 1;
            }));
            let touched = VISITS.get() - before;
            let bound = bound(wheel) + fired * TOUCHED;
            assert!(touched <= bound, "{touched}, not {bound}: seed {seed}");
            match wheel.next_turn() {
                Some(next) => expiry = next,
                None => break,
            }
        }
    }
}

/// A driver that was held up, or a stream whose consumer was busy, comes shortly before the slot.
#[test]
fn a_late_turn_touches_no_more_than_its_budget() {
    let start = 5 * 4_096;
    for late_by in [0, 1, 3, 40, 100] {
        let wheel = &mut Wheel::new();
        wheel.extend((0..4_000).map(|number| (start + number % 64, ())));
        let budget = 2;
        for round in 0.. {
            let before = VISITS.get();
            let is_finished = turn(wheel, start - 1 - late_by, budget, |_| ());
            let touched = VISITS.get() - before;
            let most = (budget + 1) * TOUCHED;
            assert!(touched <= most, "{touched}, not {most}, {late_by} late");
            assert!(round < 8_000, "it has an end");
            if is_finished {
                break;
            }
        }
        assert_eq!(dues(wheel.advance(start + 63)).len(), 4_000);
    }
}

#[test]
fn a_crowd_that_a_turn_has_seen_brings_no_later_timer_forward() {
    let mut wheel = Wheel::new();
    wheel.extend([(300, ()); FEW + 1]);
    assert!(wheel.turn_for(1_000) < 300);
    assert_eq!(wheel.advance(1).count(), 0);
    assert_eq!(wheel.turn_for(1_000), 1_000);
}
