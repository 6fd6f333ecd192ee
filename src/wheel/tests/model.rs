//! Random operations on the wheel and on a `BTreeMap`, with the invariants checked after each.
//!
//! Invariant: after any operations, the wheel fires, finds and counts the same as the map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64),
    InsertAt(u64),
    /// Due with another timer.
    InsertTie(usize),
    Remove(usize),
    Reset(usize, u64),
    /// By so much, for at most so many timers.
    Advance(u64, usize),
    AdvanceTo(u64),
    FindDue(u64, usize, Option<u64>),
    Look(usize),
    Change(usize),
    Iterate,
    Extend(Vec<u64>),
    Crowd(u64, u64),
    Clear,
}

/// The distances that matter: within a slot, about whole rotations of every level, and the far end.
fn distance() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..200_u64,
        2 => 0..10_000_u64,
        // Where a level begins to reach, a little later.
        4 => (0..3_u32, 0..400_u64).prop_map(|(level, off)| (127 << (6 * level)) + off),
        2 => (0..64_u32, 0..3_u64).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add(off).wrapping_sub(1)),
        1 => any::<u64>(),
        1 => Just(u64::MAX),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => distance().prop_map(Operation::Insert),
        1 => any::<u64>().prop_map(Operation::InsertAt),
        4 => any::<usize>().prop_map(Operation::InsertTie),
        1 => (0..300_u64).prop_map(Operation::InsertAt),
        4 => any::<usize>().prop_map(Operation::Remove),
        4 => (any::<usize>(), distance()).prop_map(|(which, delay)| Operation::Reset(which, delay)),
        4 => (0..300_u64).prop_map(|by| Operation::Advance(by, usize::MAX)),
        2 => distance().prop_map(|by| Operation::Advance(by, usize::MAX)),
        1 => (0..1_000_u64).prop_map(Operation::AdvanceTo),
        2 => (0..300_u64, 0..4_usize).prop_map(|(by, most)| Operation::Advance(by, most)),
        1 => distance().prop_map(|by| Operation::Advance(by, 0)),
        4 => (0..300_u64, 0..100_usize, proptest::option::of(distance())).prop_map(|(by, budget, again)| Operation::FindDue(by, budget, again)),
        4 => any::<usize>().prop_map(Operation::Look),
        2 => any::<usize>().prop_map(Operation::Change),
        2 => Just(Operation::Iterate),
        1 => proptest::collection::vec(distance(), 0..5).prop_map(Operation::Extend),
        1 => (distance(), 10..60_u64).prop_map(|(delay, count)| Operation::Crowd(delay, count)),
        1 => Just(Operation::Clear),
    ]
}

/// The plainest equivalent of the wheel: timers sorted by due, then by when they were linked.
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

/// A wheel at a tick, to which an empty one was advanced, or at which one was cleared.
fn at_tick(start: u64, was_cleared: bool) -> Wheel<usize> {
    let mut wheel = Wheel::new();
    if was_cleared {
        wheel.extend((0..40).map(|due| (due, 0)));
        assert_eq!(wheel.advance(start).take(0).count(), 0);
        wheel.clear();
    }
    assert_eq!(wheel.advance(start).count(), 0);
    wheel
}

fn run(mut wheel: Wheel<usize>, operations: Vec<Operation>) {
    let mut model = Model::default();
    // By the number that is a timer's value. A timer whose value was changed is there twice.
    let mut keys: Vec<Key> = Vec::new();
    model.now = wheel.now();
    let last = Operation::Advance(u64::MAX, usize::MAX);
    for operation in operations.into_iter().chain([last]) {
        let from_now = |delay| model.now.saturating_add(delay);
        match operation {
            Operation::Insert(_) | Operation::InsertAt(_) | Operation::InsertTie(_) => {
                let due = match operation {
                    Operation::Insert(delay) => from_now(delay),
                    Operation::InsertAt(due) => due,
                    Operation::InsertTie(which) => {
                        let dues = model.timers.keys().map(|&(due, _)| due);
                        let (count, mut dues) = (model.timers.len().max(1), dues);
                        dues.nth(which % count).unwrap_or(model.now)
                    }
                    _ => unreachable!(),
                };
                let key = wheel.insert(due, keys.len());
                assert!(!keys.contains(&key), "a key was given out twice");
                keys.push(key);
                model.link(due, key);
            }
            Operation::Remove(which) if !keys.is_empty() => {
                let key = keys[which % keys.len()];
                let position = model.position(key);
                let removed = wheel.remove(key).map(|number| keys[number]);
                assert_eq!(removed, position.map(|_| key));
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
                let key = keys[which % keys.len()];
                let position = model.position(key);
                assert_eq!(wheel.get(key).is_some(), position.is_some());
                assert_eq!(wheel.due(key), position.map(|(due, _)| due));
                let found = wheel.get(key).map(|&number| keys[number]);
                assert_eq!(found, position.map(|_| key));
            }
            Operation::Change(which) if !keys.is_empty() => {
                let key = keys[which % keys.len()];
                let value = wheel.get_mut(key);
                let found = value.as_deref().map(|&number| keys[number]);
                assert_eq!(found, model.position(key).map(|_| key));
                if let Some(value) = value {
                    *value = keys.len();
                    keys.push(key);
                }
            }
            Operation::Iterate => {
                let sorted = |mut timers: Vec<_>| {
                    timers.sort_unstable();
                    timers
                };
                let all = |(key, due, &number): (Key, _, &usize)| {
                    assert_eq!(keys[number], key);
                    (due, key.to_parts())
                };
                let seen = sorted(wheel.iter().map(all).collect());
                let timers = model.timers.iter();
                let expected = timers.map(|(&(due, _), key)| (due, key.to_parts()));
                let expected = sorted(expected.collect());
                assert_eq!(seen, expected);
            }
            Operation::Extend(_) | Operation::Crowd(..) => {
                let first = keys.len();
                let dues: Vec<_> = match operation {
                    Operation::Extend(delays) => delays.into_iter().map(from_now).collect(),
                    Operation::Crowd(delay, count) => {
                        let dues = (0..count).map(|n| from_now(delay).saturating_add(n * 7 % 40));
                        dues.collect()
                    }
                    _ => unreachable!(),
                };
                wheel.extend(dues.iter().copied().zip(first..));
                for (number, due) in (first..).zip(dues) {
                    let (key, ..) = wheel.iter().find(|(.., other)| **other == number).unwrap();
                    keys.push(key);
                    model.link(due, key);
                }
            }
            Operation::FindDue(by, mut budget, again) => {
                model.now = from_now(by);
                match wheel.find_due(model.now, &mut budget) {
                    Found::Due(index) => {
                        let (_, key) = model.pop_due().expect("the wheel found what is not due");
                        assert_eq!(index, key.index());
                        if let Some(delay) = again {
                            let due = model.now.saturating_add(delay);
                            wheel.relink_at(index, due);
                            model.link(due, key);
                        } else {
                            assert_eq!(keys[wheel.remove_at(index)], key);
                        }
                    }
                    Found::Nothing => assert_eq!(model.pop_due(), None),
                    Found::Unfinished => assert_eq!(budget, 0),
                }
            }
            Operation::Clear => {
                wheel.clear();
                model.timers.clear();
                assert_eq!(wheel.nodes.made(), 0);
            }
            Operation::Remove(_)
            | Operation::Reset(..)
            | Operation::Look(_)
            | Operation::Change(_) => {}
            Operation::Advance(..) | Operation::AdvanceTo(_) => {
                let (target, most) = match operation {
                    Operation::Advance(by, most) => (from_now(by), most),
                    Operation::AdvanceTo(target) => (target, usize::MAX),
                    _ => unreachable!(),
                };
                model.now = model.now.max(target);
                let fired = wheel.advance(target).take(most);
                let fired: Vec<_> = fired.map(|(due, number)| (due, keys[number])).collect();
                let expected = std::iter::from_fn(|| model.pop_due()).take(most);
                assert_eq!(fired, expected.collect::<Vec<_>>());
                let has_more = fired.len() == most;
                assert!(has_more || wheel.next_turn().is_none_or(|turn| turn > model.now));
            }
        }
        wheel.check();
        assert_eq!(wheel.now(), model.now);
        assert_eq!(wheel.len(), model.timers.len());
        assert_eq!(wheel.is_empty(), model.timers.is_empty());
        let mut counts = SlotCounts::with_room();
        wheel.count_slots(&mut counts);
        let counted = counts.levels.iter().flatten().sum::<usize>() + counts.overdue;
        assert_eq!(
            (counted, counts.levels.len()),
            (wheel.len(), wheel.levels())
        );
        assert_eq!(wheel.first(), model.timers.values().next().copied());
        let earliest = model.timers.keys().next().map(|&(due, _)| due);
        match (wheel.next_turn(), earliest) {
            (None, None) => {}
            (Some(turn), Some(due)) => {
                assert!(turn <= due, "next turn {turn}, but a timer is due at {due}");
            }
            (turn, due) => panic!("next turn {turn:?}, but the earliest due is {due:?}"),
        }
    }
    assert!(wheel.is_empty() && wheel.levels() == 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_wheel_does_what_a_sorted_map_does(
        start in prop_oneof![Just(0_u64), distance(), Just((1 << 30) - 20), Just((1 << 36) - 20)],
        was_cleared in any::<bool>(),
        operations in proptest::collection::vec(operation(), 1..120),
    ) {
        run(at_tick(start, was_cleared), operations);
    }
}
