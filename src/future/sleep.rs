//! The [`Sleep`] future.
//!
//! ```text
//!   unarmed --(poll: due already)---------------------------> elapsed
//!     |  ^ (reset)                                               |
//!     |  +-------------------------------------------------------+
//!     | (poll: pending)                                          ^
//!     v                                                          |
//!    armed --(poll: the timer has fired)-------------------------+
//!     |  ^                                                       |
//!     |  | (reset to earlier: its timer is moved)                |
//!     v (reset to later: its timer gets a word)                  |
//!   deferred --(poll: its word has expired)----------------------+
//! ```
//!
//! A reset of a timer that has fired, or fires at once, leads back to unarmed, or to elapsed if the
//! driver has turned to the new deadline. An elapsed sleep keeps the waker of the poll that was
//! ready. Then the reset itself arms it for that task, as tokio's does, or wakes the task for a
//! deadline to which the driver has turned.
//!
//! A sleep that a free function makes on a thread that drives a runtime is *detached* at first:
//! unarmed, and without a timer. It finds one when it has to arm, is reset there, or needs the
//! timer's clock. A look-up writes a count that all threads share, and a sleep that does none of
//! these avoids it.
//!
//! **A sleep that is reset to later becomes a deadline.** The first such reset of an armed sleep
//! takes the lock and gives its timer a [word](crate::shard::word), which holds the due. From then
//! on a reset to later is one compare-exchange. The timer stays where it is linked, and the turn
//! that comes to it reads the word, and links it again. So the task is woken at the new deadline
//! and at no other, whether or not it polls the sleep after the reset.
//!
//! Invariant: a sleep holds a key only while it is armed or deferred, and forgets no key of a timer
//! that stays in the wheel beyond the present turn. The timer fires at a tick that begins at the
//! deadline or later. So if it has fired, the deadline has passed.
//!
//! Like tokio's, an armed sleep is ready once the driver has fired it, and its poll does not read
//! the clock. So if a message came before the deadline, a task that is polled after the deadline,
//! but before the driver comes, finds only the message. A poll with the registered waker takes no
//! lock either; see `shard::turned_to` for an armed sleep. For a deferred one the word replaces the
//! tick: a turn and the closing end it under the lock, and wake its waker afterwards. So if a
//! poll finds the word pending, that wake-up is yet to come.

use std::fmt;
use std::future::Future;
use std::mem::{self, ManuallyDrop};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::tick::{Moment, Tick};
use crate::error::ShutDown;
use crate::runtime::{coop, spend_budget, worker_index};
use crate::shard::Shard;
use crate::shard::turned_to::WakerId;
use crate::shard::word::{EXPIRED, Word};
use crate::wheel::{Key, PackedKey};

/// A future that is ready once its deadline has passed: [`sleep`](crate::sleep),
/// [`sleep_until`](crate::sleep_until).
///
/// It behaves like [`tokio::time::Sleep`], and is also `Unpin`. So a task can await `&mut sleep`
/// without pinning it, for example in a `select!`.
///
/// ```
/// # use tickwheel::{Duration, sleep};
/// # tokio_test::block_on(async { tokio::time::pause();
/// let mut nap = sleep(Duration::from_secs(10));
/// tokio::select! {
///     () = &mut nap => unreachable!("ten seconds have not passed"),
///     () = sleep(Duration::from_secs(1)) => nap.reset_after(Duration::from_millis(5)),
/// }
/// nap.await;
/// # });
/// ```
///
/// # Usage
///
/// - It is never early, and at most one tick of its timer late. Tokio's rounding to a millisecond
///   and its scheduling come on top.
/// - A sleep whose deadline passed a millisecond ago or more is ready at the first poll, unless a
///   stall has made the driver late (below). A sleep of
///   zero, or until now, is ready at the next line of tokio's grid, at most a millisecond later, or
///   at the next tick if that is longer. So a loop of such sleeps does not spin.
/// - [`reset`](Sleep::reset) and its two siblings move it, earlier or later, also once it was
///   ready.
/// - After a [stall](crate::guarantees#what-a-stall-is) tasks run before it fires, so that what
///   arrived meanwhile is read first. It then comes some milliseconds later than tokio's, and at
///   most 100 ms and a tick. A first poll that finds it overdue leaves it to the driver, too.
///   [`Builder::stall_grace`](crate::timer::Builder::stall_grace) switches that off.
/// - The task that polled last is woken. Once ready, the sleep is ready at each poll until it is
///   reset.
/// - It fires by the clock of its timer's runtime, wherever it is polled. On a thread that drives a
///   runtime, a free function's sleep takes the timer of the runtime that first polls or resets it.
///   Made elsewhere, or with tokio before 1.54, it takes that of the runtime in which it was made.
///
/// # Cost
///
/// | | |
/// |---|---|
/// | made, and dropped before a poll | no lock, once the thread has found its timer |
/// | the first poll that is pending, which arms it | one short lock of the timer's shard |
/// | a poll by the waker that it has | no lock |
/// | the first reset to later once it is armed | the lock, and 56 bytes |
/// | each further one | a compare-exchange at most |
/// | a reset to earlier, and a drop, once it is armed | the lock; O(1), and the memory is free at once |
///
/// # Cancel safety
///
/// Dropping it cancels it. Awaiting `&mut sleep` and dropping that future, as `select!` does, loses
/// nothing: the sleep keeps its deadline, and stays armed.
///
/// # Panics
///
/// If it is polled while pending and the runtime that drives its timer has shut down. tokio's own
/// sleep panics there too. [`try_poll`](Sleep::try_poll) returns an error instead.
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep {
    pub(super) deadline: Instant,
    // Not within the states that have one: a sleep that is polled and dropped then takes up to 4.5
    // % more instructions.
    shard: FoundShard,
    state: State,
}

/// The shard of a sleep. `None` while the sleep is detached, which only an unarmed one is, or one
/// that elapsed before it was armed.
struct FoundShard(Option<Arc<Shard>>);

impl FoundShard {
    /// The shard of a sleep that is or was armed.
    #[inline]
    fn get(&self) -> &Arc<Shard> {
        self.0.as_ref().expect("a sleep that was armed has a shard")
    }
}

const LINE: Duration = Duration::from_millis(1);

pub(crate) type FindShard = fn() -> Arc<Shard>;

/// The code that leaves a state drops its contents, so most sleeps have nothing to drop.
// With a tag of two bytes, a new sleep is moved in whole words.
#[repr(u16)]
enum State {
    Unarmed {
        /// Neither polled nor reset.
        is_new: bool,
        /// Whether it may have been due when it was made or reset. Then the poll reads the clock
        /// before it arms. A sleep that was not due then may be due now: the driver fires it, or,
        /// if it has already passed that tick, nothing is armed.
        may_be_due: bool,
        /// Where a detached sleep finds its timer.
        find: Option<FindShard>,
    },
    Armed {
        /// Its timer in the wheel.
        key: PackedKey,
        /// The tick at which that timer fires.
        tick: Tick,
        /// The waker that the timer wakes.
        waker: WakerId,
    },
    Deferred {
        /// Its timer in the wheel, which is linked at an earlier tick.
        key: PackedKey,
        /// Holds its due.
        word: ManuallyDrop<Arc<Word>>,
        /// The waker that the timer wakes.
        waker: WakerId,
    },
    Elapsed {
        /// That of the poll that was ready. A reset arms the sleep at once for its task, which need
        /// not poll before it returns `Pending`. `None` if no poll was ready, or its owner polls
        /// after each reset.
        waker: Option<ManuallyDrop<Waker>>,
    },
}

impl Sleep {
    /// A sleep on this shard. Its deadline may have passed.
    #[inline(always)]
    pub(crate) fn until(shard: Arc<Shard>, deadline: Instant) -> Sleep {
        Sleep::new(Some(shard), None, deadline, true)
    }

    /// Without a shard the sleep finds its timer by `find`, when it arms, on the thread that then
    /// polls it.
    ///
    /// Callers compute the arguments, which travel in registers, and make the sleep in one place.
    /// If a function returned a sleep through memory, the compiler would move it from there
    /// together with the future beside it in a timeout, which may be large.
    #[inline(always)]
    pub(crate) fn new(
        shard: Option<Arc<Shard>>,
        find: Option<FindShard>,
        deadline: Instant,
        may_be_due: bool,
    ) -> Sleep {
        Sleep {
            deadline,
            shard: FoundShard(shard),
            state: State::Unarmed {
                find,
                is_new: true,
                may_be_due,
            },
        }
    }

    /// Returns the instant from which the sleep is ready.
    ///
    /// It is never before the call that made or reset the sleep plus its duration. An excessive
    /// duration ends 146 years after the timer was made.
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns whether the sleep has elapsed: its timer has fired, or, if it was reset and not
    /// polled since it was last ready, its deadline has passed.
    ///
    /// A sleep that was neither polled nor reset has not elapsed.
    ///
    /// ```
    /// # use tickwheel::{Duration, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let mut pause = sleep(Duration::from_secs(1));
    /// assert!(!pause.is_elapsed());
    /// (&mut pause).await;
    /// assert!(pause.is_elapsed());
    /// pause.reset_after(Duration::from_secs(1));
    /// assert!(!pause.is_elapsed(), "it is pending again");
    /// # });
    /// ```
    pub fn is_elapsed(&self) -> bool {
        match self.state {
            State::Unarmed { is_new, .. } => !is_new && self.is_due_unarmed(),
            State::Armed { .. } | State::Deferred { .. } => self.has_fired(),
            State::Elapsed { .. } => true,
        }
    }

    /// Whether an unarmed sleep is due.
    fn is_due_unarmed(&self) -> bool {
        match &self.shard.0 {
            Some(shard) => {
                let clock = shard.clock();
                clock.is_due_now(clock.moment(self.deadline))
            }
            // By then its line of the grid has passed too.
            None => Instant::now().duration_since(self.deadline) >= LINE,
        }
    }

    /// Moves the deadline to `deadline`, earlier or later. A sleep that has elapsed is pending
    /// again.
    ///
    /// As with tokio, the task that polled last is woken at the new deadline, and at no other, and
    /// need not poll the sleep after the reset. If the driver has already turned past the new
    /// deadline, the task is woken before the call returns.
    ///
    /// The first reset to later of an armed sleep takes one lock of the timer's shard and allocates
    /// 56 bytes. Each further one is a compare-exchange, or nothing if the deadline stays in its
    /// tick. A reset to earlier takes the lock.
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, sleep_until};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let start = Instant::now();
    /// let second = |n| start + Duration::from_secs(n);
    /// let mut next = sleep_until(second(60));
    ///
    /// // A job that is due earlier comes while the task waits.
    /// let (sender, mut jobs) = tokio::sync::mpsc::channel(1);
    /// sender.send(second(5)).await?;
    /// loop {
    ///     tokio::select! {
    ///         () = &mut next => break,
    ///         Some(due) = jobs.recv() => next.reset_at(due.min(next.deadline())),
    ///     }
    /// }
    /// assert_eq!(start.elapsed().as_secs(), 5);
    /// # drop(sender);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    #[inline]
    pub fn reset_at(&mut self, deadline: Instant) {
        self.reset_to(deadline, true);
    }

    /// Moves the deadline to `duration` from now, earlier or later, like
    /// [`reset_at`](Sleep::reset_at).
    ///
    /// Zero waits for the next line of tokio's grid, or for the next tick if that is longer. An
    /// excessive duration saturates.
    ///
    /// ```
    /// # use tickwheel::{Duration, Instant, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// # let (sender, mut bytes) = tokio::sync::mpsc::channel(1);
    /// # tokio::spawn(async move {
    /// #     for byte in 0..3_u8 {
    /// #         sleep(Duration::from_secs(20)).await;
    /// #         sender.send(byte).await.unwrap();
    /// #     }
    /// #     std::future::pending::<()>().await;
    /// # });
    /// // One idle timeout for a whole connection: every byte pushes it back.
    /// let idle_after = Duration::from_secs(30);
    /// let (start, mut idle) = (Instant::now(), sleep(idle_after));
    /// loop {
    ///     tokio::select! {
    ///         biased;
    ///         Some(_byte) = bytes.recv() => idle.reset_after(idle_after), // at 20, 40 and 60 s
    ///         () = &mut idle => break,
    ///     }
    /// }
    /// assert_eq!(start.elapsed().as_secs(), 90);
    /// # });
    /// ```
    #[inline]
    pub fn reset_after(&mut self, duration: Duration) {
        let deadline = self.now().checked_add(duration);
        let deadline = deadline.unwrap_or_else(|| self.attach().clock().instant(Moment::MAX));
        self.reset_to(deadline, duration.is_zero());
    }

    /// Moves the deadline to `deadline`, earlier or later, like [`reset_at`](Sleep::reset_at).
    ///
    /// It takes a pinned reference, as [`tokio::time::Sleep::reset`] does, for calls through a
    /// projection.
    ///
    /// ```
    /// # use tickwheel::time::{Duration, Instant, sleep};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// // Code that was written for tokio pins its sleep, and need not change.
    /// let nap = sleep(Duration::from_secs(10));
    /// tokio::pin!(nap);
    /// let start = Instant::now();
    /// nap.as_mut().reset(start + Duration::from_secs(1));
    /// nap.await;
    /// assert_eq!(start.elapsed().as_secs(), 1);
    /// # });
    /// ```
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().reset_at(deadline);
    }

    #[inline]
    pub(super) fn reset_to(&mut self, deadline: Instant, may_be_due: bool) {
        let before = mem::replace(&mut self.deadline, deadline);
        if let State::Deferred { word, .. } = &self.state {
            let shard = self.shard.get();
            // Within one tick nothing changes. This look costs less than finding the tick.
            let stays_in_tick = |due| before <= deadline && deadline <= shard.clock().start_of(due);
            if word.due().is_some_and(stays_in_tick) {
                return;
            }
            let due = due_tick(shard, deadline);
            if word.defer_to(due) {
                return;
            }
        }
        self.reset_with_lock(may_be_due);
    }

    /// All but a reset to later of a deferred sleep. Not inlined, to keep that one short.
    #[inline(never)]
    fn reset_with_lock(&mut self, may_be_due: bool) {
        if let State::Elapsed { waker } = &mut self.state {
            if let Some(waker) = waker.take() {
                return self.arm_again(may_be_due, ManuallyDrop::into_inner(waker));
            }
        }
        let held_timer = self.key();
        if let Some(key) = held_timer {
            let due = due_tick(self.shard.get(), self.deadline);
            if self.move_timer(key, due) {
                return;
            }
            // The poll then need not read the clock.
            if self.shard.get().has_turned_to(due) {
                return self.clear();
            }
        }
        let find = match self.state {
            State::Unarmed { find, .. } => find,
            _ => None,
        };
        let unarmed = State::Unarmed {
            find,
            is_new: false,
            // A timer that fires at once has woken the task, so its poll looks whether it is due.
            may_be_due: may_be_due || held_timer.is_some(),
        };
        match mem::replace(&mut self.state, unarmed) {
            State::Deferred { word, .. } => drop(ManuallyDrop::into_inner(word)),
            _ => {
                // So that `is_elapsed` goes by the grid of its timer.
                if self.shard.0.is_none() && worker_index().is_some() {
                    self.attach();
                }
            }
        }
    }

    /// A reset of an elapsed sleep for the task whose poll was ready.
    fn arm_again(&mut self, may_be_due: bool, waker: Waker) {
        self.state = State::Unarmed {
            find: None,
            is_new: false,
            may_be_due,
        };
        // Without a look at the clock: until the driver passes the deadline, the sleep may be reset
        // to later. If the driver has passed it, or has ended, the task polls and finds out.
        if let Poll::Ready(ended) = self.arm(false, &waker) {
            if ended.is_ok() {
                self.state = State::Elapsed { waker: None };
            }
            self.attach().wake(waker);
        }
    }

    /// Moves its timer to the tick of the deadline, or gives it a word with a later due. `false` if
    /// it has fired, or fires at once.
    fn move_timer(&mut self, key: Key, due: Tick) -> bool {
        let shard = self.shard.get();
        match &mut self.state {
            State::Armed { tick, .. } if due == *tick => true,
            State::Armed { tick, waker, .. } if due > *tick => {
                let Some(word) = shard.defer(key, due) else {
                    return false;
                };
                self.state = State::Deferred {
                    key: key.into(),
                    word: ManuallyDrop::new(word),
                    waker: *waker,
                };
                true
            }
            State::Armed { tick, .. } => {
                *tick = due;
                shard.move_to(key, due)
            }
            _ => shard.move_to(key, due),
        }
    }

    /// The time until the deadline, by the clock of its timer. Zero once it has passed.
    #[cfg(feature = "hyper")]
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(self.now())
    }

    /// Polls like the future, but returns an error where the future panics on a shutdown.
    ///
    /// For a sleep that may be polled outside the timer's runtime, and must survive that runtime's
    /// shutdown. After an error, each further poll returns the error again.
    ///
    /// # Errors
    ///
    /// [`ShutDown`] if the runtime that drives the timer has shut down while the sleep was pending.
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use tickwheel::{Duration, Timer};
    ///
    /// let elsewhere = tokio::runtime::Runtime::new()?;
    /// let mut nap = elsewhere.block_on(async { Timer::current().sleep(Duration::from_secs(60)) });
    /// drop(elsewhere);
    /// let end = futures::executor::block_on(poll_fn(|cx| nap.try_poll(cx)));
    /// assert!(end.is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn try_poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShutDown>> {
        let polled = self.poll_keeping_no_waker(cx);
        if let Poll::Ready(Ok(())) = polled {
            let waker = Some(ManuallyDrop::new(cx.waker().clone()));
            self.state = State::Elapsed { waker };
        }
        polled
    }

    /// Like `try_poll`, for an owner that polls the sleep after each reset.
    #[inline]
    pub(super) fn poll_keeping_no_waker(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ShutDown>> {
        let has_budget = coop::has_budget_remaining();
        if has_budget && self.is_waiting(cx) {
            return Poll::Pending;
        }
        self.poll_after_inner(has_budget, cx)
    }

    /// Polls the sleep after a future that may have used up the task's budget, maybe in every poll.
    /// If there was budget before that, the deadline is checked anyway. Only progress takes a unit
    /// of the budget, because nearly all polls stay pending and would have to return it.
    #[inline(never)] // It is long, and its callers are not.
    pub(crate) fn poll_after_inner(
        &mut self,
        had_budget: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ShutDown>> {
        if !had_budget && coop::poll_proceed(cx).is_pending() {
            return Poll::Pending;
        }
        let ended = match self.state {
            State::Elapsed { .. } => Ok(()),
            State::Unarmed { may_be_due, .. } => ready!(self.arm(may_be_due, cx.waker())),
            _ if self.has_fired() => Ok(()),
            _ if self.is_waiting(cx) => return Poll::Pending,
            _ => ready!(self.register(cx)),
        };
        match &mut self.state {
            _ if ended.is_ok() => self.clear(),
            // A sleep that was shut down ends again the same way, even after its deadline.
            State::Unarmed { may_be_due, .. } => *may_be_due = false,
            _ => {}
        }
        spend_budget(cx);
        Poll::Ready(ended)
    }

    /// Whether its timer has fired, or fires in the present turn.
    #[inline]
    fn has_fired(&self) -> bool {
        match &self.state {
            State::Armed { tick, .. } => self.shard.get().has_turned_to(*tick),
            State::Deferred { word, .. } => word.outcome() == Poll::Ready(EXPIRED),
            _ => false,
        }
    }

    /// Whether its timer has not fired, and will wake the polling task.
    #[inline(always)]
    fn is_waiting(&self, cx: &Context<'_>) -> bool {
        match &self.state {
            State::Armed { tick, waker, .. } => {
                self.shard.get().turned_to() < *tick && *waker == WakerId::of(cx.waker())
            }
            State::Deferred { word, waker, .. } => {
                word.outcome().is_pending() && *waker == WakerId::of(cx.waker())
            }
            _ => false,
        }
    }

    /// Arms an unarmed sleep, unless it is due by the driver, or by the clock, if that is read.
    #[inline(always)] // Nearly every sleep is polled so once.
    fn arm(&mut self, reads_clock: bool, waker: &Waker) -> Poll<Result<(), ShutDown>> {
        let deadline = self.deadline;
        let shard = self.attach();
        let clock = shard.clock();
        let due = clock.moment(deadline);
        let tick = clock.tick().due(due);
        // The driver is asked first, because a reading of the clock costs more.
        if shard.has_turned_to(tick) || reads_clock && clock.is_due_now(due) {
            return Poll::Ready(Ok(()));
        }
        let clone = waker.clone();
        let waker = WakerId::of(&clone);
        let Some(key) = shard.arm(tick, clone) else {
            return Poll::Ready(self.outcome());
        };
        self.state = State::Armed {
            key: key.into(),
            tick,
            waker,
        };
        Poll::Pending
    }

    /// Registers another waker for a timer that is or was armed.
    #[cold]
    fn register(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ShutDown>> {
        let (State::Armed { key, waker, .. } | State::Deferred { key, waker, .. }) =
            &mut self.state
        else {
            unreachable!("only a sleep that holds a key comes here");
        };
        // Dropping the former waker may panic.
        *waker = WakerId::NONE;
        let shard = self.shard.get();
        let Some(registered) = shard.register_waker((*key).into(), cx.waker()) else {
            return Poll::Ready(self.outcome());
        };
        *waker = registered;
        Poll::Pending
    }

    /// The outcome of a sleep that need not wait: its deadline has passed, or its runtime
    /// has shut down before that.
    #[cold]
    fn outcome(&mut self) -> Result<(), ShutDown> {
        let deadline = self.deadline;
        let may_be_due = matches!(self.state, State::Unarmed { may_be_due, .. } if may_be_due);
        let clock = self.attach().clock();
        let Some(end) = clock.ended() else {
            return Ok(());
        };
        let due = clock.moment(deadline);
        // An unarmed one that may be due is ready once its deadline has passed, even after the
        // shutdown.
        if end < due && !(may_be_due && due <= clock.now()) {
            Err(ShutDown::NEW)
        } else {
            Ok(())
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.shard.0 {
            Some(shard) => shard.clock().now_instant(),
            None => Instant::now(),
        }
    }

    /// Whether the runtime of its timer has ended. `false` for a detached one.
    pub(super) fn has_ended(&self) -> bool {
        let shard = self.shard.0.as_ref();
        shard.is_some_and(|shard| shard.clock().has_ended())
    }

    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.state, State::Unarmed { is_new: true, .. })
    }

    /// The shard on which it arms. A detached sleep finds its timer now.
    #[inline]
    pub(crate) fn attach(&mut self) -> &Arc<Shard> {
        self.shard.0.get_or_insert_with(|| match self.state {
            State::Unarmed {
                find: Some(find), ..
            } => find(),
            _ => unreachable!("only an unarmed sleep is detached"),
        })
    }

    #[inline]
    fn key(&self) -> Option<Key> {
        match &self.state {
            &State::Armed { key, .. } | &State::Deferred { key, .. } => Some(key.into()),
            _ => None,
        }
    }

    /// Drops what its state holds, before the sleep itself is dropped. Never inlined, to keep that
    /// drop short enough to be inlined.
    #[inline(never)]
    fn release(&mut self) {
        if let State::Armed { key, .. } = self.state {
            // This state holds nothing else.
            self.shard.get().disarm(key.into());
        } else {
            self.elapse();
        }
    }

    /// Takes its timer out, if any, and makes it elapsed.
    pub(crate) fn elapse(&mut self) {
        if let Some(key) = self.key() {
            self.shard.get().disarm(key);
        }
        self.clear();
    }

    /// Makes it elapsed, without a waker, and drops what its state has held.
    #[inline]
    fn clear(&mut self) {
        match mem::replace(&mut self.state, State::Elapsed { waker: None }) {
            State::Deferred { word, .. } => drop(ManuallyDrop::into_inner(word)),
            State::Elapsed { waker } => drop(waker.map(ManuallyDrop::into_inner)),
            _ => {}
        }
    }
}

/// The tick at which a deadline is due, by the clock of its timer.
#[inline]
fn due_tick(shard: &Shard, deadline: Instant) -> Tick {
    let clock = shard.clock();
    clock.tick().due(clock.moment(deadline))
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.try_poll(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(end) => panic_shut_down(end),
        }
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if !matches!(self.state, State::Unarmed { .. }) {
            self.release();
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline())
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

#[cold]
pub(super) fn panic_shut_down(end: ShutDown) -> ! {
    // In brackets what tokio's own timers say, for those who look for it.
    panic!("{end}. (A Tokio 1.x context was found, but it is being shutdown.)")
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::sleep;

    /// A sleep that waits for its later deadline, and its word.
    async fn deferred() -> (Sleep, Weak<Word>) {
        let mut sleep = sleep(Duration::from_secs(1));
        assert!(
            sleep
                .try_poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        sleep.reset_after(Duration::from_secs(2));
        let State::Deferred { word, .. } = &sleep.state else {
            panic!("it is armed");
        };
        let word = Arc::downgrade(word);
        (sleep, word)
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_that_was_deferred_leaves_no_word() {
        let (sleep, word) = deferred().await;
        drop(sleep);
        assert_eq!(word.strong_count(), 0, "dropped");
        let (mut sleep, word) = deferred().await;
        (&mut sleep).await;
        assert_eq!(word.strong_count(), 0, "elapsed");
        let (mut sleep, word) = deferred().await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        sleep.reset_after(Duration::from_secs(1));
        assert_eq!(word.strong_count(), 0, "reset once it had fired");
    }
}
