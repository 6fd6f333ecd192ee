//! The earliest ticks of a map's parts: interleavings of two calls that each lower one with a
//! stream that remembers which part comes first.

use loom::sync::Arc;
use loom::thread;

use super::with_few_preemptions;
use crate::clock::tick::Tick;
use crate::keyed::earliest::Earliest;
use crate::sync::{AtomicBool, Ordering};

/// Seen to fail where `write` stores in place of the swap, or leaves the swap out.
#[test]
fn a_poll_after_a_tick_was_lowered_compares_the_parts_again() {
    with_few_preemptions(|| {
        let earliest = Arc::new(Earliest::new(3));
        let returned = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        earliest.lower(2, Tick::new(9));
        let by = Tick::new(9);
        let mut first = earliest.first(by, None);
        let calls = [0, 1].map(|part| {
            let (earliest, returned) = (earliest.clone(), returned.clone());
            thread::spawn(move || {
                earliest.lower(part, Tick::new(5 + part as u64));
                returned[part].store(true, Ordering::Release);
            })
        });
        for _ in 0..2 {
            let has_returned = |part: usize| returned[part].load(Ordering::Acquire);
            let latest = [0, 1].into_iter().find(|&part| has_returned(part));
            first = earliest.first(by, first);
            let part = first.unwrap().part;
            assert!(latest.is_none_or(|latest| part <= latest), "{part}");
        }
        for call in calls {
            call.join().unwrap();
        }
    });
}
