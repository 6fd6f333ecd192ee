//! The [`Deadline`] future. It is armed when it is made. One task awaits it, and any task pushes it
//! back.
//!
//! The state lives in a [`Word`](crate::shard::word::Word) that the deadline, its handles and its
//! timer in the wheel share. The word's file tells which thread may touch what.
//!
//! Invariant: only the deadline restarts its word, through `&mut`. So once it sees its word
//! settled, the word stays settled until it is restarted. Another poll gives the same answer.

pub(crate) mod access;
pub(crate) mod handle;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::runtime::coop;

pub use handle::ResetHandle;

use crate::error::Cancelled;
use crate::shard::Shard;
use crate::shard::word::{Outcome, Status, Word};
use crate::time::due::Start;
use crate::time::tick::Moment;

/// A deadline that one task awaits and any task pushes back:
/// [`Timer::deadline`](crate::Timer::deadline).
///
/// It resolves to `Ok(())` when its timeout has passed since its last reset. It resolves to
/// [`Cancelled`] when it is cancelled or its runtime shuts down. Everything else goes through a
/// [`ResetHandle`].
///
/// - It is armed when it is made, and runs whether or not it is polled.
/// - It is never early. It is late by at most one tick of its timer, or two after a reset under a
///   load of very many operations. Tokio's rounding to a millisecond and its scheduling come on
///   top.
/// - A stall does not count: a deadline that passes while the driver cannot run, because the
///   process was stopped or blocked for more than 50 ms and 16 ticks, stays pending for a grace.
///   The grace is as long as the stall, at least 100 ms and at most the timeout. There is one
///   between two resets. See [`Builder::count_stalls`](crate::Builder::count_stalls).
/// - It has exactly one outcome. Every reset that returned `true` was in time, and the deadline had
///   not expired.
/// - To drop it takes its timer out in O(1). Its handles then answer `false`.
/// - If it is polled again after it was ready, it gives the same answer, until
///   [`restart`](Deadline::restart).
/// - The task that polled last is the one that is woken.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use tickwheel::{Duration, Instant, Timer, sleep};
///
/// let start = Instant::now();
/// let idle = Timer::current().deadline(Duration::from_secs(30));
/// let handle = idle.handle();
/// tokio::spawn(async move {
///     sleep(Duration::from_secs(20)).await;
///     assert!(handle.reset(), "a heartbeat, in time");
/// });
/// assert_eq!(idle.await, Ok(()));
/// assert_eq!(start.elapsed(), Duration::from_secs(50));
/// # }
/// ```
#[must_use = "a deadline is cancelled when it is dropped; `.await` it"]
pub struct Deadline {
    shard: Arc<Shard>,
    word: Arc<Word>,
}

impl Deadline {
    pub(crate) fn new(shard: Arc<Shard>, timeout: Duration) -> Deadline {
        // A deadline is made once, so it counts exactly.
        let now = shard.clock().now();
        let word = arm(&shard, now, timeout, |word| word);
        Deadline { shard, word }
    }

    /// A deadline that no stall spares, for a caller that judges stalls itself.
    #[cfg(feature = "quinn")]
    pub(crate) fn counting_stalls(shard: Arc<Shard>, timeout: Duration) -> Deadline {
        let now = shard.clock().now();
        let word = arm(&shard, now, timeout, Word::counting_stalls);
        Deadline { shard, word }
    }

    /// A handle that resets, cancels or expires this deadline from anywhere.
    pub fn handle(&self) -> ResetHandle {
        ResetHandle::new(self.shard.clone(), self.word.clone())
    }

    /// Makes the deadline pending again, after any outcome. It then expires when its timeout has
    /// passed from now on.
    ///
    /// On a pending deadline this is a reset. Handles from before are good after it. If the runtime
    /// that drives the timer has shut down, the deadline stays [`Cancelled`].
    pub fn restart(&mut self) {
        self.shard.restart_word(&self.word);
    }
}

impl Future for Deadline {
    type Output = Result<(), Cancelled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        poll(&self.shard, &self.word, cx)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        cancel_unawaited(&self.shard, &self.word);
    }
}

/// Arms a deadline that is made at `now`.
pub(crate) fn arm(
    shard: &Shard,
    now: Moment,
    timeout: Duration,
    finish: impl FnOnce(Word) -> Word,
) -> Arc<Word> {
    let word = Word::new(Start::At(now), timeout, shard.clock().tick());
    let word = Arc::new(finish(word));
    shard.arm_word(&word);
    word
}

pub(crate) fn poll(
    shard: &Arc<Shard>,
    word: &Word,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Cancelled>> {
    let coop = ready!(coop::poll_proceed(cx));
    let status = match word.status() {
        // A deadline that has passed is ready, whether or not the driver has come to it.
        Status::Pending => shard.poll_word(word, cx.waker()),
        settled => settled,
    };
    match status {
        Status::Pending => Poll::Pending,
        Status::Settled(outcome) => {
            coop.made_progress();
            Poll::Ready(match outcome {
                Outcome::Expired => Ok(()),
                Outcome::Cancelled => Err(Cancelled::BY_HANDLE),
                Outcome::Replaced => Err(Cancelled::REPLACED),
                Outcome::Drained => Err(Cancelled::DRAINED),
                Outcome::ShutDown => Err(Cancelled::SHUTDOWN),
            })
        }
    }
}

/// Cancels a deadline that nobody awaits any more.
pub(crate) fn cancel_unawaited(shard: &Arc<Shard>, word: &Word) {
    if word.status() == Status::Pending {
        shard.drop_word(word);
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline")
            .field("timeout", &self.word.timeout_set())
            .field("status", &self.word.status())
            .finish_non_exhaustive()
    }
}
