//! The stream of a [`DelayMap`](super::DelayMap).
//!
//! Invariant: the stream waits only when nothing is due in any part, and is woken when a call
//! changes this. `stream_waker.rs` shows the steps `S1` to `S5`.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::runtime::coop;
use crate::wheel::Found;
use futures_core::{FusedStream, Stream};
use tokio::time::Instant;

use super::inner::{Inner, Search};
use crate::driver::Watch;
use crate::error::TryRecvError;

/// The most checks of one poll, because values may keep becoming due. Then other tasks run.
const CHECKS: usize = 8;

/// A value that was due and has come out: an item of [`Expirations`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// When it was due, never later than when it came out. For a value that a call such as
    /// [`expire_all`](super::DelayMap::expire_all) made due, the instant of that call.
    pub deadline: Instant,
}

/// The stream of a [`DelayMap`](super::DelayMap)'s values that are due.
///
/// ```
/// # use tickwheel::{DelayMap, Duration, Expired, Timer};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let (jobs, mut due) = DelayMap::new(&Timer::current());
/// jobs.insert("mail", "to alice", Duration::from_secs(1))?;
/// assert!(due.try_recv().is_err());
/// if let Some(Expired { key, value, deadline, .. }) = due.recv().await {
///     println!("{key} {value}, {:?} late", deadline.elapsed());
/// }
/// # Ok::<(), tickwheel::error::InsertError<(&str, &str)>>(()) }).unwrap();
/// ```
///
/// # Usage
///
/// Take from it by [`recv`](Expirations::recv), [`recv_many`](Expirations::recv_many) or
/// [`try_recv`](Expirations::try_recv), or as a `Stream`. It ends when the map is empty and was
/// closed or has lost its last handle, and with the timer's runtime. If it is dropped and no task
/// will take [another one](super::DelayMap::expirations), [`close`](super::DelayMap::close) the
/// map.
///
/// # Cost
///
/// A value costs the lock of one part of the map. One poll is bounded, however many values are due.
/// While the stream waits, it has one timer for all values.
///
/// # Cancel safety
///
/// Dropping a future of the next item loses nothing. A value leaves the map at the moment at which
/// the stream returns it.
#[must_use = "values come out only when the stream is polled"]
pub struct Expirations<K, V> {
    inner: Arc<Inner<K, V>>,
    search: Search,
    /// Ends the stream with the runtime while nothing is armed.
    watch: Option<Watch>,
    ended: bool,
}

impl<K, V> Expirations<K, V> {
    pub(super) fn new(inner: Arc<Inner<K, V>>) -> Self {
        Expirations {
            inner,
            search: Search::NEW,
            watch: None,
            ended: false,
        }
    }

    /// Waits for the next value. `None` once the stream has ended. It is cancel safe.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, Duration::from_secs(1))?;
    /// drop(jobs); // what is pending still comes out
    /// assert_eq!(due.recv().await.map(|job| job.value), Some(1));
    /// assert_eq!(due.recv().await, None);
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub async fn recv(&mut self) -> Option<Expired<K, V>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// The next value, if one is due now. The search has no bound: after a long time without a poll
    /// it may take some milliseconds per 100,000 values that are due within a minute.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`] if none is due, or none for as long as a tick of the timer;
    /// [`TryRecvError::Disconnected`] once the stream has ended.
    ///
    /// # Example
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer, error::TryRecvError};
    /// # tokio_test::block_on(async {
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// jobs.insert("mail", 1, Duration::from_secs(60))?;
    /// assert_eq!(due.try_recv(), Err(TryRecvError::Empty));
    /// jobs.expire("mail");
    /// assert_eq!(due.try_recv().map(|job| job.value), Ok(1));
    /// drop(jobs);
    /// assert_eq!(due.try_recv(), Err(TryRecvError::Disconnected));
    /// # Ok::<(), tickwheel::error::InsertError<(&str, i32)>>(()) }).unwrap();
    /// ```
    pub fn try_recv(&mut self) -> Result<Expired<K, V>, TryRecvError> {
        self.inner.begin_search(&mut self.search);
        while !self.ended && !self.inner.timer.has_ended() {
            let mut next = None;
            match self.take_due(1, |expired| next = Some(expired)) {
                Found::Due(_) | Found::Unfinished => {
                    if let Some(expired) = next {
                        return Ok(expired);
                    }
                }
                Found::Nothing if self.inner.is_finished() => break,
                Found::Nothing => return Err(TryRecvError::Empty),
            }
        }
        let _ended = self.end();
        Err(TryRecvError::Disconnected)
    }

    /// Waits for the next value, and pushes it and other due values onto `buffer`, at most `limit`.
    /// Returns their number: zero once the stream has ended, or for a limit of zero. One poll may
    /// take as many as the limit. If it has to search long for more, it leaves the rest to the next
    /// call. It is cancel safe.
    ///
    /// ```
    /// # use tickwheel::{DelayMap, Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let (jobs, mut due) = DelayMap::new(&Timer::current());
    /// for number in 0..5 {
    ///     jobs.insert(number, "mail", Duration::from_secs(1))?;
    /// }
    /// let mut batch = Vec::new();
    /// assert_eq!(due.recv_many(&mut batch, 3).await, 3);
    /// assert_eq!(due.recv_many(&mut batch, 3).await, 2);
    /// assert_eq!(batch.len(), 5);
    /// # Ok::<(), tickwheel::error::InsertError<(i32, &str)>>(()) }).unwrap();
    /// ```
    pub async fn recv_many(&mut self, buffer: &mut Vec<Expired<K, V>>, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        let poll = |cx: &mut Context<'_>| self.poll_due(cx, limit, |expired| buffer.push(expired));
        let mut taken = poll_fn(poll).await;
        while taken > 0 && taken < limit {
            match self.take_due(limit - taken, |expired| buffer.push(expired)) {
                Found::Due(more) => taken += more,
                Found::Unfinished | Found::Nothing => break,
            }
        }
        taken
    }

    /// Takes at most `most` due values. Ready with their number, or zero at the end.
    fn poll_due(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        take: impl FnMut(Expired<K, V>),
    ) -> Poll<usize> {
        if self.ended {
            return Poll::Ready(0);
        }
        let coop = ready!(coop::poll_proceed(cx));
        let taken = ready!(self.poll_checks(cx, most, take));
        coop.made_progress();
        Poll::Ready(taken)
    }

    fn poll_checks(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut take: impl FnMut(Expired<K, V>),
    ) -> Poll<usize> {
        self.inner.begin_search(&mut self.search);
        for _ in 0..CHECKS {
            // S1.
            self.inner.waker.stop_waiting();
            if self.inner.timer.has_ended() {
                return self.end();
            }
            // S2.
            match self.take_due(most, &mut take) {
                Found::Due(taken) => return Poll::Ready(taken),
                Found::Unfinished => break,
                Found::Nothing => {}
            }
            // S3. The check for the end comes right after the waker.
            self.inner.waker.register(cx.waker());
            if self.inner.is_finished() {
                return self.end();
            }
            // S3 to S5.
            match ready!(self.inner.poll_stream_timer(&mut self.watch, cx)) {
                // The driver may have come to a tick beyond this thread's clock.
                Some(tick) => self.search.present = self.search.present.max(tick),
                None => return self.end(),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take_due(&mut self, most: usize, mut take: impl FnMut(Expired<K, V>)) -> Found<usize> {
        let inner = &*self.inner;
        inner.take_due(&mut self.search, most, |item| {
            let deadline = inner.clock().instant(item.deadline);
            take(Expired {
                key: item.key,
                value: item.value,
                deadline,
            });
        })
    }

    fn end(&mut self) -> Poll<usize> {
        self.ended = true;
        self.watch = None;
        if self.inner.timer.has_ended() {
            // Nothing more would come out. The values in the map stay there to be drained.
            self.inner.table.take_all(true, |_| ());
        }
        drop(self.inner.stop_stream());
        Poll::Ready(0)
    }
}

impl<K, V> Stream for Expirations<K, V> {
    type Item = Expired<K, V>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut next = None;
        let taken = self.poll_due(cx, 1, |expired| next = Some(expired));
        taken.map(|_| next)
    }
}

impl<K, V> FusedStream for Expirations<K, V> {
    fn is_terminated(&self) -> bool {
        self.ended
    }
}

/// Keys and values are never pinned.
impl<K, V> Unpin for Expirations<K, V> {}

impl<K, V> Drop for Expirations<K, V> {
    fn drop(&mut self) {
        self.inner.release_stream();
    }
}

impl<K, V> fmt::Debug for Expirations<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expirations")
            .field("left", &self.inner.table.len())
            .finish_non_exhaustive()
    }
}
