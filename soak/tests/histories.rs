//! Random histories of timers as users hold them, compared with tokio's: `ORACLE_SEED` says where
//! the seeds begin. And when a task is woken, with both crates' sleeps.

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use tickwheel::Sleep;
use tickwheel_soak::finding::quiet_panics;
use tickwheel_soak::histories;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Duration, Instant};

use crate::idioms::AnySleep;

#[path = "../../tests/common/idioms.rs"]
mod idioms;

/// How long it goes on.
const LENGTH: Duration = Duration::from_secs(8);
const MS: Duration = Duration::from_millis(1);

#[test]
fn histories_are_never_early_never_lost_and_as_late_as_tokios() {
    quiet_panics();
    let seed = std::env::var("ORACLE_SEED").map(|seed| seed.parse().expect("it is a number"));
    let first = seed.unwrap_or_else(|_| fastrand::u64(..1_000_000_000));
    println!("the first seed is {first}");
    let start = Instant::now();
    for seed in first.. {
        if let Err((kind, text)) = histories::run(seed) {
            panic!(
                "{kind}: {text}\nThe same histories again: \
                 ORACLE_SEED={seed} cargo test -p tickwheel-soak --test histories"
            );
        }
        if start.elapsed() > LENGTH {
            return;
        }
    }
}

/// A loop that sleeps for what is left of a period does not spin if nothing is left.
#[test]
fn zero_waits_for_the_next_millisecond_as_tokios_does() {
    macro_rules! paces {
        ($($time:ident)::+) => {{
            let start = Instant::now();
            for _ in 0..40 {
                $($time)::+::sleep(Duration::ZERO).await;
                $($time)::+::sleep_until(Instant::now()).await;
                let elapsed = $($time)::+::timeout(Duration::ZERO, pending::<()>()).await;
                assert!(elapsed.is_err());
                let elapsed = $($time)::+::timeout_at(Instant::now(), pending::<()>()).await;
                assert!(elapsed.is_err());
                let inner = $($time)::+::timeout(Duration::ZERO, ready(1)).await;
                assert_eq!(inner.ok(), Some(1));
            }
            // One that begins with a millisecond may be ready at once.
            assert!(start.elapsed() > 150 * MS, "{:?}", start.elapsed());
        }};
    }
    for runtime in runtimes() {
        runtime.block_on(async {
            paces!(tokio::time);
            paces!(tickwheel::time);
        });
    }
}

fn one_worker() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap()
}

fn runtimes() -> [Runtime; 2] {
    let current = Builder::new_current_thread().enable_time().build();
    [one_worker(), current.unwrap()]
}

/// The driver has not come to the instant that has passed. So the sleep is pending all along, with
/// tokio too, and the wake-up is not used up before the new deadline.
#[test]
fn a_sleep_reset_to_the_past_and_then_later_wakes_at_the_later_due() {
    for was_ready in [false, true] {
        let expected = (0, false, 1);
        assert_eq!(wakes_on::<tokio::time::Sleep>(was_ready), expected, "tokio");
        assert_eq!(wakes_on::<Sleep>(was_ready), expected, "ready: {was_ready}");
    }
}

/// Returns the wake-ups in vain, whether the last one was early, and how many there were in all.
fn wakes_on<S: AnySleep>(was_ready: bool) -> (usize, bool, usize) {
    const LATER: Duration = Duration::from_millis(20);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let wakes = || count.0.load(Ordering::SeqCst);
    let current_thread = Builder::new_current_thread().enable_time().build();
    current_thread.unwrap().block_on(async {
        let mut context = Context::from_waker(&waker);
        // Nothing drives the runtime meanwhile, here and below.
        std::thread::sleep(LATER);
        let mut sleep = Box::pin(S::until(Instant::now() + Duration::from_secs(3600)));
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        if was_ready {
            sleep.as_mut().reset(Instant::now());
            while sleep.as_mut().poll(&mut context).is_pending() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            std::thread::sleep(LATER);
        }
        let before = wakes();
        sleep.as_mut().reset(Instant::now() - LATER / 2);
        let later = Instant::now() + LATER;
        sleep.as_mut().reset(later);
        let in_vain = wakes() - before;
        while wakes() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let is_early = Instant::now() < later;
        (in_vain, is_early, wakes() - before)
    })
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
