//! A timeout whose inner future is pending at the first poll, and which is then dropped: arm and
//! disarm.
//!
//! Not every peer has a timeout. In its place stands what a user of the peer would write. For a
//! [`DelayQueue`] the owner inserts and removes, and each thread has its own queue. Other peers
//! schedule a closure that wakes the task, and cancel it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Context;
use std::time::Duration;

use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{
    ClosureTimer, OneShotClosureState, PeriodicClosureState, Timer as _,
};
use tickwheel::Timer;
use tokio_util::time::DelayQueue;

use super::timeouts::polled_once;
use super::{How, Part, name};
use crate::harness::{Durations, Never, Operation, Race, Record, operation};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "pending",
    about: "timeout whose inner future is pending once, then dropped, on 1, 2 and 4 threads",
    how: How::Together(run),
};

fn run(settings: &Settings) -> Vec<Record> {
    [1, 2, 4]
        .into_iter()
        .flat_map(|threads| race(threads).run(settings))
        .collect()
}

fn race(threads: usize) -> Race {
    let mut race = Race::new(format!("pending-{threads}"), threads);
    enter_tickwheel(&mut race);
    race.enter(name::DROP_IN, || {
        polled_once(false, |after| tickwheel::timeout(after, Never))
    });
    race.enter(name::GLOBAL, || {
        polled_once(false, |after| tickwheel::global::timeout(after, Never))
    });
    enter_tokio(&mut race);
    race.enter(name::PINGORA, || {
        polled_once(false, |after| pingora_timeout::timeout(after, Never))
    });
    race.enter(name::DELAY_QUEUE, insert_and_remove);
    let mut thread = Weak::new();
    race.enter_afresh(name::HIERARCHICAL, move || {
        let shared = thread.upgrade().unwrap_or_else(TimerThread::start);
        thread = Arc::downgrade(&shared);
        ScheduleAndCancel::new(shared)
    });
    race
}

/// Enters tickwheel by its explicit timer.
pub fn enter_tickwheel(race: &mut Race) {
    race.enter(name::TICKWHEEL, || {
        let timer = Timer::current();
        polled_once(false, move |after| timer.timeout(after, Never))
    });
}

/// Enters tokio.
pub fn enter_tokio(race: &mut Race) {
    race.enter(name::TOKIO, || {
        polled_once(false, |after| tokio::time::timeout(after, Never))
    });
}

fn insert_and_remove() -> impl Operation {
    let durations = Durations::of_timeouts();
    let mut queue = DelayQueue::new();
    operation(move |_, times| {
        for index in 0..times {
            let key = queue.insert(index, durations.get(index));
            queue.remove(&key);
        }
    })
}

type Closures = TimerWithThread<u64, OneShotClosureState<u64>, PeriodicClosureState<u64>>;

/// The thread of a timer, which ends when the last of its users is dropped. While cancelled timers
/// linger in its wheel it spins, so it must not outlive its sample.
struct TimerThread(Option<Closures>);

impl TimerThread {
    fn start() -> Arc<TimerThread> {
        Arc::new(TimerThread(Some(
            Closures::new().expect("the thread starts"),
        )))
    }
}

impl Drop for TimerThread {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.0.take().map(Closures::shutdown) {
            panic!("{error:?}");
        }
    }
}

/// Sends two messages to the timer's thread each time; a sample lasts until the thread has dealt
/// with all of them.
struct ScheduleAndCancel {
    timer: TimerRef<u64, OneShotClosureState<u64>, PeriodicClosureState<u64>>,
    durations: Durations,
    /// Counted from a random number, because the tasks share the timer.
    id: u64,
    /// Set by the timer's thread once it has come to the end of its queue.
    drained: Option<Arc<AtomicBool>>,
    _thread: Arc<TimerThread>,
}

impl ScheduleAndCancel {
    fn new(thread: Arc<TimerThread>) -> ScheduleAndCancel {
        let timer = thread.0.as_ref().expect("it runs until it is dropped");
        ScheduleAndCancel {
            timer: timer.timer_ref(),
            durations: Durations::of_timeouts(),
            id: fastrand::u64(..) >> 1,
            drained: None,
            _thread: thread,
        }
    }
}

impl Operation for ScheduleAndCancel {
    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        for index in 0..times {
            self.id += 1;
            let waker = cx.waker().clone();
            let after = self.durations.get(index);
            self.timer
                .schedule_action_once(self.id, after, move |_| waker.wake());
            self.timer.cancel(&self.id);
        }
        self.drained = None;
    }

    fn is_settled(&mut self) -> bool {
        let drained = self.drained.get_or_insert_with(|| {
            let drained = Arc::new(AtomicBool::new(false));
            let thread = drained.clone();
            self.id += 1;
            self.timer
                .schedule_action_once(self.id, Duration::ZERO, move |_| {
                    thread.store(true, Ordering::Release);
                });
            drained
        });
        drained.load(Ordering::Acquire)
    }
}
