//! Random histories of timers as users hold them, beside tokio's: `ORACLE_SEED` says where the
//! seeds begin. And how often a task is woken, and when not.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use tickwheel_soak::{faults, histories};
use tokio::runtime::{Builder, Runtime};

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
    let runtime = one_worker();
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

/// The case that `docs/MIGRATION.md` names: a future that polls its sleep once, resets it, and only
/// asks `is_elapsed` when it is woken.
#[test]
fn a_sleep_reset_to_later_wakes_again_only_if_it_is_polled() {
    const HOUR: Duration = Duration::from_secs(3600);
    let runtime = one_worker();
    let timer = tickwheel::Timer::builder()
        .build_on(runtime.handle())
        .unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let mut sleep = timer.sleep(Duration::from_millis(20));
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    sleep.reset_after(HOUR);
    await_wake(&count, 0);
    assert!(!sleep.is_elapsed(), "it was woken at the old instant");
    assert_eq!(timer.metrics().pending, 0, "nothing wakes it again");
    assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    assert_eq!(timer.metrics().pending, 1, "the poll has armed it");
}

/// One has been armed for less, and the other was never polled.
#[test]
fn a_reset_sleep_has_elapsed_once_its_deadline_has_passed() {
    let workers = one_worker();
    let elapsed = workers.spawn(async {
        let hour = Duration::from_secs(3600);
        let mut armed = tickwheel::sleep(Duration::from_millis(10));
        // On a busy machine it may be due already.
        while Pin::new(&mut armed)
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
        {
            armed.reset_after(Duration::from_millis(10));
        }
        let mut unarmed = tickwheel::sleep(hour);
        armed.reset_after(hour);
        unarmed.reset_after(hour);
        assert!(!armed.is_elapsed() && !unarmed.is_elapsed());
        armed.reset_after(Duration::from_millis(30));
        unarmed.reset_after(Duration::from_millis(30));
        let last = unarmed.deadline();
        tokio::time::sleep_until(last + Duration::from_millis(30)).await;
        (armed.is_elapsed(), unarmed.is_elapsed())
    });
    assert_eq!(workers.block_on(elapsed).unwrap(), (true, true));
}

#[test]
fn a_sleep_of_tokio_wakes_at_the_new_instant_without_a_poll() {
    let runtime = one_worker();
    let _context = runtime.enter();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let mut sleep = Box::pin(tokio::time::sleep(Duration::from_millis(20)));
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    let later = Instant::now() + Duration::from_millis(60);
    sleep.as_mut().reset(later.into());
    let mut wakes = 0;
    while !sleep.is_elapsed() {
        wakes = await_wake(&count, wakes);
    }
    assert!(Instant::now() >= later);
}

/// Waits until there are more wakes than these. Returns how many there are.
fn await_wake(count: &Count, seen: usize) -> usize {
    let start = Instant::now();
    loop {
        let wakes = count.0.load(Ordering::SeqCst);
        if wakes > seen {
            return wakes;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no wake comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn one_worker() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap()
}
