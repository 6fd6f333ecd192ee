//! The random programs of the two maps, written once and run in two worlds. Both packages compile
//! these files, because each has a `tickwheel` of its own.
//!
//! # What each world gives
//!
//! | | `tickwheel-soak` | `tickwheel-schedules` |
//! |---|---|---|
//! | the crate | as users build it | the same source, on shuttle's `std` and a stand-in for tokio |
//! | an actor | a task, or a thread of any kind; its runtime may end under it | a thread of shuttle's |
//! | its calls | thousands, until the time is up | four or so, so that one schedule stays small |
//! | now | tokio's clock | a place in the order of all steps, and the time that has passed |
//! | rest | nothing, a yield, or up to 200 µs | time passes, or it is left to the time driver |
//! | random | the program's seed | the schedule, so that a replay draws the same |
//! | wait | moves between runtimes, and must not sleep for 3 s past its due | is woken at most a few ticks late; a lost wake-up is a deadlock |
//!
//! So real threads find what depends on memory ordering, on the real tokio and on large numbers of
//! calls. Schedules find the rare order of a few steps, and can replay it. The model that judges
//! the answers is the same: `../model`.
//!
//! # Which programs are one
//!
//! Those in which actors make random calls: `delay_map` and `deadline_map`. A world decides how
//! many actors there are, how many calls each makes and how rare the drastic calls are.
//!
//! These are not shared:
//!
//! - *How a program begins and ends.* A schedule compares the virtual time with the last due, and
//!   the soak waits for real time and for runtimes that end.
//! - *The directed races of the schedules*, such as one removal while the stream sets its timer.
//!   They have two or three calls. Starting a thread takes longer than these calls, so real threads
//!   would run them one after the other.
//! - *`deadline`, `restart`, `sleep`, `clock` of the schedules.* They check dues to the tick, and
//!   make the clock step. No real clock allows either. For sleeps in real time the soak has
//!   `histories`, which compares them with tokio's.
//! - *`ends` of the soak.* Its subject is how tokio itself ends, which the stand-in does not have.

pub mod calls;
pub mod deadline_map;
pub mod delay_map;

use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickwheel::Instant;
use tickwheel_soak_model::{Act, Call, Kind, Time};

pub type Key = u32;

/// What an actor asks of its world. Each actor has a value of its own.
pub trait World: Send + Unpin + Sized + 'static {
    type Time: Time + Send + Sync + 'static;

    // Spawn.

    /// For another actor, or for a part of this one.
    fn fork(&mut self) -> Self;

    fn spawn(&mut self, actor: impl Future<Output = ()> + Send + 'static);

    /// Whether the actor is to make another call.
    fn goes_on(&mut self) -> bool;

    // Now.

    /// How long ago that was. Zero is now.
    fn ago(&self, by: Duration) -> Self::Time;

    fn instant(&self, time: Self::Time) -> Instant;

    fn time(&self, instant: Instant) -> Self::Time;

    /// Makes a call between two readings of the clock.
    fn timed<R>(&self, call: impl FnOnce() -> R) -> (R, Call<Self::Time>);

    // Rest.

    /// What an actor does between two calls.
    fn rest(&mut self) -> impl Future<Output = ()> + Send;

    /// Lets the others run.
    fn yield_now(&mut self) -> impl Future<Output = ()> + Send;

    // Random.

    fn below(&mut self, end: u64) -> u64;

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }

    /// A length of time from now until something is to be due.
    fn delay(&mut self) -> Duration;

    // Wait.

    /// Waits for all of them in one task. Returns each with its output and the poll that gave it.
    fn wait<F>(
        &mut self,
        futures: Vec<F>,
    ) -> impl Future<Output = Vec<(F, F::Output, Seen<Self::Time>)>> + Send
    where
        F: Future<Output: Send> + Send + Unpin;

    /// Runs a part of the actor that waits, perhaps in another place. `None` if it never ended.
    fn watch<F>(
        &mut self,
        state: impl Fn() -> String + Send + 'static,
        part: F,
    ) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send + Unpin + 'static;

    // What the model judges.

    /// Records a call on a key, or on all of them. Interval 0 is any that may be under the key.
    fn note(
        &mut self,
        key: Option<Key>,
        interval: u64,
        act: Act<Self::Time>,
        answer: bool,
        seen: Seen<Self::Time>,
    );

    /// The runtime that drives the timer has ended, or may have.
    fn may_have_ended(&self) -> bool;

    /// Something impossible has happened.
    fn report(&self, kind: Kind, text: &str);
}

/// When a call was made or a future was ready.
#[derive(Clone, Copy, Debug)]
pub struct Seen<T> {
    pub call: Call<T>,
    /// Since when the task had waited, and when it was woken, if the world knows. Real threads do
    /// not.
    #[allow(dead_code)]
    pub woken: Option<[T; 2]>,
}

impl<T> From<Call<T>> for Seen<T> {
    fn from(call: Call<T>) -> Seen<T> {
        Seen { call, woken: None }
    }
}

/// What all actors on one map know of it.
pub struct Shared<T> {
    pub keys: Key,
    /// It takes fewer keys than there are.
    pub has_capacity: bool,
    /// One call in so many is on all keys.
    pub on_all_keys: u64,
    /// One drain in so many closes the map.
    pub closes: u64,
    intervals: AtomicU64,
    /// Before the first call that closes the map or drops its last handle.
    closing: OnceLock<T>,
    /// After a call that has closed the map.
    closed: OnceLock<T>,
}

impl<T: Time> Shared<T> {
    pub fn new(keys: Key, has_capacity: bool, on_all_keys: u64, closes: u64) -> Shared<T> {
        Shared {
            keys,
            has_capacity,
            on_all_keys,
            closes,
            intervals: AtomicU64::new(0),
            closing: OnceLock::new(),
            closed: OnceLock::new(),
        }
    }

    fn new_interval(&self) -> u64 {
        1 + self.intervals.fetch_add(1, Ordering::Relaxed)
    }

    fn random_key(&self, world: &mut impl World) -> Key {
        world.below(self.keys.into()) as Key
    }

    /// From now on the map may be closed, and its stream may end.
    pub fn begins_to_close(&self, world: &impl World<Time = T>) {
        let _ = self.closing.set(world.ago(Duration::ZERO));
    }

    pub fn closing(&self) -> Option<T> {
        self.closing.get().copied()
    }

    fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    fn has_closed(&self, call: Call<T>) {
        let _ = self.closed.set(call.after);
    }

    /// Takes out what the map has, and notes when it closes.
    fn take<R>(
        &self,
        world: &impl World<Time = T>,
        closes: bool,
        take: impl FnOnce() -> R,
    ) -> (R, Call<T>) {
        if closes {
            self.begins_to_close(world);
        }
        let (taken, call) = world.timed(take);
        if closes {
            self.has_closed(call);
        }
        (taken, call)
    }

    /// Nothing goes into a map that is closed, and nothing comes out of it.
    fn check_open(&self, world: &impl World<Time = T>, interval: u64, call: Call<T>) {
        if self
            .closed
            .get()
            .is_some_and(|&closed| closed < call.before)
        {
            let text = format!("{interval} in a map that was closed: {call:?}");
            world.report(Kind::WrongAnswer, &text);
        }
    }

    /// An insert is rejected by a full map or a closed one.
    fn check_rejection(&self, world: &impl World<Time = T>, is_full: bool, call: Call<T>) {
        let may_be_closed = || self.closing().is_some_and(|closing| closing <= call.after);
        let may_be = if is_full {
            self.has_capacity
        } else {
            may_be_closed() || world.may_have_ended()
        };
        if !may_be {
            let text = format!("an insert was rejected, full: {is_full}");
            world.report(Kind::WrongAnswer, &text);
        }
    }
}
