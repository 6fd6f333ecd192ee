//! The wheel against a `BTreeMap`, its lists and bitmaps checked after each operation.

mod access;
mod memory;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

impl<T> Wheel<T> {
    /// Asserts every invariant that the module's documentation states.
    fn check(&self) {
        for (&(due, rank), &index) in &self.overdue {
            let node = &self.nodes[index as usize];
            assert_eq!(
                (node.due, node.links.to_rank(), node.home),
                (due, rank, Home::OVERDUE)
            );
        }
        let overdue = self.overdue.len();
        let in_levels: usize = self
            .levels
            .iter()
            .enumerate()
            .map(|(number, level)| level.check(&self.nodes, number))
            .sum();
        assert_eq!(
            overdue + in_levels,
            self.nodes.len(),
            "a node is in no list"
        );
        for (number, level) in self.levels.iter().enumerate() {
            assert_eq!(
                self.occupied >> number & 1 == 1,
                !level.is_empty(),
                "the bit of level {number}"
            );
        }
        assert!(self.elapsed <= self.now);
        for (_, node) in &self.nodes {
            if node.home == Home::OVERDUE {
                assert!(node.due < self.elapsed);
            } else if Some(node.home) != self.cascading {
                assert!(node.due >= self.elapsed);
                let shift = node.home.level() as u32 * self.digit_bits;
                let digit = node.due >> shift & ((1 << self.digit_bits) - 1);
                assert_eq!(
                    digit as usize,
                    node.home.slot(),
                    "a timer is not in the slot of its digit"
                );
                let above = u64::MAX.checked_shl(shift + self.digit_bits).unwrap_or(0);
                assert_eq!(
                    node.due & above,
                    self.elapsed & above,
                    "a timer is too low for its due"
                );
            }
        }
    }
}

/// Prints the wheel when the test that holds it fails.
struct Printed<T>(Wheel<T>);

impl<T> Drop for Printed<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{:#?}", self.0);
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64),
    InsertAt(u64),
    Remove(usize),
    Reset(usize, u64),
    Advance(u64),
    AdvanceTo(u64),
    AdvanceAndDrop(u64, usize),
    Turn(u64, usize),
    Look(usize),
    Change(usize),
    Iterate,
    Extend(Vec<u64>),
    Clear,
}

/// Distances that matter: within a slot, whole rotations of every level and their neighbours, and
/// the far end.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..200_u64,
        2 => 0..10_000_u64,
        2 => (0..64_u32, 0..3_u64).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off).wrapping_sub(1)),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => distance().prop_map(Operation::Insert),
        1 => any::<u64>().prop_map(Operation::InsertAt),
        1 => (0..300_u64).prop_map(Operation::InsertAt),
        4 => any::<usize>().prop_map(Operation::Remove),
        4 => (any::<usize>(), distance()).prop_map(|(which, delay)| Operation::Reset(which, delay)),
        4 => (0..300_u64).prop_map(Operation::Advance),
        2 => distance().prop_map(Operation::Advance),
        1 => (0..1_000_u64).prop_map(Operation::AdvanceTo),
        2 => (0..300_u64, 0..4_usize).prop_map(|(by, taken)| Operation::AdvanceAndDrop(by, taken)),
        2 => (distance(), 0..6_usize).prop_map(|(by, budget)| Operation::Turn(by, budget)),
        4 => any::<usize>().prop_map(Operation::Look),
        2 => any::<usize>().prop_map(Operation::Change),
        2 => Just(Operation::Iterate),
        1 => proptest::collection::vec(distance(), 0..5).prop_map(Operation::Extend),
        1 => Just(Operation::Clear),
    ]
}

/// A key that no timer has.
const UNKNOWN: Key = Key {
    index: u32::MAX,
    sequence: NonZeroU64::MAX,
};

/// What the wheel must do, by the plainest means: timers sorted by due and by when they were
/// linked.
#[derive(Default)]
struct Model {
    timers: BTreeMap<(u64, u64), Key>,
    linked: u64,
    now: u64,
}

impl Model {
    fn link(&mut self, due: u64, key: Key) {
        self.linked += 1;
        self.timers.insert((due, self.linked), key);
    }

    fn position(&self, key: Key) -> Option<(u64, u64)> {
        self.timers
            .iter()
            .find(|&(_, &other)| other == key)
            .map(|(&position, _)| position)
    }

    fn pop_due(&mut self) -> Option<(u64, Key)> {
        let entry = self
            .timers
            .first_entry()
            .filter(|entry| entry.key().0 <= self.now)?;
        let ((due, _), key) = entry.remove_entry();
        Some((due, key))
    }
}

/// A wheel at a tick, made so or advanced there.
fn at_tick(start: u64, is_made_so: bool, capacity: usize, slots: usize) -> Wheel<usize> {
    let mut wheel = Wheel::with_capacity_and_slots(capacity, slots);
    if is_made_so {
        return wheel.starting_at(start);
    }
    assert_eq!(wheel.advance(start).count(), 0);
    wheel
}

fn run(wheel: Wheel<usize>, operations: Vec<Operation>) {
    let mut wheel = Printed(wheel);
    let wheel = &mut wheel.0;
    let kept = wheel.capacity();
    let mut model = Model::default();
    let mut keys: Vec<Key> = Vec::new();
    let mut numbers = Vec::new();
    model.now = wheel.now();
    for operation in operations {
        let from_now = |delay| model.now.saturating_add(delay);
        match operation {
            Operation::Insert(_) | Operation::InsertAt(_) => {
                let due = match operation {
                    Operation::Insert(delay) => from_now(delay),
                    Operation::InsertAt(due) => due,
                    _ => unreachable!(),
                };
                let key = wheel.insert(due, keys.len());
                assert!(!keys.contains(&key), "a key was given out twice");
                numbers.push(key);
                keys.push(key);
                model.link(due, key);
            }
            Operation::Remove(which) if !keys.is_empty() => {
                let number = which % keys.len();
                let position = model.position(keys[number]);
                assert_eq!(wheel.remove(keys[number]), position.map(|_| number));
                position.map(|position| model.timers.remove(&position));
            }
            Operation::Reset(which, delay) if !keys.is_empty() => {
                let key = keys[which % keys.len()];
                let due = from_now(delay);
                let position = model.position(key);
                assert_eq!(wheel.reset(key, due), position.is_some());
                if let Some(position) = position {
                    model.timers.remove(&position);
                    model.link(due, key);
                }
            }
            Operation::Look(which) if !keys.is_empty() => {
                let number = which % keys.len();
                let key = keys[number];
                let position = model.position(key);
                assert_eq!(wheel.contains(key), position.is_some());
                assert_eq!(wheel.due(key), position.map(|(due, _)| due));
                assert_eq!(wheel.get(key).copied(), position.map(|_| number));
            }
            Operation::Change(which) if !keys.is_empty() => {
                let number = which % keys.len();
                let position = model.position(keys[number]);
                let value = wheel.get_mut(keys[number]);
                assert_eq!(value.as_deref(), position.map(|_| &number));
                if let (Some(value), Some(position)) = (value, position) {
                    // The same timer under another number, which its key goes by from now on.
                    *value = keys.len();
                    keys.push(keys[number]);
                    numbers.push(keys[number]);
                    keys[number] = UNKNOWN;
                    assert!(model.timers.contains_key(&position));
                }
            }
            Operation::Iterate => {
                let mut seen: Vec<_> = wheel
                    .iter()
                    .map(|(key, due, &number)| (due, key.to_parts(), numbers[number].to_parts()))
                    .collect();
                seen.sort_unstable();
                let mut expected: Vec<_> = model
                    .timers
                    .iter()
                    .map(|(&(due, _), key)| (due, key.to_parts(), key.to_parts()))
                    .collect();
                expected.sort_unstable();
                assert_eq!(seen, expected);
            }
            Operation::Extend(delays) => {
                let first = keys.len();
                let dues: Vec<_> = delays.into_iter().map(from_now).collect();
                wheel.extend(dues.iter().copied().zip(first..));
                for (number, due) in (first..).zip(dues) {
                    let (key, ..) = wheel.iter().find(|(.., other)| **other == number).unwrap();
                    numbers.push(key);
                    keys.push(key);
                    model.link(due, key);
                }
            }
            Operation::Clear => {
                wheel.clear();
                model.timers.clear();
                assert_eq!(wheel.capacity(), kept);
            }
            Operation::Remove(_)
            | Operation::Reset(..)
            | Operation::Look(_)
            | Operation::Change(_) => {}
            Operation::Advance(_) | Operation::AdvanceTo(_) => {
                let target = match operation {
                    Operation::Advance(by) => from_now(by),
                    Operation::AdvanceTo(target) => target,
                    _ => unreachable!(),
                };
                model.now = model.now.max(target);
                let fired: Vec<_> = wheel
                    .advance(target)
                    .map(|(due, number)| (due, numbers[number]))
                    .collect();
                let expected: Vec<_> = std::iter::from_fn(|| model.pop_due()).collect();
                assert_eq!(fired, expected);
                assert!(wheel.next_turn().is_none_or(|turn| turn > model.now));
            }
            Operation::AdvanceAndDrop(by, taken) => {
                model.now = from_now(by);
                let fired: Vec<_> = wheel.advance(model.now).take(taken).collect();
                for (due, number) in fired {
                    assert_eq!(Some((due, numbers[number])), model.pop_due());
                }
            }
            Operation::Turn(by, budget) => {
                model.now = from_now(by);
                let mut fired = Vec::new();
                let finished = wheel.turn(model.now, budget, |_, &mut number| {
                    fired.push(number);
                    Verdict::Fire
                });
                for number in fired {
                    let (_, key) = model.pop_due().expect("the wheel fired what is not due");
                    assert_eq!(numbers[number], key);
                }
                assert!(
                    !finished
                        || model
                            .timers
                            .keys()
                            .next()
                            .is_none_or(|&(due, _)| due > model.now)
                );
            }
        }
        wheel.check();
        assert_eq!(wheel.now(), model.now);
        assert_eq!(wheel.len(), model.timers.len());
        assert_eq!(wheel.is_empty(), model.timers.is_empty());
        assert!(wheel.capacity() >= wheel.len().max(kept));
        assert_eq!(
            wheel.slot_counts().levels.iter().flatten().sum::<usize>()
                + wheel.slot_counts().overdue,
            wheel.len()
        );
        let earliest = model.timers.keys().next().map(|&(due, _)| due);
        match (wheel.next_turn(), earliest) {
            (None, None) => {}
            (Some(turn), Some(due)) => {
                assert!(turn <= due, "next turn {turn}, but a timer is due at {due}");
            }
            (turn, due) => panic!("next turn {turn:?}, but the earliest due is {due:?}"),
        }
        // `None` is the earliest of all, so emptiness has to agree as well.
        let at_the_earliest = wheel.next_turn_at_the_earliest();
        assert!(at_the_earliest <= wheel.next_turn());
        assert_eq!(at_the_earliest.is_none(), wheel.is_empty());
    }
    let fired: Vec<_> = wheel
        .advance(u64::MAX)
        .map(|(due, number)| (due, numbers[number]))
        .collect();
    model.now = u64::MAX;
    assert_eq!(
        fired,
        std::iter::from_fn(|| model.pop_due()).collect::<Vec<_>>()
    );
    assert_eq!(wheel.levels(), 1);
    wheel.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn the_wheel_does_what_a_sorted_map_does(
        slots in prop_oneof![Just(64_usize), 2..=64_usize],
        start in prop_oneof![Just(0_u64), distance(), Just((1 << 30) - 20), Just((1 << 36) - 20)],
        is_made_so in any::<bool>(),
        capacity in prop_oneof![Just(0_usize), 0..100_usize],
        operations in proptest::collection::vec(operation(), 1..120),
    ) {
        run(at_tick(start, is_made_so, capacity, slots), operations);
    }
}

fn dues<T>(fired: impl Iterator<Item = (u64, T)>) -> Vec<u64> {
    fired.map(|(due, _)| due).collect()
}

#[test]
fn a_fine_level_does_not_hide_an_earlier_timer_of_a_coarser_one() {
    let mut wheel = Printed(Wheel::new());
    let wheel = &mut wheel.0;
    wheel.insert(300, ());
    assert_eq!(wheel.advance(250).count(), 0);
    wheel.insert(400, ());
    assert_eq!(wheel.next_turn(), Some(300));
    assert_eq!(dues(wheel.advance(300)), [300]);
    assert_eq!(dues(wheel.advance(400)), [400]);
}

#[test]
fn short_timers_fire_beside_one_at_the_end_of_time_at_any_uptime() {
    for uptime in [
        0,
        1 << 30,
        1 << 36,
        1 << 42,
        3_155_760_000_000,
        u64::MAX - 10_000,
    ] {
        for before in 0..70 {
            let mut wheel = Printed(Wheel::new());
            let wheel = &mut wheel.0;
            let start = uptime.saturating_sub(before);
            assert_eq!(wheel.advance(start).count(), 0);
            let forever = wheel.insert(u64::MAX, 0);
            for delay in 1..=130 {
                wheel.insert(start + delay, delay);
            }
            for delay in 1..=130 {
                assert_eq!(wheel.next_turn(), Some(start + delay));
                assert_eq!(
                    wheel.advance(start + delay).collect::<Vec<_>>(),
                    [(start + delay, delay)]
                );
                wheel.check();
            }
            assert_eq!(wheel.remove(forever), Some(0));
        }
    }
}

#[test]
fn a_jump_of_a_year_or_of_a_whole_rotation_of_every_level_fires_everything_in_order() {
    const YEAR: u64 = 365 * 24 * 60 * 60 * 1000;
    for jump in (0..64)
        .map(|bit| 1 << bit)
        .chain([YEAR, 100 * YEAR, u64::MAX])
    {
        let mut wheel = Printed(Wheel::new());
        let wheel = &mut wheel.0;
        let mut due: Vec<u64> = (0..64)
            .map(|bit| 1 << bit)
            .filter(|due| *due <= jump)
            .collect();
        for due in due.iter().rev() {
            wheel.insert(*due, ());
        }
        due.sort_unstable();
        assert_eq!(dues(wheel.advance(jump)), due);
        wheel.check();
    }
}

#[test]
fn time_that_does_not_move_or_goes_back_fires_only_what_is_due() {
    let mut wheel = Printed(Wheel::new());
    let wheel = &mut wheel.0;
    assert_eq!(wheel.advance(100).count(), 0);
    wheel.insert(101, ());
    assert_eq!(wheel.advance(100).count(), 0);
    assert_eq!(wheel.advance(7).count(), 0);
    assert_eq!(wheel.now(), 100);
    wheel.insert(100, ());
    wheel.insert(3, ());
    assert_eq!(dues(wheel.advance(100)), [3, 100]);
    assert_eq!(dues(wheel.advance(101)), [101]);
}

#[test]
fn every_phase_delay_and_gap_of_a_move_fires_once_at_its_new_due() {
    for slots in [2, 4, 64] {
        for phase in 0..70 {
            for delay in [1, 2, 3, 63, 64, 65, 127, 128, 129, 4096] {
                for moved_to in [0, 1, 2, 62, 63, 64, 65, 128, 4095, 4096, 4097] {
                    let mut wheel = Wheel::with_slots(slots);
                    assert_eq!(wheel.advance(phase).count(), 0);
                    let key = wheel.insert(phase + delay, ());
                    assert!(wheel.reset(key, phase + moved_to));
                    if moved_to > 0 {
                        assert_eq!(wheel.advance(phase + moved_to - 1).count(), 0);
                    }
                    assert_eq!(dues(wheel.advance(phase + moved_to)), [phase + moved_to]);
                    assert_eq!(wheel.advance(phase + moved_to + 10_000).count(), 0);
                }
            }
        }
    }
}

#[test]
fn levels_are_made_on_overflow_and_dropped_when_the_top_ones_have_emptied() {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.levels(), 1);
    let near = wheel.insert(63, ());
    assert_eq!(wheel.levels(), 1);
    let far = wheel.insert(64, ());
    assert_eq!(wheel.levels(), 2);
    let farther = wheel.insert(u64::MAX, ());
    assert_eq!(wheel.levels(), 11);
    wheel.remove(farther);
    assert_eq!(wheel.levels(), 2);
    wheel.remove(far);
    assert_eq!(wheel.levels(), 1);
    wheel.remove(near);
    assert_eq!(wheel.levels(), 1);
    assert_eq!(wheel.advance(1).count(), 0);
    assert_eq!(
        wheel.levels.len(),
        1,
        "the memory of an emptied level is given back at the next turn"
    );
}

#[test]
fn ties_fire_in_insertion_order_also_when_they_came_through_different_levels() {
    let mut wheel = Wheel::new();
    wheel.insert(5_000, 0);
    assert_eq!(wheel.advance(4_900).count(), 0);
    wheel.insert(5_000, 1);
    assert_eq!(wheel.advance(4_999).count(), 0);
    let moved = wheel.insert(5_000, 2);
    wheel.insert(5_000, 3);
    wheel.reset(moved, 5_000);
    let order: Vec<_> = wheel.advance(5_000).map(|(_, number)| number).collect();
    assert_eq!(order, [0, 1, 3, 2]);
}

#[test]
fn a_stale_key_is_never_mistaken_for_a_later_timer_in_the_same_place() {
    let mut wheel = Wheel::new();
    let first = wheel.insert(1, "first");
    assert_eq!(wheel.remove(first), Some("first"));
    let second = wheel.insert(1, "second");
    assert_eq!(first.index, second.index, "the place is used again");
    assert_eq!(wheel.remove(first), None);
    assert!(!wheel.reset(first, 9));
    assert_eq!(dues(wheel.advance(1)), [1]);
    assert_eq!(wheel.remove(second), None);
}

#[test]
fn a_judged_timer_that_is_truly_due_later_is_linked_again() {
    let mut wheel = Wheel::new();
    wheel.insert(10, 1_000);
    wheel.insert(10, 10);
    let mut fired = Vec::new();
    for now in [10, 999, 1_000] {
        let finished = wheel.turn(now, 100, |_, truly_due| {
            if *truly_due > now {
                return Verdict::Later(*truly_due);
            }
            fired.push((now, *truly_due));
            Verdict::Fire
        });
        assert!(finished);
        wheel.check();
    }
    assert_eq!(fired, [(10, 10), (1_000, 1_000)]);
}

#[test]
fn turns_at_the_earliest_ticks_that_are_told_find_every_timer_in_few_steps() {
    for slots in [2, 8, 64] {
        let mut wheel = Wheel::with_slots(slots);
        let mut expected: Vec<u64> = (0..200).map(|n| n * n * n % 100_003).collect();
        wheel.extend(expected.iter().map(|&due| (due, ())));
        expected.sort_unstable();
        let (mut fired, mut turns) = (Vec::new(), 0);
        let mut before = None;
        while let Some(tick) = wheel.next_turn_at_the_earliest() {
            assert!(before < Some(tick), "a turn at {tick} made no progress");
            assert!(wheel.iter().all(|(_, due, ())| due >= tick));
            fired.extend(dues(wheel.advance(tick)));
            (before, turns) = (Some(tick), turns + 1);
        }
        assert_eq!(fired, expected);
        // Each timer is cascaded at most once a level, and fires.
        assert!(turns <= 200 * 18, "{turns} turns");
    }
}

#[test]
fn the_earliest_tick_of_a_coarse_slot_is_its_start_and_else_the_due_itself() {
    let mut wheel = Wheel::new();
    wheel.insert(5_000, ());
    assert_eq!(wheel.next_turn(), Some(5_000));
    assert_eq!(wheel.next_turn_at_the_earliest(), Some(4_096));
    wheel.insert(63, ());
    assert_eq!(wheel.next_turn_at_the_earliest(), Some(63));
    assert_eq!(wheel.advance(63).count(), 1);
    wheel.insert(7, ());
    assert_eq!(wheel.next_turn_at_the_earliest(), Some(7));
}

#[test]
fn the_earliest_timer_of_a_coarse_slot_is_not_overlooked_behind_many_others() {
    for others in 0..40 {
        let mut wheel = Wheel::new();
        wheel.extend((0..others).map(|_| (5_000, ())));
        wheel.insert(4_100, ());
        assert!(wheel.next_turn() <= Some(4_100), "behind {others} others");
    }
}

#[test]
fn a_node_is_no_larger_than_it_must_be() {
    // What the wheel adds to a value: due, sequence, two links and the home, with the slab's own
    // tag for free.
    assert!(size_of::<Option<Node<[u64; 3]>>>() <= 24 + 32);
}
