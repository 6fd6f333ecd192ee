//! `DelayMap`: each value comes out once, one way, in the order of the deadlines, and the stream
//! sleeps through none of them.

mod calls;
mod clock;
mod close;
#[path = "../common/mod.rs"]
mod common;
mod model;
mod order;
mod panics;
mod stream;
mod threads;

use std::hash::Hash;
use std::task::Poll;

use futures::stream::Stream;
use tickwheel::error::InsertError;
use tickwheel::{DelayMap, Expirations, Expired, Timer};
use tokio_test::task;

use crate::common::{MS, current_thread};

fn map<K: Hash + Eq, V>() -> (DelayMap<K, V>, task::Spawn<Expirations<K, V>>) {
    let (map, expirations) = DelayMap::new(&Timer::current());
    (map, task::spawn(expirations))
}

/// Takes all that is due now.
fn take_due<K, V>(expirations: &mut task::Spawn<Expirations<K, V>>) -> Vec<(K, V)> {
    std::iter::from_fn(|| match expirations.poll_next() {
        Poll::Ready(Some(Expired { key, value, .. })) => Some((key, value)),
        Poll::Ready(None) | Poll::Pending => None,
    })
    .collect()
}

#[test]
fn the_maps_types_are_send_sync_unpin_and_debug() {
    fn check<T: Send + Sync + Unpin + std::fmt::Debug + 'static>(_: &T) {}
    fn is_stream<T: Stream + futures::stream::FusedStream + Unpin>(_: &T) {}
    let runtime = current_thread();
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let (map, expirations) = DelayMap::<u8, u8>::new(&timer);
    check(&map);
    check(&expirations);
    is_stream(&expirations);
    let deadlines = tickwheel::DeadlineMap::new(&timer);
    check(&deadlines);
    check(&deadlines.insert(1_u8, MS).unwrap());
    check(&InsertError::Closed(1));
    assert!(format!("{map:?} {expirations:?} {deadlines:?}").contains("len: 0"));
}
