//! What the oracle does not hold of `DelayMap` and `DeadlineMap`: user code within the calls, other
//! forms of a key, hashers, and the faults that it alone had found. Threads that race are in
//! `tests/real/map_threads.rs`.

mod closures;
mod deadline_map;
mod delay_map;

use std::fmt::Debug;

use futures::stream::FusedStream;
use tickwheel::error::InsertError;
use tickwheel::{DeadlineMap, DelayMap, Timer};

use crate::common::{MS, current_thread};

#[test]
fn the_types_of_the_maps_are_send_sync_unpin_and_debug() {
    fn check<T: Send + Sync + Unpin + Debug + 'static>(_: &T) {}
    fn is_fused<T: FusedStream + Unpin>(_: &T) {}
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let (map, expirations) = DelayMap::<u8, u8>::new(&timer);
    check(&map);
    check(&expirations);
    is_fused(&expirations);
    let deadlines = DeadlineMap::new(&timer);
    check(&deadlines);
    check(&deadlines.insert(1_u8, MS).unwrap());
    check(&InsertError::Closed(1));
    assert!(format!("{map:?} {expirations:?} {deadlines:?}").contains("len: 0"));
}
