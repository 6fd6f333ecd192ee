//! A map that is full: however many inserts it refuses, they leave nothing allocated except
//! its parts.

use tickwheel::{DeadlineMap, DelayMap, Timer};

use super::{grown_since, used};
use crate::common::HOUR;

const CAPACITY: u64 = 1_000;
const REFUSED: u64 = 100_000;

pub(crate) async fn a_refused_insert_allocates_nothing_that_stays() {
    let timer = Timer::builder().build().unwrap();
    let (values, _stream) = DelayMap::with_limit(&timer, CAPACITY as usize);
    assert!((0..CAPACITY).all(|key| values.insert(key, key, HOUR).is_ok()));
    let keys = DeadlineMap::with_limit(&timer, CAPACITY as usize);
    let armed: Vec<_> = (0..CAPACITY).map(|key| keys.insert(key, HOUR)).collect();
    assert!(armed.iter().all(Result::is_ok));
    // The parts in which nothing lies yet are made by the first refusals.
    refuse(&values, &keys, 0);
    let before = used();
    refuse(&values, &keys, 1);
    let grown = grown_since(before);
    assert!(
        grown < 1_000,
        "{REFUSED} refused inserts have left {grown} bytes"
    );
    assert_eq!(
        (values.len(), keys.len()),
        (CAPACITY as usize, CAPACITY as usize)
    );
    assert_eq!(timer.metrics().rejected_inserts(), 4 * REFUSED);
}

fn refuse(values: &DelayMap<u64, u64>, keys: &DeadlineMap<u64>, round: u64) {
    let new = CAPACITY + round * REFUSED..CAPACITY + (round + 1) * REFUSED;
    for key in new {
        assert!(values.insert(key, key, HOUR).is_err());
        assert!(keys.insert(key, HOUR).is_err());
    }
}
