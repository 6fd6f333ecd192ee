//! Random histories of timers as users hold them, beside tokio's: `ORACLE_SEED` says where the
//! seeds begin. And how often a task is woken.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use tickwheel_soak::{faults, histories};
use tokio::runtime::Builder;

/// How long it goes on.
const LENGTH: Duration = Duration::from_secs(8);

#[test]
fn histories_are_never_early_never_lost_and_as_late_as_tokios() {
    faults::quiet_panics();
    let told = std::env::var("ORACLE_SEED").map(|seed| seed.parse().expect("it is a number"));
    let first = told.unwrap_or_else(|_| fastrand::u64(..1_000_000_000));
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

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// It may be woken at the instant for which it was armed, and then at the one to which it was
/// reset.
#[test]
fn a_reset_to_later_wakes_at_most_once_for_each_arming() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let timer = tickwheel::Timer::builder()
        .build_on(runtime.handle())
        .unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let mut sleep = timer.sleep(Duration::from_millis(30));
    let (mut armings, mut seen) = (1, 0);
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    let mut due = Instant::now();
    for later in 0..20 {
        due = Instant::now() + Duration::from_millis(60 + later);
        sleep.reset_at(due.into());
    }
    loop {
        std::thread::sleep(Duration::from_micros(200));
        let wakes = count.0.load(Ordering::SeqCst);
        assert!(wakes <= armings, "{wakes} wakes of {armings} armings");
        if wakes > seen {
            seen = wakes;
            if Pin::new(&mut sleep).poll(&mut context).is_ready() {
                break;
            }
            armings += 1;
        }
    }
    assert!(Instant::now() >= due);
    assert!(armings <= 2, "it was woken {armings} times");
}
