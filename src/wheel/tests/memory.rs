//! How many segments a wheel keeps, and how much a single operation touches.
//!
//! Invariant: memory comes back in whatever order the timers go, and no operation touches more with
//! a hundred thousand timers than with a few.

use super::*;

const PLACES: usize = Segments::<Node<u64>>::PLACES;

const MANY: u64 = 20_000;

fn filled(many: u64) -> (Wheel<u64>, Vec<Key>) {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.nodes.made(), 0, "an empty wheel has no segment");
    let keys = (0..many).map(|due| wheel.insert(many + due, due)).collect();
    assert_eq!(wheel.nodes.made(), (many as usize).div_ceil(PLACES));
    (wheel, keys)
}

/// A timer that fires leaves the storage in the same way as one that is removed.
#[test]
fn memory_comes_back_in_whatever_order_the_timers_go() {
    for order in 0..5 {
        let (mut wheel, mut keys) = filled(MANY);
        match order {
            0 => {}
            1 => keys.reverse(),
            2 => fastrand::Rng::with_seed(2).shuffle(&mut keys),
            // All but each thousandth first.
            3 => keys.sort_by_key(|key| key.to_parts().1 % 1_000 == 500),
            // Segments without a timer lie between those that have some.
            _ => keys.sort_by_key(|key| key.to_parts().1 % 5_000 == 4_500),
        }
        for key in keys {
            assert!(wheel.remove(key).is_some());
            if wheel.len() % 500 == 0 || wheel.len() < 20 {
                wheel.check();
            }
            if wheel.len() < 4 {
                assert_eq!(wheel.iter().count(), wheel.len());
            }
        }
        assert_eq!(wheel.nodes.made(), 1, "order {order}");
    }
}

#[test]
fn an_empty_wheel_keeps_no_more_than_32_kib() {
    fn kept<const SIZE: usize>() -> usize {
        let mut wheel = Wheel::new();
        let keys: Vec<_> = (0..40).map(|due| wheel.insert(due, [0_u8; SIZE])).collect();
        assert!(keys.iter().all(|&key| wheel.remove(key).is_some()));
        wheel.nodes.made() * Segments::<Node<[u8; SIZE]>>::PLACES * size_of::<Node<[u8; SIZE]>>()
    }
    let kept = [
        kept::<8>(),
        kept::<1_500>(),
        kept::<3_000>(),
        kept::<20_000>(),
        kept::<40_000>(),
    ];
    assert!(kept.iter().all(|&bytes| bytes <= 32 << 10), "{kept:?}");
}

#[test]
fn room_is_used_again_before_more_is_made() {
    let (mut wheel, keys) = filled(MANY);
    let made = wheel.nodes.made();
    // Some segments go, and others have room.
    let gone: Vec<_> = keys.iter().filter(|key| key.index() % 50 < 20).collect();
    assert!(gone.iter().all(|&&key| wheel.remove(key).is_some()));
    let mut indices = gone.iter().map(|_| wheel.insert(MANY, 0).index());
    assert!(indices.all(|index| index < MANY as u32));
    assert_eq!(wheel.nodes.made(), made);
    wheel.check();
}

#[test]
fn arming_and_disarming_at_a_boundary_keeps_its_segment() {
    for many in [0, PLACES, 10 * PLACES] {
        let (mut wheel, _) = filled(many as u64);
        for _ in 0..20 {
            let key = wheel.insert(MANY, 0);
            assert_eq!(wheel.nodes.made(), many / PLACES + 1);
            assert!(wheel.remove(key).is_some());
            assert_eq!(wheel.nodes.made(), many / PLACES + 1, "it is kept");
        }
    }
}

/// Asserts that an operation touches no more nodes than this.
fn touching<R>(most: usize, wheel: &mut Wheel<u64>, act: impl FnOnce(&mut Wheel<u64>) -> R) -> R {
    let before = VISITS.get();
    let result = act(wheel);
    let touched = VISITS.get() - before;
    assert!(touched <= most, "{touched} nodes, not {most}");
    result
}

#[test]
fn no_operation_touches_more_with_100_000_timers() {
    /// A timer and its neighbours, in two slots.
    const FEW: usize = 12;
    let mut random = fastrand::Rng::with_seed(1);
    let mut wheel = Wheel::new();
    let mut keys = Vec::new();
    // Newest first, oldest first, and in random order. Fired timers are stale.
    for order in 0..3 {
        while wheel.len() < 100_000 {
            let due = wheel.now() + random.u64(..200_000);
            // The first segment doubles.
            let key = touching(FEW + PLACES, &mut wheel, |wheel| wheel.insert(due, 0));
            keys.push(key);
        }
        for _ in 0..100 {
            let (now, budget) = (wheel.now() + 50, 16);
            touching(budget * FEW, &mut wheel, |wheel| {
                turn(wheel, now, budget, |_| ())
            });
            // It looks at the timers of a coarse slot only if there are at most sixteen.
            let most = 17 * wheel.levels();
            touching(most, &mut wheel, |wheel| wheel.next_turn());
        }
        match order {
            0 => {}
            1 => keys.reverse(),
            _ => random.shuffle(&mut keys),
        }
        for key in keys.split_off(1_000).into_iter().rev() {
            let due = wheel.now() + random.u64(..200_000);
            touching(FEW, &mut wheel, |wheel| wheel.reset(key, due));
            touching(FEW, &mut wheel, |wheel| wheel.remove(key));
        }
    }
    wheel.check();
}
