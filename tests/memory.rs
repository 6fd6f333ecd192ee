//! Memory is given back: counted by the allocator.
//!
//! One test in one process, so that no other test allocates meanwhile.

mod common;
#[path = "common/memory.rs"]
mod memory;

use std::future::pending;

use tickwheel::{DeadlineMap, DelayMap, Duration, Timer};
use tokio_test::{assert_pending, task};

use crate::common::{HOUR, current_thread};
use crate::memory::{grown_since, used};

const MILLION: usize = 1_000_000;

#[test]
fn live_memory_after_a_million_timeouts_is_as_at_the_start() {
    let runtime = current_thread();
    runtime.block_on(async {
        let timer = Timer::new();
        let one_after_another = || {
            for _ in 0..MILLION {
                let mut bounded = task::spawn(timer.timeout(HOUR, pending::<()>()));
                assert_pending!(bounded.poll());
            }
        };
        let all_at_once = || {
            let mut sleeps: Vec<_> = (0..MILLION).map(|_| timer.sleep(HOUR)).collect();
            let mut waker = task::spawn(());
            waker.enter(|cx, _| {
                for nap in &mut sleeps {
                    assert!(std::pin::Pin::new(nap).poll(cx).is_pending());
                }
            });
            let each = used() / MILLION;
            assert!(
                each <= 140,
                "{each} bytes for each armed sleep, future and entry together"
            );
        };
        let deadlines_reset_and_dropped = || {
            let deadlines: Vec<_> = (0..MILLION).map(|_| timer.deadline(HOUR)).collect();
            let handles: Vec<_> = deadlines.iter().map(|deadline| deadline.handle()).collect();
            assert!(handles.iter().all(|handle| handle.reset()));
            let each = used() / MILLION;
            assert!(
                each <= 256,
                "{each} bytes for each deadline with one handle"
            );
        };
        let keyed = DeadlineMap::new(&timer);
        let deadlines_by_key = || {
            let deadlines: Vec<_> = (0..MILLION / 4)
                .map(|key| keyed.insert(key, HOUR).unwrap())
                .collect();
            assert_eq!(keyed.len(), deadlines.len());
        };
        let (delayed, expirations) = DelayMap::new(&timer);
        let mut expirations = task::spawn(expirations);
        let values_removed = || {
            for key in 0..MILLION / 4 {
                delayed.insert(key, key, HOUR).unwrap();
            }
            for key in 0..MILLION / 4 {
                assert_eq!(delayed.remove(&key), Some(key));
            }
        };
        // Let whatever is allocated once be allocated.
        assert_pending!(task::spawn(timer.sleep(HOUR)).poll());
        assert_pending!(expirations.poll_next());
        deadlines_by_key();
        values_removed();
        tokio::task::yield_now().await;
        let start = used();
        let grown = || grown_since(start);
        let cases: [(&str, &dyn Fn()); 5] = [
            ("one after another", &one_after_another),
            ("all at once", &all_at_once),
            ("deadlines", &deadlines_reset_and_dropped),
            ("deadlines by key", &deadlines_by_key),
            ("values removed", &values_removed),
        ];
        for (name, case) in cases {
            case();
            assert!(
                grown() < 200_000,
                "{name}: {} bytes are still in use",
                grown()
            );
        }
        for key in 0..MILLION / 4 {
            delayed.insert(key, key, Duration::ZERO).unwrap();
        }
        while !delayed.is_empty() {
            let _ = expirations.poll_next();
            tokio::task::yield_now().await;
        }
        assert_pending!(expirations.poll_next());
        assert!(
            grown() < 200_000,
            "values expired: {} bytes are still in use",
            grown()
        );
        drop(expirations);
        assert_eq!(timer.metrics().pending, 0);
    });
}
