//! How much memory a wheel's storage takes, from before the first timer until after the last, and
//! what it costs to give it back.
//!
//! Invariant: memory comes back in whatever order and way the timers go, at a constant cost for
//! each.

use super::*;

const MANY: u64 = 20_000;

/// The most places that are kept for an empty wheel, or for one of few timers at the front.
const FEW: usize = 1024;

/// The ways in which a timer can go out of the wheel.
#[derive(Clone, Copy, Debug)]
enum Way {
    Remove,
    Take,
    RemoveWith,
    Advance,
    Turn,
}

const WAYS: [Way; 5] = [
    Way::Remove,
    Way::Take,
    Way::RemoveWith,
    Way::Advance,
    Way::Turn,
];

impl Way {
    fn let_go(self, wheel: &mut Wheel<u64>, key: Key) {
        let before = wheel.len();
        let now = wheel.now();
        match self {
            Way::Remove => assert!(wheel.remove(key).is_some()),
            Way::Take => assert!(wheel.take(key).is_some()),
            Way::RemoveWith => assert!(wheel.remove_with(key, |_| ()).is_some()),
            Way::Advance => {
                assert!(wheel.reset(key, now));
                assert_eq!(wheel.advance(now).count(), 1);
            }
            Way::Turn => {
                assert!(wheel.reset(key, now));
                assert!(wheel.turn(now, 10, |_, _| Decision::Fire));
            }
        }
        assert_eq!(wheel.len(), before - 1);
    }
}

fn filled() -> (Wheel<u64>, Vec<Key>) {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.nodes.capacity(), 0);
    let keys = (0..MANY).map(|due| wheel.insert(MANY + due, due)).collect();
    (wheel, keys)
}

/// Asserts that an eighth of the places is in use, or that the last timer pins half of them.
fn assert_kept_is_in_use_or_pinned(wheel: &Wheel<u64>) {
    let (left, kept) = (wheel.len(), wheel.nodes.capacity());
    let pinned = wheel.nodes.iter().next_back().map_or(0, |(at, _)| at + 1);
    assert!(
        kept <= FEW || left >= kept / 8 || pinned >= kept / 2,
        "{kept} places are kept for {left} timers, and the last one is in place {pinned}"
    );
}

fn shuffle<T>(items: &mut [T], seed: u64) {
    fastrand::Rng::with_seed(seed).shuffle(items);
}

#[test]
fn memory_comes_back_in_whatever_order_and_way_the_timers_go() {
    for way in WAYS {
        for order in 0..4 {
            let (mut wheel, mut keys) = filled();
            match order {
                0 => {}
                1 => keys.reverse(),
                _ => shuffle(&mut keys, order),
            }
            for key in keys {
                way.let_go(&mut wheel, key);
                if wheel.len() % 500 == 0 || wheel.len() < 20 {
                    assert_kept_is_in_use_or_pinned(&wheel);
                }
            }
            assert!(wheel.nodes.capacity() <= FEW, "{way:?}, order {order}");
            wheel.check();
        }
    }
}

#[test]
fn memory_comes_back_when_its_pin_goes_last() {
    for way in WAYS {
        let (mut wheel, mut keys) = filled();
        let pin = keys.pop().unwrap();
        shuffle(&mut keys, 1);
        for key in keys {
            way.let_go(&mut wheel, key);
        }
        assert!(wheel.nodes.capacity() >= MANY as usize, "it is pinned");
        way.let_go(&mut wheel, pin);
        assert!(wheel.nodes.capacity() <= FEW, "{way:?}");
    }
}

#[test]
fn memory_comes_back_when_its_pin_goes_and_others_stay() {
    for way in WAYS {
        let (mut wheel, mut keys) = filled();
        let pin = keys.pop().unwrap();
        for key in keys.split_off(20) {
            way.let_go(&mut wheel, key);
        }
        assert!(wheel.nodes.capacity() >= MANY as usize, "it is pinned");
        way.let_go(&mut wheel, pin);
        assert!(wheel.nodes.capacity() <= FEW, "{way:?}");
        assert_eq!(wheel.len(), 20);
        wheel.check();
    }
}

#[test]
fn memory_comes_back_at_a_turn_if_its_pin_went_as_others_came() {
    let (mut wheel, mut keys) = filled();
    let pin = keys.pop().unwrap();
    // The front places come free last, so they are the first to be taken again.
    for key in keys.split_off(20).into_iter().rev() {
        assert!(wheel.remove(key).is_some());
    }
    for due in 0..20 {
        wheel.insert(MANY + due, due);
    }
    assert!(wheel.remove(pin).is_some());
    assert_eq!(wheel.advance(1).count(), 0);
    assert!(wheel.nodes.capacity() <= FEW);
    assert_eq!(wheel.len(), 40);
}

#[test]
fn memory_that_was_filled_again_behind_a_pin_comes_back_too() {
    let (mut wheel, mut keys) = filled();
    let pin = keys.pop().unwrap();
    // The front places come free last, so they are the first to be taken again.
    for key in keys.into_iter().rev() {
        assert!(wheel.remove(key).is_some());
    }
    let mut keys: Vec<_> = (0..MANY / 2)
        .map(|due| wheel.insert(MANY + due, due))
        .collect();
    assert!(wheel.remove(pin).is_some());
    for key in keys.split_off(20) {
        assert!(wheel.remove(key).is_some());
    }
    assert_eq!(wheel.advance(1).count(), 0);
    assert!(wheel.nodes.capacity() <= FEW);
    assert_eq!(wheel.len(), 20);
}

#[test]
fn shrinking_costs_a_constant_share_of_the_removals() {
    for order in 0..4 {
        let (mut wheel, mut keys) = filled();
        let most = 3 * wheel.nodes.capacity();
        match order {
            0 => {}
            1 => keys.reverse(),
            _ => shuffle(&mut keys, order),
        }
        for key in keys {
            assert!(wheel.remove(key).is_some());
        }
        let cost = wheel.shrinking.cost();
        assert!(cost < most, "order {order}: {cost} places, not {most}");
    }
}

#[test]
fn arming_and_disarming_at_a_boundary_shrinks_only_once() {
    let (mut wheel, keys) = filled();
    let mut keys = keys.into_iter().rev();
    let mut left = wheel.len();
    while left > 0 {
        let kept = wheel.nodes.capacity();
        let mut shrinks = 0;
        for _ in 0..20 {
            let key = wheel.insert(MANY, 0);
            let before = wheel.nodes.capacity();
            assert!(wheel.remove(key).is_some());
            assert_eq!(wheel.advance(0).count(), 0);
            shrinks += usize::from(wheel.nodes.capacity() != before);
        }
        assert!(shrinks <= 1, "{shrinks} shrinks with {left} of {kept}");
        for key in keys.by_ref().take(97) {
            assert!(wheel.remove(key).is_some());
        }
        left = wheel.len();
    }
}

#[test]
fn timers_that_alternate_in_the_last_places_cost_no_shrink_each() {
    for pins in 2..5 {
        let (mut wheel, mut keys) = filled();
        let mut pinning: std::collections::VecDeque<_> = keys.split_off(keys.len() - pins).into();
        for key in keys.split_off(20) {
            assert!(wheel.remove(key).is_some());
        }
        let before = wheel.shrinking.cost();
        let rounds = 2_000;
        for _ in 0..rounds {
            // Each takes the place that the one before it has freed.
            let goes = pinning.pop_front().unwrap();
            assert!(wheel.remove(goes).is_some());
            assert_eq!(wheel.advance(0).count(), 0);
            pinning.push_back(wheel.insert(MANY, 0));
            assert_eq!(wheel.advance(0).count(), 0);
        }
        let cost = wheel.shrinking.cost() - before;
        // Each of the two turns of a round passes 32 places. Each time that half of all places are
        // passed, a shrink is tried.
        let most = 3 * wheel.nodes.capacity() + 3 * 2 * 32 * rounds;
        assert!(cost < most, "{pins} pins: {cost} places in {rounds} rounds");
    }
}
