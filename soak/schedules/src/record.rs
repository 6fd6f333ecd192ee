//! What was called in a schedule, and when: in which order, and by the clock.
//!
//! The threads of a schedule run one at a time. So one count puts the beginnings and the ends of
//! all calls in order.

use std::cell::Cell;
use std::fmt;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use tickwheel_soak_model::Call;
use under_std::time::passed;

thread_local! {
    static STEP: Cell<u64> = const { Cell::new(0) };
    static LAST_HELD_UP: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Whether everything that happens is printed.
static TRACES: AtomicBool = AtomicBool::new(false);

pub fn trace_all() {
    TRACES.store(true, Ordering::Relaxed);
}

/// Prints what happens, if a schedule is replayed.
pub fn trace(what: impl FnOnce() -> String) {
    if TRACES.load(Ordering::Relaxed) {
        let thread = usize::from(shuttle::thread::current().id());
        eprintln!("{:>10.3?} thread {thread}: {}", passed(), what());
    }
}

/// Counts on.
fn step() -> u64 {
    STEP.set(STEP.get() + 1);
    STEP.get()
}

/// A moment of a schedule: a time by the clock, and the place among all that happens then. A time
/// without a place, as that of a deadline, comes before all of its moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub at: Duration,
    pub step: u64,
}

impl Moment {
    pub fn of(at: Duration) -> Moment {
        Moment { at, step: 0 }
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment::of(self.at.saturating_add(duration))
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, other: Moment) -> Duration {
        self.at.saturating_sub(other.at)
    }
}

/// A call that takes no longer was not held up: each reading of the clock takes a nanosecond.
const READINGS: Duration = Duration::from_micros(1);

/// When a call began and ended, in the order of all and by the clock.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub first: u64,
    pub last: u64,
    pub began: Duration,
    pub ended: Duration,
}

impl Span {
    /// Runs a call.
    pub fn of<R>(call: impl FnOnce() -> R) -> (R, Span) {
        let (first, began) = (step(), passed());
        trace(|| format!("call {first}"));
        let result = call();
        let span = Span {
            first,
            last: step(),
            began,
            ended: passed(),
        };
        if span.ended - began > READINGS {
            LAST_HELD_UP.set(span.ended);
        }
        (result, span)
    }

    pub fn call(&self) -> Call<Moment> {
        let moment = |at, step| Moment { at, step };
        Call {
            before: moment(self.began, self.first),
            after: moment(self.ended, self.last),
        }
    }
}

/// A schedule begins.
pub fn begin() {
    LAST_HELD_UP.set(Duration::ZERO);
}

/// When the last call or poll ended that time has passed in. Until then its thread may have been
/// the one that the driver's work was left to.
pub fn last_held_up() -> Duration {
    LAST_HELD_UP.get()
}

/// What all threads of a schedule write.
#[derive(Debug)]
pub struct Record<T>(Arc<Mutex<Vec<T>>>);

impl<T: fmt::Debug> Record<T> {
    pub fn new() -> Record<T> {
        Record(Arc::new(Mutex::new(Vec::new())))
    }

    pub fn push(&self, entry: T) {
        trace(|| format!("{entry:?}"));
        self.0.lock().unwrap().push(entry);
    }

    pub fn count(&self, is_it: impl Fn(&T) -> bool) -> usize {
        let entries = self.0.lock().unwrap();
        entries.iter().filter(|entry| is_it(entry)).count()
    }

    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl<T> Clone for Record<T> {
    fn clone(&self) -> Self {
        Record(self.0.clone())
    }
}

/// A waker that notes when it was first woken since the last poll.
pub struct Noting {
    waker: Waker,
    nanos: AtomicU64,
}

const NOT_WOKEN: u64 = u64::MAX;

impl Noting {
    pub fn new(waker: &Waker) -> Arc<Noting> {
        Arc::new(Noting {
            waker: waker.clone(),
            nanos: AtomicU64::new(NOT_WOKEN),
        })
    }

    pub fn wakes(&self, waker: &Waker) -> bool {
        self.waker.will_wake(waker)
    }

    /// When it was first woken since this was last called.
    pub fn take(&self) -> Option<Duration> {
        let nanos = self.nanos.swap(NOT_WOKEN, Ordering::Relaxed);
        (nanos != NOT_WOKEN).then_some(Duration::from_nanos(nanos))
    }
}

impl Wake for Noting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let first = self.nanos.load(Ordering::Relaxed);
        let now = passed().as_nanos() as u64;
        trace(|| "wakes the consumer".to_owned());
        self.nanos.store(first.min(now), Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}
