//! The stream of a [`DelayMap`](super::DelayMap), and what comes out of it.
//!
//! Invariant: the stream waits only when nothing is due in any part. A call that changes this
//! before the stream's timer fires wakes the stream. The steps of waiting, `S1` to `S5`, are at the
//! head of `inner.rs`.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::clock::tick::Tick;
use crate::runtime::coop;
use crate::wheel::Found;
use futures_core::{FusedStream, Stream};
use tokio::time::Instant;

use super::inner::{Inner, Search};
use crate::driver::Watch;
use crate::error::TryRecvError;

/// One poll checks at most this often, because something may become due meanwhile. Then other tasks
/// run.
const CHECKS: usize = 8;

/// A value whose delay has passed, as [`Expirations`] gives it, with an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired<K, V> {
    /// The key under which the value was.
    pub key: K,
    /// The value that was put in, as it was changed since.
    pub value: V,
    /// When it was due, never later than when it came out. If a call made it come before its time,
    /// as [`expire_all`](super::DelayMap::expire_all) does, this is the instant of that call.
    pub deadline: Instant,
}

/// The stream of what has expired in a [`DelayMap`](super::DelayMap).
///
/// It ends as the map's page says. When the timer's runtime has shut down, what is left in the map
/// can still be drained. When the stream is dropped and nobody is to take
/// [another one](super::DelayMap::expirations), [`close`](super::DelayMap::close) the map.
///
/// From when it is first polled to its end, the timer's runtime has one task more, which does
/// nothing. The stream learns from it that the runtime shuts down.
///
/// # Cancel safety
///
/// Dropping a future of its next item, as in a `select!`, loses nothing. A value leaves the map in
/// the moment in which the stream gives it.
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
#[must_use = "values come out only when the stream is polled"]
pub struct Expirations<K, V> {
    inner: Arc<Inner<K, V>>,
    search: Search,
    /// Ends the stream with the runtime, also while nothing is armed.
    watch: Option<Watch>,
    ended: bool,
}

impl<K, V> Expirations<K, V> {
    pub(super) fn new(inner: Arc<Inner<K, V>>) -> Self {
        Expirations {
            inner,
            search: Search {
                present: Tick::FIRST,
                first: None,
            },
            watch: None,
            ended: false,
        }
    }

    /// The next value, as soon as there is one that is due. `None` once the stream has ended. It is
    /// [cancel safe](Expirations#cancel-safety).
    pub async fn recv(&mut self) -> Option<Expired<K, V>> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next value. The task is woken when there is one, or when the stream has ended.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<K, V>>> {
        let mut next = None;
        let taken = self.poll_due(cx, 1, |expired| next = Some(expired));
        taken.map(|_| next)
    }

    /// The next value, if one is due now.
    ///
    /// The search has no bound. Where the stream was not polled for a while, it may go through the
    /// values that are due within a minute, some milliseconds for 100,000 of them.
    /// [`recv`](Expirations::recv) lets other tasks run meanwhile.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`] if none is due, [`TryRecvError::Disconnected`] once the stream has
    /// ended.
    pub fn try_recv(&mut self) -> Result<Expired<K, V>, TryRecvError> {
        while !self.ended && !self.watch().has_ended() {
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

    /// Waits for the next value, and puts it and whatever else is due into `buffer`, at most
    /// `limit` values. Returns how many these are: zero once the stream has ended, or for a limit
    /// of zero. The limit alone bounds one poll, so choose one that leaves other tasks their turn.
    /// It is [cancel safe](Expirations#cancel-safety).
    pub async fn recv_many(&mut self, buffer: &mut Vec<Expired<K, V>>, limit: usize) -> usize {
        poll_fn(|cx| self.poll_recv_many(cx, buffer, limit)).await
    }

    /// Polls as [`recv_many`](Expirations::recv_many) waits.
    pub fn poll_recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<Expired<K, V>>,
        limit: usize,
    ) -> Poll<usize> {
        if limit == 0 {
            return Poll::Ready(0);
        }
        let mut taken = ready!(self.poll_due(cx, limit, |expired| buffer.push(expired)));
        while taken > 0 && taken < limit {
            match self.take_due(limit - taken, |expired| buffer.push(expired)) {
                Found::Due(more) => taken += more,
                Found::Unfinished | Found::Nothing => break,
            }
        }
        Poll::Ready(taken)
    }

    /// Waits until something is due, and takes at most `most` values out. Ready with how many these
    /// are: zero once the stream has ended.
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
        for _ in 0..CHECKS {
            // S1.
            self.inner.waker.stops_waiting();
            if self.watch().has_ended() {
                return self.end();
            }
            // S2.
            match self.take_due(most, &mut take) {
                Found::Due(taken) => return Poll::Ready(taken),
                Found::Unfinished => break,
                Found::Nothing => {}
            }
            // S3. Nothing may come between the waker and the question whether this is the end.
            self.inner.waker.register(cx.waker());
            if self.inner.is_finished() {
                return self.end();
            }
            // S3 to S5.
            match self.inner.poll_stream_timer(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Pending if self.watch().poll_end(cx).is_pending() => return Poll::Pending,
                Poll::Pending | Poll::Ready(Err(_)) => return self.end(),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take_due(&mut self, most: usize, mut take: impl FnMut(Expired<K, V>)) -> Found<usize> {
        let inner = &*self.inner;
        inner.take_due(&mut self.search, most, |item| {
            let deadline = inner.clock().instant(item.deadline);
            let (key, value) = item.into_pair();
            take(Expired {
                key,
                value,
                deadline,
            });
        })
    }

    #[inline]
    fn watch(&mut self) -> &mut Watch {
        let inner = &self.inner;
        self.watch.get_or_insert_with(|| inner.timer.watch())
    }

    fn end(&mut self) -> Poll<usize> {
        self.ended = true;
        if self.watch.take().is_some_and(|watch| watch.has_ended()) {
            // Nothing more would come out. The values in the map stay there to be drained.
            self.inner.table.lock_all().close();
        }
        drop(self.inner.stop_stream_timer());
        Poll::Ready(0)
    }
}

impl<K, V> Stream for Expirations<K, V> {
    type Item = Expired<K, V>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(cx)
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
