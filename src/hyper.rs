//! hyper with this crate's timers: [`Timer`] is a [`hyper::rt::Timer`], whose sleeps are of a type
//! of their own.
//!
//! Give [`Timer::current`] of the runtime that serves the connections to [each
//! builder](crate::docs::migration#where-it-plugs-in). [`Timer::global`] serves executors that are
//! not tokio's.
//!
//! A reset moves such a sleep in place, also one of another [`Timer`]. It costs two readings of the
//! clock more than [`Sleep::reset_at`].
//!
//! `now`, `sleep_until` and `reset` go by the timer's clock. While its runtime runs, the deadline
//! of an elapsed sleep is no later than `now`. When that runtime has shut down, a sleep continues
//! for the time left on [`Timer::global`], on the system's clock. The trait has no error, and a
//! panic would end the connection.
//!
//! ```
//! # tokio_test::block_on(async { tokio::time::pause();
//! let timer: Box<dyn hyper::rt::Timer> = Box::new(tickwheel::Timer::current());
//! let mut keep_alive = timer.sleep(std::time::Duration::from_secs(20));
//! timer.reset(&mut keep_alive, timer.now() + std::time::Duration::from_secs(30));
//! keep_alive.await;
//! # });
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use ::hyper::rt;

use crate::{Sleep, Timer};

impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(LastingSleep(Timer::sleep(self, duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(LastingSleep(Timer::sleep_until(self, deadline.into())))
    }

    fn now(&self) -> Instant {
        Timer::now(self).into_std()
    }

    /// Moves a sleep of this trait in place, on its own timer. Replaces one of another crate by one
    /// of this timer.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        let left = new_deadline.saturating_duration_since(rt::Timer::now(self));
        if let Some(mut own) = sleep.as_mut().downcast_mut_pin::<LastingSleep>() {
            own.0.reset_after(left);
        } else {
            *sleep = rt::Timer::sleep_until(self, new_deadline);
        }
    }
}

/// Continues on the process's timer when its own runtime has shut down.
#[derive(Debug)]
struct LastingSleep(Sleep);

impl Future for LastingSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if ready!(self.0.try_poll(cx)).is_ok() {
            return Poll::Ready(());
        }
        self.0 = Timer::global().sleep(self.0.time_left());
        Pin::new(&mut self.0).poll(cx)
    }
}

impl rt::Sleep for LastingSleep {}
