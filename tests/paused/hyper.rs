//! hyper's timer trait, by itself. The package `integrations` has the tests with real connections.
//!
//! Invariant: whatever hyper does with a sleep, nothing stays armed after it has let it go.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep as HyperSleep, Timer as HyperTimer};
use tickwheel::{Instant, Timer};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{HOUR, MS, SECOND};

type Boxed = Pin<Box<dyn HyperSleep>>;

/// Where the box points to, which tells whether it is still the same one.
fn address(sleep: &Boxed) -> *const () {
    (&raw const **sleep).cast()
}

/// A sleep of some other crate.
struct Foreign;

impl Future for Foreign {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl HyperSleep for Foreign {}

#[tokio::test(start_paused = true)]
async fn sleeps_end_at_their_deadline_by_tokios_clock() {
    let timer = Timer::builder().build().unwrap();
    let hyper: &dyn HyperTimer = &timer;
    let start = hyper.now();
    assert_eq!(Instant::from_std(start), Instant::now());

    hyper.sleep(SECOND).await;
    assert_eq!(hyper.now(), start + SECOND);
    hyper.sleep_until(start + 5 * SECOND).await;
    assert_eq!(hyper.now(), start + 5 * SECOND);
    hyper.sleep_until(start).await;
    hyper.sleep(Duration::ZERO).await;
    assert_eq!(hyper.now(), start + 5 * SECOND, "at once");
    assert_eq!(timer.metrics().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reset_moves_the_crates_sleep_and_replaces_a_foreign_one() {
    let timer = Timer::builder().build().unwrap();
    let later = HyperTimer::now(&timer) + HOUR;
    let sleeps: [(Boxed, bool); 3] = [
        (HyperTimer::sleep(&timer, Duration::MAX), true),
        (HyperTimer::sleep_until(&timer, later), true),
        (Box::pin(Foreign), false),
    ];
    for (mut sleep, is_ours) in sleeps {
        let (start, before) = (HyperTimer::now(&timer), address(&sleep));
        let armed = timer.metrics().armed();
        assert_pending!(task::spawn(&mut sleep).poll());
        for seconds in [10, 20] {
            timer.reset(&mut sleep, start + seconds * SECOND);
            // Also one that has elapsed.
            assert_eq!(address(&sleep) == before, is_ours);
            assert!(sleep.as_mut().downcast_mut_pin::<Foreign>().is_none());
            sleep.as_mut().await;
            assert_eq!(HyperTimer::now(&timer), start + seconds * SECOND);
        }
        timer.reset(&mut sleep, start);
        assert_ready!(task::spawn(&mut sleep).poll());
        // It is not armed anew while it is pending.
        assert_eq!(timer.metrics().armed(), armed + 2);
        timer.reset(&mut sleep, start + HOUR);
        assert_pending!(task::spawn(&mut sleep).poll());
        assert_eq!(timer.metrics().pending(), 1);
        drop(sleep);
        assert_eq!(timer.metrics().pending(), 0);
    }
}

/// As that of a connection whose first runtime has shut down.
#[tokio::test(start_paused = true)]
async fn a_reset_of_a_sleep_on_another_clock_counts_the_time_left() {
    tokio::time::advance(HOUR).await;
    let timer = Timer::current();
    let mut sleep = HyperTimer::sleep(Timer::global(), 2 * HOUR);
    timer.reset(&mut sleep, HyperTimer::now(&timer));
    std::thread::sleep(5 * MS);
    assert_ready!(task::spawn(sleep).poll());
}
