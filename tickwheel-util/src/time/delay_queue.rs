//! The names of `tokio_util::time::delay_queue`: a queue of delayed values for one owner.

// Its own wheel holds the values, by milliseconds since the queue was made, and one [`Sleep`]
// wakes the waiting task. Only the sleep advances the wheel: once ready, to the tick for which it
// was set. So a late queue does not read the clock for each value.
//
// # No wake-up is lost
//
// `waker` belongs to the task that polled last. Waking takes it, and each poll stores it again.
// The states:
//
// - *Waiting*: the last poll was pending. `waits_until` is the tick of the sleep, which holds the
//   same waker, and nothing is due before it. A call that makes a value due earlier moves the
//   sleep, or wakes the waker if the wheel is past that tick. A call that makes the first value
//   due later, or takes it out, leaves the sleep: its task wakes once for nothing.
// - *Idle*: the last poll was ready, or there was none. A poller may take an end of the stream for
//   "nothing yet". So a call that makes a value the first of all wakes the waker.
//
// In both states the call that takes the last value out ends the stream, and wakes the waker.
//
// Invariant: an empty queue has no sleep. So it does not keep a runtime alive, and does not pull a
// paused clock along.

use std::fmt;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_core::Stream;
use tickwheel::wheel::{self, Wheel};
use tickwheel::{Instant, Sleep, sleep_until};
use tokio::task::coop;

/// A deadline saturates at this tick, as the deadline of a [`Sleep`] does.
const LAST_TICK: u64 = (1 << 62) / 1_000_000;

/// Delayed values of one owner, which come out of one stream when they are due.
///
/// ```
/// # use futures::StreamExt;
/// use tickwheel::Duration;
/// use tickwheel_util::time::DelayQueue; // was: use tokio_util::time::DelayQueue;
///
/// # tokio_test::block_on(async { tokio::time::pause();
/// let mut sessions = DelayQueue::new();
/// let alice = sessions.insert("alice", Duration::from_secs(30));
/// sessions.insert("bob", Duration::from_secs(60));
/// sessions.reset(&alice, Duration::from_secs(90));
/// let expired = sessions.next().await.expect("it holds two values");
/// assert_eq!(expired.into_inner(), "bob");
/// # });
/// ```
///
/// # Usage
///
/// It has the names and the semantics of tokio-util's `DelayQueue`. To share it, or for keys of
/// your own, use a [`DelayMap`](tickwheel::DelayMap).
///
/// - A value never comes out early. Its deadline is rounded up to a whole millisecond since the
///   queue was made. It comes out at most one tick of the timer later, on top of tokio's rounding
///   and scheduling.
/// - Values come out in the order of their deadlines, and within a millisecond in the order of
///   insertion or reset.
/// - The stream ends when the queue is empty. After another insert, poll it again.
/// - The task that polled last is woken when a value is due, and when the last value is removed.
/// - The queue can be made and filled anywhere. It finds its timer at its first poll with a value,
///   as [`sleep_until`] does, and keeps that runtime's clock until it is empty.
///
/// # Differences from tokio-util's `DelayQueue`
///
/// - A [`Key`] never finds a later value.
/// - Any delay is allowed, even beyond two years.
/// - A queue has 296 bytes and a key 16, on a system of 64 bits. A queue of tokio-util has 192
///   bytes, and a key 8.
/// - Memory follows the number of values, in segments of at most 512, so
///   [`reserve`](DelayQueue::reserve), [`compact`](DelayQueue::compact) and
///   [`shrink_to_fit`](DelayQueue::shrink_to_fit) do nothing.
/// - A call that makes a value due earlier than the task waits for moves the timer. It wakes the
///   task only if the value is due already. A removal or a reset to later may cause one empty
///   wake-up.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | [`insert`](DelayQueue::insert), [`reset`](DelayQueue::reset), [`remove`](DelayQueue::remove), [`deadline`](DelayQueue::deadline) | O(1); a lock of the timer if the task waits for a later tick, or the queue is then empty |
/// | [`poll_expired`](DelayQueue::poll_expired) | O(1), amortised; a lock of the timer once per tick |
/// | [`peek`](DelayQueue::peek) | O(1) if no coarse slot begins before the next value is due, else the values of such slots |
/// | [`clear`](DelayQueue::clear) | O(values) |
///
/// # Panics
///
/// Polling a queue that holds values panics where polling a [`Sleep`] does: outside a tokio
/// runtime, in one without a time driver, and when the timer's runtime has shut down.
///
/// # Cancel safety
///
/// Dropping a future of the next item loses nothing.
pub struct DelayQueue<T> {
    wheel: Wheel<T>,
    start: Instant,
    sleep: Option<Sleep>,
    /// The tick for which the sleep is set, while a task waits for it.
    waits_until: Option<u64>,
    /// Wakes the task that polled last, unless a call has woken it since.
    waker: Option<Waker>,
}

impl<T> DelayQueue<T> {
    /// Makes an empty queue.
    ///
    /// It may be made outside a runtime. Nothing is allocated.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// let mut retries = DelayQueue::new();
    /// retries.insert("mail", Duration::from_secs(30)); // no runtime runs yet
    /// assert_eq!(retries.len(), 1);
    /// ```
    pub fn new() -> DelayQueue<T> {
        DelayQueue {
            wheel: Wheel::new(),
            start: Instant::now(),
            sleep: None,
            waits_until: None,
            waker: None,
        }
    }

    /// [`new`](DelayQueue::new): memory follows the values, so nothing is allocated.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// let queue = DelayQueue::<u8>::with_capacity(10);
    /// assert!(queue.is_empty() && queue.capacity() >= 10);
    /// ```
    pub fn with_capacity(_capacity: usize) -> DelayQueue<T> {
        DelayQueue::new()
    }

    /// Inserts a value, to come out when `timeout` has passed.
    ///
    /// That is at most 146 years after the queue was made. The [`Key`] names the value until then.
    /// The call is O(1). It takes a lock of the timer if the task waits for a later value.
    ///
    /// # Panics
    ///
    /// If the queue would hold about four billion values.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tickwheel::{Duration, Instant};
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let start = Instant::now();
    /// let mut retries = DelayQueue::new();
    /// let key = retries.insert("mail", Duration::from_secs(30));
    /// let expired = retries.next().await.unwrap();
    /// assert_eq!((*expired.get_ref(), expired.key()), ("mail", key));
    /// assert!(start.elapsed() >= Duration::from_secs(30));
    /// # });
    /// ```
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        let due = self.tick_after(timeout);
        self.insert_due(value, due)
    }

    /// Inserts a value, to come out at an instant, or at once if that lies in the past.
    ///
    /// It is [`insert`](DelayQueue::insert) for an absolute time.
    ///
    /// # Panics
    ///
    /// If the queue would hold about four billion values.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tickwheel::{Duration, Instant};
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let start = Instant::now();
    /// let mut steps = DelayQueue::new();
    /// // Both count from the same instant.
    /// steps.insert_at("second", start + Duration::from_secs(2));
    /// steps.insert_at("first", start + Duration::from_secs(1));
    /// assert_eq!(steps.next().await.unwrap().into_inner(), "first");
    /// assert_eq!(steps.next().await.unwrap().into_inner(), "second");
    /// # });
    /// ```
    #[track_caller]
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        if self.wheel.is_empty() {
            self.follow(Instant::now());
        }
        self.insert_due(value, self.tick_at(when))
    }

    #[track_caller]
    fn insert_due(&mut self, value: T, due: u64) -> Key {
        let is_first = self.is_before_all(self.wheel.turn_for(due));
        let key = self.wheel.insert(due, value);
        if is_first {
            self.bring_forward(self.wheel.turn_for(due));
        }
        Key(key)
    }

    /// Polls for the next value that is due. `None` if the queue is empty.
    ///
    /// A value takes one unit of the task's budget, so a task that takes many lets others run. The
    /// call is O(1), amortised, and takes a lock of the timer once per tick. The [`Stream`] of the
    /// queue calls it.
    ///
    /// # Panics
    ///
    /// If the queue holds values, and the call is made outside a tokio runtime, in a runtime
    /// without a time driver, or after the timer's runtime has shut down.
    ///
    /// # Examples
    ///
    /// A map whose entries expire, purged by its owner:
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use std::future::poll_fn;
    /// use std::task::{Context, Poll};
    ///
    /// use tickwheel::{Duration, sleep};
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// #[derive(Default)]
    /// struct Cache {
    ///     entries: HashMap<&'static str, u32>,
    ///     expirations: DelayQueue<&'static str>,
    /// }
    ///
    /// impl Cache {
    ///     fn insert(&mut self, key: &'static str, value: u32) {
    ///         self.entries.insert(key, value);
    ///         self.expirations.insert(key, Duration::from_secs(30));
    ///     }
    ///
    ///     /// Takes out what has expired by now.
    ///     fn purge(&mut self, cx: &mut Context<'_>) {
    ///         while let Poll::Ready(Some(expired)) = self.expirations.poll_expired(cx) {
    ///             self.entries.remove(expired.get_ref());
    ///         }
    ///     }
    /// }
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut cache = Cache::default();
    /// cache.insert("answer", 42);
    /// for (seconds, entries) in [(29, 1), (1, 0)] {
    ///     sleep(Duration::from_secs(seconds)).await;
    ///     poll_fn(|cx| Poll::Ready(cache.purge(cx))).await;
    ///     assert_eq!(cache.entries.len(), entries);
    /// }
    /// # });
    /// ```
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
        let coop = ready!(coop::poll_proceed(cx));
        let mut now = self.wheel.now();
        loop {
            if let Some((key, due, data)) = self.wheel.pop_due(now) {
                self.waits_until = None;
                if self.wheel.is_empty() {
                    self.sleep = None;
                }
                coop.made_progress();
                return Poll::Ready(Some(self.expired(Key(key), due, data)));
            }
            let Some(next) = self.wheel.next_turn() else {
                return Poll::Ready(None);
            };
            self.wait_until(next);
            let sleep = self.sleep.as_mut().expect("it was just set");
            // The value takes the only unit, which may be the last.
            ready!(pin!(coop::unconstrained(sleep)).poll(cx));
            self.waits_until = None;
            now = next;
        }
    }

    /// Moves a value, earlier or later, to come out when `timeout` has passed from now.
    ///
    /// It becomes the last one of its millisecond. A value that is due, and has not come out yet,
    /// can be moved too. The call is O(1).
    ///
    /// # Panics
    ///
    /// If the queue does not hold the key's value.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tickwheel::{Duration, Instant, sleep};
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// const IDLE: Duration = Duration::from_secs(30);
    ///
    /// let start = Instant::now();
    /// let mut sessions = DelayQueue::new();
    /// let alice = sessions.insert("alice", IDLE);
    /// sleep(Duration::from_secs(20)).await;
    /// sessions.reset(&alice, IDLE); // she has sent something
    /// assert_eq!(sessions.next().await.unwrap().into_inner(), "alice");
    /// assert!(start.elapsed() >= Duration::from_secs(50));
    /// # });
    /// ```
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        let due = self.tick_after(timeout);
        self.reset_due(key, due);
    }

    /// Moves a value, to come out at an instant, or at once if that lies in the past.
    ///
    /// It is [`reset`](DelayQueue::reset) for an absolute time.
    ///
    /// # Panics
    ///
    /// If the queue does not hold the key's value.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tickwheel::{Duration, Instant};
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut jobs = DelayQueue::new();
    /// let report = jobs.insert("report", Duration::from_secs(3600));
    /// jobs.reset_at(&report, Instant::now()); // somebody asks for it
    /// assert_eq!(jobs.next().await.unwrap().into_inner(), "report");
    /// # });
    /// ```
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        self.reset_due(key, self.tick_at(when));
    }

    #[track_caller]
    fn reset_due(&mut self, key: &Key, due: u64) {
        let is_first = self.is_before_all(self.wheel.turn_for(due));
        if !self.wheel.reset(key.0, due) {
            no_value();
        }
        if is_first {
            self.bring_forward(self.wheel.turn_for(due));
        }
    }

    /// Removes a value, due or not.
    ///
    /// The call is O(1). If the queue is then empty, it wakes the task that polled last.
    ///
    /// # Panics
    ///
    /// If the queue does not hold the key's value. [`try_remove`](DelayQueue::try_remove) returns
    /// `None` there.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// let mut retries = DelayQueue::new();
    /// let mail = retries.insert("mail", Duration::from_secs(30));
    /// assert_eq!(retries.remove(&mail).into_inner(), "mail"); // it was sent another way
    /// assert!(retries.is_empty());
    /// ```
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        match self.try_remove(key) {
            Some(removed) => removed,
            None => no_value(),
        }
    }

    /// Removes a value, due or not. `None` if the queue does not hold it.
    ///
    /// It is [`remove`](DelayQueue::remove) for a value that may have come out already.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// let mut retries = DelayQueue::new();
    /// let mail = retries.insert("mail", Duration::from_secs(30));
    /// let removed = retries.try_remove(&mail).unwrap();
    /// assert_eq!(removed.get_ref(), &"mail");
    /// assert!(retries.try_remove(&mail).is_none());
    /// ```
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let due = self.wheel.due(key.0)?;
        let data = self.wheel.remove(key.0)?;
        if self.wheel.is_empty() {
            self.end();
        }
        Some(self.expired(*key, due, data))
    }

    /// Returns when a value is due.
    ///
    /// It is the value's deadline, rounded up by at most a millisecond, and never before the queue
    /// was made. The call is O(1).
    ///
    /// # Panics
    ///
    /// If the queue does not hold the key's value.
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::{Duration, Instant};
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// let mut retries = DelayQueue::new();
    /// let asked = Instant::now() + Duration::from_secs(30);
    /// let mail = retries.insert_at("mail", asked);
    /// let late = retries.deadline(&mail) - asked;
    /// assert!(late < Duration::from_millis(1));
    /// ```
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        match self.wheel.due(key.0) {
            Some(due) => self.instant(due),
            None => no_value(),
        }
    }

    /// Returns the key of the value that comes out next, due or not. `None` if the queue is empty.
    ///
    /// If that value is not near, this searches one slot of the wheel: an hour ahead, four minutes'
    /// values. Otherwise it is O(1).
    ///
    /// # Examples
    ///
    /// ```
    /// use tickwheel::Duration;
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// let mut jobs = DelayQueue::new();
    /// let later = jobs.insert("report", Duration::from_secs(60));
    /// let next = jobs.insert("mail", Duration::from_secs(30));
    /// assert_eq!(jobs.peek(), Some(next));
    /// jobs.remove(&next);
    /// assert_eq!(jobs.peek(), Some(later));
    /// ```
    pub fn peek(&self) -> Option<Key> {
        self.wheel.first().map(Key)
    }

    /// Drops all values, frees their memory, and wakes the task that waits for them.
    ///
    /// It is O(values).
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tickwheel::Duration;
    /// use tickwheel_util::time::DelayQueue;
    ///
    /// # tokio_test::block_on(async {
    /// let mut retries = DelayQueue::new();
    /// let mail = retries.insert("mail", Duration::from_secs(30));
    /// retries.clear(); // the program shuts down
    /// assert!(retries.try_remove(&mail).is_none());
    /// assert!(retries.next().await.is_none());
    /// # });
    /// ```
    pub fn clear(&mut self) {
        if !self.is_empty() {
            // First, because the drop of a value may panic.
            self.end();
            self.wheel.clear();
        }
    }

    /// The number of values that the queue holds.
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Whether the queue holds no value, due or not.
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// About four billion: how many values a queue can hold at all. It says nothing of memory,
    /// which follows the values.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tickwheel_util::time::DelayQueue;
    /// assert_eq!(DelayQueue::<u8>::with_capacity(10).capacity(), u32::MAX as usize);
    /// ```
    pub fn capacity(&self) -> usize {
        u32::MAX as usize
    }

    /// Does nothing: memory follows the values.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tickwheel_util::time::DelayQueue;
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("one", tickwheel::Duration::from_secs(1));
    /// queue.reserve(10); // not needed
    /// assert_eq!(queue.remove(&key).into_inner(), "one");
    /// ```
    pub fn reserve(&mut self, _additional: usize) {}

    /// Does nothing: memory follows the values.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tickwheel_util::time::DelayQueue;
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("one", tickwheel::Duration::from_secs(1));
    /// queue.shrink_to_fit(); // not needed
    /// assert_eq!(queue.remove(&key).into_inner(), "one");
    /// ```
    pub fn shrink_to_fit(&mut self) {}

    /// Does nothing: keys and values never move.
    ///
    /// # Examples
    ///
    /// ```
    /// # use tickwheel_util::time::DelayQueue;
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("one", tickwheel::Duration::from_secs(1));
    /// queue.compact(); // its key stays good, as without it
    /// assert_eq!(queue.remove(&key).into_inner(), "one");
    /// ```
    pub fn compact(&mut self) {}

    /// Whether the poller has to learn of a value that becomes due at this tick.
    fn is_before_all(&self, due: u64) -> bool {
        match self.waits_until {
            Some(tick) => due < tick,
            None if self.waker.is_none() => false,
            None => self.wheel.next_turn().is_none_or(|next| due < next),
        }
    }

    #[cold]
    fn bring_forward(&mut self, due: u64) {
        if self.waits_until.is_some() && due > self.wheel.now() {
            self.wait_until(due);
        } else {
            self.wake();
        }
    }

    fn end(&mut self) {
        (self.sleep, self.waits_until) = (None, None);
        self.wake();
    }

    /// Sets the sleep for this tick. A task that waits for it stays registered.
    fn wait_until(&mut self, tick: u64) {
        if self.waits_until != Some(tick) {
            let deadline = self.instant(tick);
            match &mut self.sleep {
                Some(sleep) => sleep.reset_at(deadline),
                None => self.sleep = Some(sleep_until(deadline)),
            }
            self.waits_until = Some(tick);
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// While it held values, an empty queue may have gone by a clock that was ahead, such as one
    /// that was paused. Then its ticks count from earlier on, because its wheel does not go back.
    #[inline]
    fn follow(&mut self, now: Instant) {
        let latest = now.checked_sub(Duration::from_millis(self.wheel.now()));
        self.start = latest.map_or(self.start, |latest| self.start.min(latest));
    }

    #[inline]
    fn tick_after(&mut self, timeout: Duration) -> u64 {
        let now = Instant::now();
        if self.wheel.is_empty() {
            self.follow(now);
        }
        tick_of((now.saturating_duration_since(self.start)).saturating_add(timeout))
    }

    #[inline]
    fn tick_at(&self, when: Instant) -> u64 {
        tick_of(when.saturating_duration_since(self.start))
    }

    #[inline]
    fn instant(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }

    #[inline]
    fn expired(&self, key: Key, due: u64, data: T) -> Expired<T> {
        let deadline = self.instant(due);
        Expired {
            data,
            deadline,
            key,
        }
    }
}

/// The first tick that does not begin before this time since the start.
#[inline]
fn tick_of(since: Duration) -> u64 {
    let begun = u64::from(since.subsec_nanos().div_ceil(1_000_000));
    let tick = since.as_secs().saturating_mul(1_000).saturating_add(begun);
    tick.min(LAST_TICK)
}

#[cold]
#[track_caller]
fn no_value() -> ! {
    panic!(
        "invalid key: its value has come out of this DelayQueue or was removed; \
         `try_remove` does not panic"
    )
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }
}

/// No value is ever pinned.
impl<T> Unpin for DelayQueue<T> {}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        DelayQueue::new()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue")
            .field("len", &self.len())
            .field("is_waited_for", &self.waits_until.is_some())
            .finish_non_exhaustive()
    }
}

/// Names a value of a [`DelayQueue`]. It never finds a later value of its queue. In another queue
/// it may find any value, and so may a key of tokio-util's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(wheel::Key);

/// A value that came out of a [`DelayQueue`], or was removed.
#[derive(Debug)]
pub struct Expired<T> {
    data: T,
    deadline: Instant,
    key: Key,
}

impl<T> Expired<T> {
    /// The value.
    pub fn get_ref(&self) -> &T {
        &self.data
    }

    /// The value, mutably.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.data
    }

    /// The value, without the rest.
    pub fn into_inner(self) -> T {
        self.data
    }

    /// When the value was due, as [`DelayQueue::deadline`] returned it.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The key that the value had.
    pub fn key(&self) -> Key {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::Arc;
    use std::task::Wake;

    use tokio_test::{assert_ready, task};

    use super::*;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            resume_unwind(Box::new("a waker"));
        }
    }

    #[tokio::test]
    async fn a_waker_that_panics_costs_no_value() {
        let mut queue = DelayQueue::new();
        let waker = Waker::from(Arc::new(Panics));
        assert!(
            queue
                .poll_expired(&mut Context::from_waker(&waker))
                .is_ready()
        );
        let insert = || queue.insert(1, Duration::from_secs(1));
        assert!(catch_unwind(AssertUnwindSafe(insert)).is_err());
        assert_eq!(queue.len(), 1);
    }

    /// The task may wait for something else now.
    #[tokio::test(start_paused = true)]
    async fn a_value_that_becomes_the_first_wakes_the_task_that_took_one() {
        let mut queue = task::spawn(DelayQueue::new());
        queue.insert(1, Duration::ZERO);
        queue.insert(2, Duration::from_millis(50));
        assert_ready!(queue.poll_next());
        queue.insert(3, Duration::from_secs(1));
        assert!(!queue.is_woken());
        queue.insert(4, Duration::from_millis(20));
        assert!(queue.is_woken());
    }
}
