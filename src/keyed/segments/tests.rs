//! Segments against a model: splits, merges, walks.

use std::collections::BTreeMap;

use super::*;

struct Number(u32);

/// A hash that is the same for 16 numbers in a row.
fn hash(number: u32) -> u32 {
    (number / 16).wrapping_mul(0x9e37_79b9)
}

impl Hashed for Number {
    fn hash(&self) -> u32 {
        hash(self.0)
    }
}

impl<E> Segments<E> {
    fn places(&self) -> usize {
        self.segments.capacity()
            + self
                .segments
                .iter()
                .map(|one| one.0.capacity())
                .sum::<usize>()
    }
}

fn has(segments: &Segments<Number>, number: u32) -> bool {
    segments
        .find(hash(number), |entry| entry.0 == number)
        .is_some()
}

fn remove(segments: &mut Segments<Number>, number: u32) -> Option<Number> {
    segments.remove(hash(number), |entry| entry.0 == number)
}

#[test]
fn the_segment_of_a_hash_changes_only_when_it_is_split() {
    for hash in (0..1000).map(|hash: u32| hash.wrapping_mul(0x9e37_79b9)) {
        for segments in 1..300 {
            let before = segment_of(hash, segments).unwrap();
            let after = segment_of(hash, segments + 1).unwrap();
            assert!(before < segments);
            let is_split = before == split_from(segments) && after == segments;
            assert!(after == before || is_split);
        }
    }
    assert_eq!(segment_of(7, 0), None);
}

#[test]
fn what_was_put_in_is_found_and_taken_out_in_any_order() {
    let mut segments = Segments::default();
    let mut model = BTreeMap::new();
    let mut random = 1_u64;
    // Grows, shrinks, and grows again.
    for (rounds, removals_of_8) in [(40_000, 1), (60_000, 6), (20_000, 2)] {
        for _ in 0..rounds {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let number = (random >> 40) as u32 % 20_000;
            if (random >> 33) % 8 < removals_of_8 {
                assert_eq!(
                    remove(&mut segments, number).is_some(),
                    model.remove(&number).is_some()
                );
            } else if model.insert(number, ()).is_none() {
                segments.insert(Number(number));
            }
            assert_eq!(segments.len, model.len());
        }
        for number in 0..20_000 {
            assert_eq!(has(&segments, number), model.contains_key(&number));
        }
    }
    let taken = segments.take();
    assert_eq!(taken.len(), model.len());
    assert!(
        taken
            .into_entries()
            .all(|entry| model.remove(&entry.0).is_some())
    );
    assert!(model.is_empty() && segments.len == 0);
}

#[test]
fn room_is_given_back_in_whatever_order_entries_go() {
    let orders: [fn(u32) -> u32; 3] = [|n| n, |n| 99_999 - n, |n| n * 16_801 % 100_000];
    for order in orders {
        let mut segments = Segments::default();
        (0..100_000).for_each(|number| segments.insert(Number(number)));
        let mut left = 100_000;
        for number in (0..100_000).map(|number| order(number % 100_000)) {
            left -= usize::from(remove(&mut segments, number).is_some());
            assert!(
                segments.places() <= 200 + 16 * left.max(segments.len),
                "{left}"
            );
        }
        assert!(segments.places() < 200 || segments.len > 0);
    }
}

#[test]
fn no_insert_or_remove_moves_more_than_a_few_segments() {
    let mut segments = Segments::default();
    for number in 0..200_000 {
        segments.insert(Number(number));
    }
    let largest = segments.segments.iter().map(|one| one.0.capacity()).max();
    assert!(largest.unwrap() <= 8 * FULL, "{largest:?}");
}

#[test]
fn what_was_reserved_is_room_for_as_many_and_stays() {
    let mut segments = Segments::default();
    segments.reserve(10_000);
    let reserved = segments.places();
    let numbers = || (0..10_000).map(|number| number * 16);
    numbers().for_each(|number| segments.insert(Number(number)));
    assert!(segments.places() < reserved + reserved / 8);
    assert!(numbers().all(|number| remove(&mut segments, number).is_some()));
    assert!(segments.places() >= reserved);
    segments.take();
    assert_eq!(segments.places(), 0);
}

#[test]
fn a_walk_sees_once_whoever_is_there_all_the_time() {
    for (before, inserted, removed) in [(5_000, 50_000, 0), (50_000, 0, 45_000), (0, 10_000, 0)] {
        let mut segments = Segments::default();
        (0..before).for_each(|number| segments.insert(Number(number)));
        let mut seen = BTreeMap::new();
        let mut walk = segments.begin_walk();
        let (mut next_in, mut next_out) = (before, 0);
        while segments.walk_on(&mut walk, |entry| *seen.entry(entry.0).or_insert(0) += 1) {
            for _ in 0..inserted / 20 {
                segments.insert(Number(next_in));
                next_in += 1;
            }
            for _ in 0..400.min(removed - next_out) {
                assert!(remove(&mut segments, next_out).is_some());
                next_out += 1;
            }
        }
        segments.end_walk();
        for number in removed..before {
            assert_eq!(seen.get(&number), Some(&1), "{number}");
        }
    }
}
