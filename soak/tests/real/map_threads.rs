//! Threads that race in ways of their own. Random calls of many threads are the matter of the soak.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tickwheel::{DeadlineMap, DelayMap, Duration, Instant, Timer};
use tokio::runtime::Runtime;

use crate::common::{HOUR, PATIENCE, multi_thread};

fn runtime() -> (Runtime, Timer) {
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    (runtime, timer)
}

/// Threads make keys due at once all the time, so that there is always one that is not found yet.
#[test]
fn keys_made_due_again_and_again_hold_nothing_back() {
    const KEYS: u32 = 10_000;
    let (runtime, timer) = runtime();
    let (map, mut expired) = DelayMap::<u32, ()>::new(&timer);
    (0..KEYS).for_each(|key| assert!(map.insert(key, (), HOUR).is_ok()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..4 {
            let (map, is_over) = (map.clone(), &is_over);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !is_over.load(Ordering::Relaxed) {
                    map.set(&random.u32(..KEYS), Duration::ZERO);
                }
            });
        }
        let taken = runtime.block_on(async {
            let begin = Instant::now();
            let mut taken = 0;
            while taken < KEYS / 2 && begin.elapsed() < PATIENCE {
                let received = tokio::time::timeout(PATIENCE, expired.recv()).await;
                taken += u32::from(received.is_ok());
            }
            taken
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(taken, KEYS / 2);
    });
}

/// A reset takes no lock, so it may come while another thread asks.
#[test]
fn no_more_time_is_reported_than_was_set() {
    let runtime = multi_thread(1);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    let delay = Duration::from_secs(5) + Duration::from_nanos(1);
    let deadline = timer.deadline(delay);
    let handle = deadline.handle();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(handle.reset());
            }
        });
        let longest = (0..100_000).map(|_| handle.remaining());
        let longest = longest.max().unwrap();
        // Before the assertion, or the other thread would go on for ever.
        stop.store(true, Ordering::Relaxed);
        assert!(longest <= Some(delay), "{longest:?}");
    });
}

/// Others set them again while the drain waits for a lock.
#[test]
fn a_drain_reports_no_more_time_than_was_set() {
    let (_runtime, timer) = runtime();
    let (values, _stream) = DelayMap::new(&timer);
    let keys = DeadlineMap::new(&timer);
    let delay = Duration::from_secs(5) + Duration::from_nanos(1);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                values.insert(1, (), delay).unwrap();
                let keyed = keys.insert(1, delay).unwrap();
                let handle = keyed.handle();
                for _ in 0..100 {
                    handle.reset();
                }
            }
        });
        let mut longest = Duration::ZERO;
        for _ in 0..200_000 {
            let left = values.drain().into_iter().map(|(_, (), left)| left);
            longest = left.fold(longest, Duration::max);
            let left = keys.drain().into_iter().map(|(_, left)| left);
            longest = left.fold(longest, Duration::max);
        }
        // Before the assertion, or the other thread would go on for ever.
        stop.store(true, Ordering::Relaxed);
        assert!(longest <= delay, "{longest:?}");
    });
}
