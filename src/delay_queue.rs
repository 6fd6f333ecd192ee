//! The [`DelayQueue`]: delayed values of one owner, under the names of tokio-util's.
//!
//! A wheel of its own holds the values, and one [`Sleep`] wakes the task that waits for them. Its
//! ticks are milliseconds since the queue was made. The wheel is moved by the sleep alone: to the
//! tick for which the sleep was set, once that is ready. So a value comes out by the clock of the
//! runtime in which the sleep was made, and a queue that is late needs no reading of a clock for
//! each value.
//!
//! ```text
//!   insert --> in the wheel, until `now` has come to its tick --(poll_expired)--> out
//!                |  ^        |
//!                |  +-reset--+
//!                +--(remove, clear: due or not)--> out
//! ```
//!
//! # No wake-up is lost
//!
//! `waker` is of the task that polled last. A queue is in one of two states:
//!
//! - *Waiting*: the last poll was pending. `waits_until` is the tick of the sleep, which holds the
//!   same waker. No value is due before it, because a call that makes one due earlier moves the
//!   sleep, or wakes the waker if the wheel is past that tick. A call that makes the first value due
//!   later, or takes it out, leaves the sleep: the task is woken once for nothing, and its poll sets
//!   the sleep anew. If the sleep has fired, its task was woken and polls again.
//! - *Idle*: the last poll was ready, or there was none. A poller may take an end of the stream for
//!   «nothing yet», and wait for the wake-up of tokio-util's queue. So a call that makes a value
//!   the first of all wakes the waker.
//!
//! In both states the call that takes the last value out wakes the waker, because the stream has
//! ended. A waker is taken when it is woken, and each poll stores it anew.
//!
//! Invariant: a queue that is empty has no sleep. So it keeps no runtime, and pulls no paused clock
//! along.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::Instant;

use crate::functions::sleep_until;
use crate::future::sleep::Sleep;
use crate::runtime::coop;
use crate::wheel::{self, Wheel};

/// The most values that a queue can hold.
const MAX_VALUES: usize = u32::MAX as usize;

/// The last tick. A deadline that is further away is taken to be there, as that of a [`Sleep`].
const LAST_TICK: u64 = (1 << 62) / 1_000_000;

/// Delayed values of one owner, which come out of one stream when their delay has passed.
///
/// It has the names and the semantics of tokio-util's `DelayQueue`, so a change of `use` moves to
/// it. All calls take `&mut self`, and the queue makes the keys. Take a
/// [`DelayMap`](crate::DelayMap) if several tasks use it, or if you look values up by keys of your
/// own.
///
/// - A value never comes out early. Its deadline is rounded up to a whole millisecond since the
///   queue was made. The timer's own tick, at most a millisecond, comes on top.
/// - Values come out in the order of their deadlines. Those of one millisecond come in the order in
///   which they were inserted or reset.
/// - The stream ends when the queue is empty. A value that is inserted later comes out all the
///   same: poll the stream again.
/// - The task that polled last is the one that is woken: when a value is due, when the last value is
///   removed, and when a value becomes the first while nothing is waited for.
/// - The queue finds its timer at the first poll that is pending, as [`sleep_until`] does. It goes
///   by the clock of that runtime until it is empty. It can be made and filled anywhere.
///
/// What differs from tokio-util's:
///
/// - A [`Key`](crate::time::delay_queue::Key) never finds a later value.
/// - Any delay is allowed. There is no panic beyond two years.
/// - Memory follows what is pending, in segments of 512 places. Values and keys never move, so
///   [`reserve`](DelayQueue::reserve) and [`compact`](DelayQueue::compact) have nothing to do.
/// - A call moves the timer in place of waking the task, where a value comes to be due earlier than
///   the task waits for. A reset to later and a removal leave the timer, which takes no lock. It may
///   wake the task once for nothing.
///
/// | call | cost |
/// |---|---|
/// | [`insert`](DelayQueue::insert), [`reset`](DelayQueue::reset), [`remove`](DelayQueue::remove), [`deadline`](DelayQueue::deadline) | O(1); a lock of the timer if the task waits for what is later, or the queue is then empty |
/// | [`poll_expired`](DelayQueue::poll_expired) | O(1), amortised; once for each tick a lock of the timer |
/// | [`peek`](DelayQueue::peek) | O(1) if the next value is near, else the values of its slot |
/// | [`clear`](DelayQueue::clear) | O(values) |
///
/// # Panics
///
/// When it is polled while it has to wait, outside a tokio runtime, or in one without a time
/// driver. Also if the runtime that drives its timer has shut down, as a [`Sleep`] does.
///
/// # Cancel safety
///
/// Dropping a future of its next item, as in a `select!`, loses nothing. A value leaves the queue
/// in the moment in which the stream gives it.
///
/// # Examples
///
/// The entries of a cache, each with a time to live:
///
/// ```
/// use std::collections::HashMap;
/// use std::task::{Context, Poll, ready};
/// use tickwheel::Duration;
/// use tickwheel::time::{DelayQueue, delay_queue}; // was: use tokio_util::time::{..}
///
/// #[derive(Default)]
/// struct Cache {
///     entries: HashMap<String, (u64, delay_queue::Key)>,
///     expirations: DelayQueue<String>,
/// }
///
/// impl Cache {
///     fn insert(&mut self, name: &str, value: u64) {
///         let key = self.expirations.insert(name.to_owned(), Duration::from_secs(30));
///         if let Some((_, older)) = self.entries.insert(name.to_owned(), (value, key)) {
///             self.expirations.remove(&older);
///         }
///     }
///
///     fn remove(&mut self, name: &str) -> Option<u64> {
///         let (value, key) = self.entries.remove(name)?;
///         self.expirations.remove(&key);
///         Some(value)
///     }
///
///     /// Ready when the cache is empty.
///     fn poll_purge(&mut self, cx: &mut Context<'_>) -> Poll<()> {
///         while let Some(expired) = ready!(self.expirations.poll_expired(cx)) {
///             self.entries.remove(expired.get_ref());
///         }
///         Poll::Ready(())
///     }
/// }
///
/// # tokio_test::block_on(async { tokio::time::pause();
/// let mut cache = Cache::default();
/// cache.insert("alice", 1);
/// cache.insert("bob", 2);
/// assert_eq!(cache.remove("alice"), Some(1));
/// let start = tickwheel::Instant::now();
/// std::future::poll_fn(|cx| cache.poll_purge(cx)).await;
/// assert!(cache.entries.is_empty() && start.elapsed() >= Duration::from_secs(30));
/// # });
/// ```
pub struct DelayQueue<T> {
    wheel: Wheel<T>,
    /// When tick 0 began.
    start: Instant,
    /// Made when the queue first has to wait.
    sleep: Option<Sleep>,
    /// The tick for which the sleep is set, while a task waits for it.
    waits_until: Option<u64>,
    /// Wakes the task that polled last, unless it was woken since by a call.
    waker: Option<Waker>,
    /// How many values the owner has announced.
    announced: usize,
}

impl<T> DelayQueue<T> {
    /// An empty queue. It may be made outside a runtime.
    ///
    /// ```
    /// use tickwheel::DelayQueue;
    ///
    /// let queue: DelayQueue<u32> = DelayQueue::new();
    /// assert!(queue.is_empty());
    /// ```
    pub fn new() -> DelayQueue<T> {
        DelayQueue::with_capacity(0)
    }

    /// An empty queue whose [`capacity`](DelayQueue::capacity) is this number.
    ///
    /// Nothing is allocated ahead. The storage grows by a segment of 512 places when it is full,
    /// and moves no value then.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::with_capacity(10);
    /// for seconds in 0..11 {
    ///     queue.insert(seconds, Duration::from_secs(seconds));
    /// }
    /// assert_eq!((queue.len(), queue.capacity()), (11, 11));
    /// ```
    pub fn with_capacity(capacity: usize) -> DelayQueue<T> {
        DelayQueue {
            wheel: Wheel::new(),
            start: Instant::now(),
            sleep: None,
            waits_until: None,
            waker: None,
            announced: capacity,
        }
    }

    /// Puts a value in, to come out of the stream when `timeout` has passed. The
    /// [`Key`] names it until then, for [`remove`](DelayQueue::remove) and
    /// [`reset`](DelayQueue::reset).
    ///
    /// Any duration is allowed. One that is too long to be counted is taken to end 146 years after
    /// the queue was made.
    ///
    /// # Panics
    ///
    /// If the queue would hold about four billion values.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("foo", Duration::from_secs(5));
    /// let removed = queue.remove(&key);
    /// assert_eq!(*removed.get_ref(), "foo");
    /// ```
    #[track_caller]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        self.insert_due(value, self.tick_after(timeout))
    }

    /// As [`insert`](DelayQueue::insert), to come out at an instant. If that has passed, the value
    /// is due at once.
    ///
    /// # Panics
    ///
    /// As [`insert`](DelayQueue::insert).
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert_at("foo", Instant::now() + Duration::from_secs(5));
    /// let removed = queue.remove(&key);
    /// assert_eq!(*removed.get_ref(), "foo");
    /// ```
    #[track_caller]
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
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
    /// The task is woken when a value is due, or when the last one is removed. A task that takes
    /// `None` for «nothing yet» is woken by the next insert. A value takes a unit of the task's
    /// budget, so a task that takes very many lets others run.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// use std::future::poll_fn;
    ///
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("foo", Duration::from_secs(5));
    /// let expired = poll_fn(|cx| queue.poll_expired(cx)).await.expect("it holds a value");
    /// assert_eq!((expired.key(), expired.into_inner()), (key, "foo"));
    /// assert!(poll_fn(|cx| queue.poll_expired(cx)).await.is_none());
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
            ready!(Pin::new(sleep).poll(cx));
            self.waits_until = None;
            now = next;
        }
    }

    /// Moves a value to another deadline: when `timeout` has passed from now.
    ///
    /// Among values of one millisecond it comes last, as if it had been inserted now.
    ///
    /// # Panics
    ///
    /// If the queue does not hold the key's value.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("foo", Duration::from_secs(5));
    /// queue.reset(&key, Duration::from_secs(10));
    /// assert!(queue.deadline(&key) > Instant::now() + Duration::from_secs(5));
    /// ```
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        self.reset_due(key, self.tick_after(timeout));
    }

    /// As [`reset`](DelayQueue::reset), to an instant. If that has passed, the value is due at
    /// once.
    ///
    /// # Panics
    ///
    /// If the queue does not hold the key's value.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("foo", Duration::from_secs(5));
    /// let later = Instant::now() + Duration::from_secs(10);
    /// queue.reset_at(&key, later);
    /// assert!(queue.deadline(&key) >= later);
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

    /// Takes a value out, due or not.
    ///
    /// # Panics
    ///
    /// If the queue does not hold the key's value. [`try_remove`](DelayQueue::try_remove) does not
    /// panic.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("foo", Duration::from_secs(5));
    /// assert_eq!(queue.remove(&key).into_inner(), "foo");
    /// ```
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        match self.try_remove(key) {
            Some(removed) => removed,
            None => no_value(),
        }
    }

    /// Takes a value out, due or not. `None` if the queue does not hold it: it has come out, or was
    /// removed before.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("foo", Duration::from_secs(5));
    /// assert_eq!(queue.try_remove(&key).map(|removed| removed.into_inner()), Some("foo"));
    /// assert!(queue.try_remove(&key).is_none());
    /// ```
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let due = self.wheel.due(key.0)?;
        let data = self.wheel.remove(key.0)?;
        if self.wheel.is_empty() {
            self.end();
        }
        Some(self.expired(*key, due, data))
    }

    /// When a value is due. It is never before the deadline that it was given, and at most a
    /// millisecond after it. A deadline from before the queue was made counts as that instant.
    ///
    /// # Panics
    ///
    /// If the queue does not hold the key's value.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let foo = queue.insert("foo", Duration::from_secs(5));
    /// let bar = queue.insert("bar", Duration::from_secs(10));
    /// assert!(queue.deadline(&foo) < queue.deadline(&bar));
    /// ```
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        self.instant(self.due(key))
    }

    /// The key of the value that comes out next, due or not. `None` if the queue is empty.
    ///
    /// O(1) if it is near. Else it is searched for among the values that lie in one slot of the
    /// wheel with it, and these may be many: an hour ahead a slot is four minutes long.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("foo", Duration::from_secs(10));
    /// let bar = queue.insert("bar", Duration::from_secs(5));
    /// queue.insert("baz", Duration::from_secs(15));
    /// assert_eq!(queue.peek(), Some(bar));
    /// ```
    pub fn peek(&self) -> Option<Key> {
        self.wheel.first().map(Key)
    }

    /// Drops all values, and wakes the task that waits for them. The memory is given back.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("foo", Duration::from_secs(5));
    /// queue.clear();
    /// assert!(queue.is_empty());
    /// ```
    pub fn clear(&mut self) {
        if !self.is_empty() {
            // First, because the drop of a value may panic.
            self.end();
            self.wheel.clear();
        }
    }

    /// How many values the queue holds.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::with_capacity(10);
    /// assert_eq!(queue.len(), 0);
    /// queue.insert(3, Duration::from_secs(5));
    /// assert_eq!(queue.len(), 1);
    /// ```
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Whether the queue holds no value. One that is due counts until it has come out.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// assert!(queue.is_empty());
    /// queue.insert("foo", Duration::ZERO);
    /// assert!(!queue.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// The number that [`with_capacity`](DelayQueue::with_capacity) or
    /// [`reserve`](DelayQueue::reserve) was given, or how many values there are if they are more.
    ///
    /// It says nothing about memory, which follows the values that are there. An insert may
    /// allocate a segment, and never moves a value of a large queue.
    ///
    /// ```
    /// # use tickwheel::DelayQueue;
    /// let queue: DelayQueue<i32> = DelayQueue::with_capacity(10);
    /// assert_eq!(queue.capacity(), 10);
    /// ```
    pub fn capacity(&self) -> usize {
        self.announced.max(self.len())
    }

    /// Raises [`capacity`](DelayQueue::capacity) to hold this many values more. Nothing is
    /// allocated ahead, because an insert moves no value when the storage grows.
    ///
    /// # Panics
    ///
    /// If the queue cannot hold so many: about four billion.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("foo", Duration::from_secs(10));
    /// queue.reserve(10);
    /// assert!(queue.capacity() >= 11);
    /// ```
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        let wanted = self.len().saturating_add(additional);
        assert!(
            wanted <= MAX_VALUES,
            "a DelayQueue holds at most {MAX_VALUES} values, not {wanted}; reserve fewer"
        );
        self.announced = self.announced.max(wanted);
    }

    /// Lowers [`capacity`](DelayQueue::capacity) to the number of values. Memory is given back
    /// without this call, when the last value of a segment goes.
    pub fn shrink_to_fit(&mut self) {
        self.announced = 0;
    }

    /// As [`shrink_to_fit`](DelayQueue::shrink_to_fit), in O(1). There is nothing to compact: keys
    /// and values never move.
    ///
    /// ```
    /// # use tickwheel::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::with_capacity(10);
    /// queue.insert(5, Duration::from_secs(5));
    /// let ten = queue.insert(10, Duration::from_secs(10));
    /// queue.insert(15, Duration::from_secs(15));
    /// queue.remove(&ten);
    /// queue.compact();
    /// assert_eq!(queue.capacity(), 2);
    /// ```
    pub fn compact(&mut self) {
        self.shrink_to_fit();
    }
}

/// Waking.
impl<T> DelayQueue<T> {
    /// Whether a poller has to learn of a value that comes to be due at this tick.
    fn is_before_all(&self, due: u64) -> bool {
        match self.waits_until {
            Some(tick) => due < tick,
            None if self.waker.is_none() => false,
            None => self.wheel.next_turn().is_none_or(|next| due < next),
        }
    }

    /// A value has come to be the first one, due at this tick.
    #[cold]
    fn bring_forward(&mut self, due: u64) {
        if self.waits_until.is_some() && due > self.wheel.now() {
            self.wait_until(due);
        } else {
            self.wake();
        }
    }

    /// The last value has gone, or goes.
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
}

/// Ticks.
impl<T> DelayQueue<T> {
    /// The tick at which a value is due that waits this long from now.
    #[inline]
    fn tick_after(&self, timeout: Duration) -> u64 {
        tick_of(self.start.elapsed().saturating_add(timeout))
    }

    /// The tick at which a value is due at this instant.
    #[inline]
    fn tick_at(&self, when: Instant) -> u64 {
        tick_of(when.saturating_duration_since(self.start))
    }

    /// When this tick begins.
    #[inline]
    fn instant(&self, tick: u64) -> Instant {
        self.start + Duration::from_millis(tick)
    }

    #[track_caller]
    fn due(&self, key: &Key) -> u64 {
        match self.wheel.due(key.0) {
            Some(due) => due,
            None => no_value(),
        }
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
        "invalid key: its value has come out of this DelayQueue or was removed, or the key is of \
         another queue; `try_remove` does not panic"
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

/// Names a value of a [`DelayQueue`], also long after that value has gone: a key never finds a
/// later value. It is of no use to another queue.
///
/// ```
/// # use tickwheel::{DelayQueue, Duration};
/// let mut queue = DelayQueue::new();
/// let key = queue.insert("foo", Duration::from_secs(5));
/// queue.remove(&key);
/// queue.insert("bar, in the same place", Duration::from_secs(5));
/// assert!(queue.try_remove(&key).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(wheel::Key);

/// A value that has come out of a [`DelayQueue`]: its delay has passed, or it was removed.
///
/// ```
/// # use tickwheel::{DelayQueue, Duration, Instant};
/// # tokio_test::block_on(async { tokio::time::pause();
/// use futures::StreamExt;
///
/// let mut queue = DelayQueue::new();
/// let key = queue.insert(1, Duration::from_secs(5));
/// let mut expired = queue.next().await.expect("it holds a value");
/// *expired.get_mut() += 1;
/// assert_eq!((expired.key(), expired.get_ref()), (key, &2));
/// assert!(expired.deadline() <= Instant::now());
/// assert_eq!(expired.into_inner(), 2);
/// # });
/// ```
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

    /// The value, for you to change.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.data
    }

    /// The value, without the rest.
    pub fn into_inner(self) -> T {
        self.data
    }

    /// When the value was due, as [`DelayQueue::deadline`] told it.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The key that the value had.
    pub fn key(&self) -> Key {
        self.key
    }
}
