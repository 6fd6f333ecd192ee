//! Deadlines that are passed on: they bound the timeouts that are made within.
//!
//! Invariant: a deadline is open on a thread exactly while its [`WithDeadline`] is polled there, or
//! its future converted. It is open only for the task that does so. So it never bounds other tasks
//! of tokio's on the same thread.
//!
//! While the future is polled, its deadline is [open](super::open_deadline) on its thread. Each
//! poll that stays pending reads the clock, because the timer's ticks may be coarser.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::access::access_within;
use crate::error::{Elapsed, ShutDown};
use crate::future::open_deadline::{current, next_tick, open};
use crate::future::sleep::{Sleep, panic_shut_down};
use crate::runtime::coop;

/// Returns the time left until the innermost deadline that a
/// [`with_deadline`](crate::with_deadline()) has opened, or `None` where none is open.
///
/// This is the budget for the next call, for example for its header. It is never more than the time
/// left, and zero once the deadline has passed. It reads the clock only if a deadline is open.
///
/// ```
/// # use tickwheel::{Duration, Instant, time_left, with_deadline};
/// # tokio_test::block_on(async { tokio::time::pause();
/// assert_eq!(time_left(), None);
/// let call = with_deadline(Instant::now() + Duration::from_secs(2), async { time_left() });
/// assert_eq!(call.await, Ok(Some(Duration::from_secs(2))));
/// # });
/// ```
pub fn time_left() -> Option<Duration> {
    let deadline = current_deadline()?;
    Some(deadline.saturating_duration_since(Instant::now()))
}

/// Returns the innermost deadline that a [`with_deadline`](crate::with_deadline()) has opened, or
/// `None` where none is open. It does not read the clock.
///
/// A spawned task is not bound by the deadline of the task that spawns it. To carry the deadline
/// along:
///
/// ```
/// # use tickwheel::{Duration, Instant, current_deadline, time_left, with_deadline};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let outer = with_deadline(Instant::now() + Duration::from_secs(2), async {
///     let deadline = current_deadline().expect("this one is open");
///     tokio::spawn(with_deadline(deadline, async { time_left() })).await
/// });
/// assert_eq!(outer.await??, Ok(Some(Duration::from_secs(2))));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub fn current_deadline() -> Option<Instant> {
    current()
}

pin_project! {
    /// A future with a deadline that it passes on: [`with_deadline`](crate::with_deadline()).
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, sleep, with_deadline};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let second = Instant::now() + Duration::from_secs(1);
    /// let call = with_deadline(second, sleep(Duration::from_secs(5)));
    /// assert!(call.await.is_err(), "its deadline came first");
    /// # });
    /// ```
    ///
    /// 1. The future is polled first, and wins if it is ready, even after the deadline. Otherwise
    ///    the poll returns [`Elapsed`] once the deadline has passed.
    /// 2. The deadline is *open* while the future is polled. No [`Timeout`](crate::Timeout) and no
    ///    `WithDeadline` made then ends after it, on any timer, wherever it is moved to. But a
    ///    timeout that is made after the deadline ends within two ticks, so that a loop of retries
    ///    does not spin. A [`Sleep`](crate::Sleep), an [`Interval`](crate::Interval) and a
    ///    [`Deadline`](crate::Deadline) keep their own time. If the deadline and an inner timeout
    ///    end together, either may report `Elapsed`.
    /// 3. The deadline binds one task. It is not open in spawned tasks, in tasks that a `LocalSet`
    ///    or an inner runtime polls, nor in `spawn_blocking`. Carry it over with
    ///    [`current_deadline`]. It is open in a `block_on` within, and in the tasks of another
    ///    executor within.
    ///
    /// Each poll that stays pending reads the clock, and the first one arms one timer. If that
    /// timer goes by the system's clock and the polling runtime's was paused, the deadline counts
    /// the time that was left when it began. So do timeouts within it on such a timer. The deadline
    /// also ends once the polling runtime's clock has passed it. Where no deadline is open, a
    /// timeout pays for reading a word of its thread.
    ///
    /// Dropping it drops the future and takes its timer out. A panic of the future passes through.
    /// The deadline is open in what a poll drops, also while a panic unwinds the future. It is
    /// closed where the future is dropped from outside, by an abort or because the time is up. A
    /// `futures::select!` takes it by `.fuse()`.
    ///
    /// # Panics
    ///
    /// If it is polled while pending and the runtime that drives its timer has shut down.
    /// [`try_poll`](WithDeadline::try_poll) returns an error instead.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct WithDeadline<F> {
        #[pin]
        pub(crate) future: F,
        pub(crate) sleep: Sleep,
        // By the clock of the polling runtime, even if the timer goes by another. It is no later
        // than the deadline that was open when this was made.
        pub(crate) deadline: Instant,
    }
}

impl<F> WithDeadline<F> {
    access_within!(future: F);
}

impl<F: Future> WithDeadline<F> {
    /// Polls like the future, but returns an error where the future panics on a shutdown.
    ///
    /// It is for adapters that may be polled outside the timer's runtime, and report its end. After
    /// an error, each further poll that stays pending returns the error again.
    ///
    /// # Errors
    ///
    /// [`ShutDown`] if the runtime that drives the timer has shut down before the deadline.
    ///
    /// ```
    /// use std::future::{pending, poll_fn};
    /// use std::pin::pin;
    /// use tickwheel::{Duration, Timer};
    ///
    /// let elsewhere = tokio::runtime::Runtime::new()?;
    /// let timer = elsewhere.block_on(async { Timer::current() });
    /// let deadline = timer.now() + Duration::from_secs(60);
    /// let mut call = pin!(timer.with_deadline(deadline, pending::<()>()));
    /// drop(elsewhere);
    /// let end = futures::executor::block_on(poll_fn(|cx| call.as_mut().try_poll(cx)));
    /// assert!(end.is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<F::Output, Elapsed>, ShutDown>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        let opened = open(*this.deadline);
        let polled = this.future.poll(cx);
        drop(opened);
        if let Poll::Ready(output) = polled {
            return Poll::Ready(Ok(Ok(output)));
        }
        set_end(this.sleep, *this.deadline);
        let ended = this.sleep.poll_after_inner(had_budget, cx);
        ended.map_ok(|()| Err(Elapsed::new()))
    }
}

impl<F: Future> Future for WithDeadline<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(self.try_poll(cx));
        Poll::Ready(ended.unwrap_or_else(|end| panic_shut_down(end)))
    }
}

/// The first pending poll sets the sleep, by the clock of the polling runtime. Each one looks
/// whether the deadline has passed by that clock.
fn set_end(sleep: &mut Sleep, deadline: Instant) {
    let (is_new, now) = (sleep.is_new(), Instant::now());
    if is_new && current().is_some_and(|outer| outer <= now) {
        let end = next_tick(sleep.attach().clock());
        sleep.reset_at(end);
    } else if now >= deadline && !sleep.has_ended() {
        sleep.elapse();
    } else if is_new {
        let end = sleep.attach().clock().translate(deadline);
        sleep.reset_at(end);
    }
}
