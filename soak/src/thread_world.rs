//! The world of an actor in real time: threads and tasks, tokio's clock, and a watch over what
//! waits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tickwheel::Instant;
use tokio::time::Duration;

use crate::checker::{Act, Call, timed};
use crate::finding::Kind;
use crate::program::{Clock, Program};
use crate::programs::{Key, Seen, World};
use crate::record::{ALL_KEYS, Record, Subject};
use crate::wait::{Latest, Wait};
use crate::world::Executor;

/// The longest length of time that an actor draws.
pub const LONGEST: Duration = Duration::from_millis(300);

/// At most so many calls of one actor.
const ROUNDS: u32 = 20_000;

/// Which lengths of time an actor draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// At most 3 ms.
    Short,
    /// Up to [`LONGEST`].
    Mixed,
}

impl Lengths {
    pub fn random(random: &mut fastrand::Rng) -> Lengths {
        if random.bool() {
            Lengths::Short
        } else {
            Lengths::Mixed
        }
    }

    fn draw(self, random: &mut fastrand::Rng) -> Duration {
        let micros = match (self, random.u8(..16)) {
            (_, 0) => 0,
            (Lengths::Short, _) => random.u64(..3_000),
            (_, 1..3) => random.u64(..1_000),
            (_, 3..6) => 1_000 * random.u64(..5),
            (_, 6..14) => random.u64(..30_000),
            (_, 14) => random.u64(..100_000),
            (_, _) => return LONGEST.mul_f64(random.f64()),
        };
        Duration::from_micros(micros)
    }
}

/// What an actor does between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Full,
    Yield,
    Sleep,
}

impl Pace {
    pub fn random(random: &mut fastrand::Rng) -> Pace {
        *random
            .choice(&[Pace::Full, Pace::Full, Pace::Yield, Pace::Sleep])
            .unwrap()
    }

    async fn rest(self, random: &mut fastrand::Rng) {
        match self {
            // A task that never yields would keep a runtime of one thread from its timers.
            Pace::Full if random.u8(..32) > 0 => {}
            Pace::Full | Pace::Yield => yield_now().await,
            // Under any executor.
            Pace::Sleep => std::thread::sleep(Duration::from_micros(random.u64(..200))),
        }
    }
}

/// As tokio's, under any executor.
pub async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|cx| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

type DueOf = dyn Fn(&MapContext) -> Option<Instant> + Send + Sync;

/// What all actors on one map have in common.
pub struct MapContext {
    pub program: Arc<Program>,
    pub clock: Clock,
    /// The number of the map in the record.
    pub number: u32,
    pub lengths: Lengths,
    /// When the last of what was set is due, at the latest.
    pub latest: Latest,
    pub what: &'static str,
    /// From when on it is wrong that a wait still goes on, if that is known.
    pub due: Box<DueOf>,
    /// Called once no actor is left.
    pub at_the_end: Box<dyn Fn(&Program) + Send + Sync>,
}

impl Drop for MapContext {
    fn drop(&mut self) {
        (self.at_the_end)(&self.program);
    }
}

pub struct ThreadWorld {
    pub context: Arc<MapContext>,
    random: fastrand::Rng,
    record: Record,
    pace: Pace,
    rounds: u32,
}

impl ThreadWorld {
    pub fn new(context: &Arc<MapContext>, random: fastrand::Rng, pace: Pace) -> ThreadWorld {
        ThreadWorld {
            context: context.clone(),
            random,
            record: context.program.record(),
            pace,
            rounds: 0,
        }
    }
}

impl World for ThreadWorld {
    type Time = Instant;

    fn fork(&mut self) -> ThreadWorld {
        ThreadWorld::new(&self.context, self.random.fork(), self.pace)
    }

    fn spawn(&mut self, actor: impl Future<Output = ()> + Send + 'static) {
        let program = &self.context.program;
        let executor = Executor::random(&mut self.random, program.runtimes.len());
        program.start(executor, actor);
    }

    fn goes_on(&mut self) -> bool {
        self.rounds += 1;
        self.context.program.is_busy() && self.rounds <= ROUNDS
    }

    fn ago(&self, by: Duration) -> Instant {
        Instant::now() - by
    }

    fn instant(&self, time: Instant) -> Instant {
        time
    }

    fn time(&self, instant: Instant) -> Instant {
        instant
    }

    fn timed<R>(&self, call: impl FnOnce() -> R) -> (R, Call) {
        timed(call)
    }

    fn rest(&mut self) -> impl Future<Output = ()> + Send {
        self.pace.rest(&mut self.random)
    }

    fn yield_now(&mut self) -> impl Future<Output = ()> + Send {
        yield_now()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.u64(..end)
    }

    fn delay(&mut self) -> Duration {
        self.context.lengths.draw(&mut self.random)
    }

    fn wait<F>(
        &mut self,
        mut futures: Vec<F>,
    ) -> impl Future<Output = Vec<(F, F::Output, Seen<Instant>)>> + Send
    where
        F: Future<Output: Send> + Send + Unpin,
    {
        let mut ready = Vec::new();
        std::future::poll_fn(move |cx| {
            let mut at = 0;
            while at < futures.len() {
                // The clock before the poll that is ready, and not before the wait for it.
                match timed(|| Pin::new(&mut futures[at]).poll(cx)) {
                    (Poll::Pending, _) => at += 1,
                    (Poll::Ready(output), call) => {
                        ready.push((futures.swap_remove(at), output, call.into()));
                    }
                }
            }
            if futures.is_empty() {
                Poll::Ready(std::mem::take(&mut ready))
            } else {
                Poll::Pending
            }
        })
    }

    async fn watch<F>(
        &mut self,
        state: impl Fn() -> String + Send + 'static,
        part: F,
    ) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + Unpin + 'static,
    {
        let context = self.context.clone();
        let (due, timer) = (context.clone(), context.clock.timer.clone());
        let wait = Wait {
            what: context.what,
            due: Box::new(move || (due.due)(&due)),
            state: Box::new(move || format!("{}, {:?}", state(), timer.metrics())),
        };
        let program = &context.program;
        program
            .wait(&mut self.random, &context.clock, wait, part)
            .await
    }

    fn note(
        &mut self,
        key: Option<Key>,
        interval: u64,
        act: Act,
        answer: bool,
        seen: Seen<Instant>,
    ) {
        if moves(&act) {
            // Several extensions of one deadline may overlap.
            let due = seen.call.after + 4 * LONGEST + 2 * self.context.clock.tick;
            self.context.latest.push(due);
        }
        let subject = Subject {
            map: self.context.number,
            key: key.unwrap_or(ALL_KEYS),
        };
        self.record
            .keep_of(subject, interval, act, (answer, seen.call));
    }

    fn may_have_ended(&self) -> bool {
        let runtime = self.context.clock.runtime;
        self.context.program.end_began(runtime).is_some()
    }

    fn report(&self, kind: Kind, text: &str) {
        self.context.program.report(kind, text);
    }
}

fn moves(act: &Act) -> bool {
    matches!(
        act,
        Act::Begin(_)
            | Act::Set(_)
            | Act::Reset
            | Act::ResetFrom(_)
            | Act::SetTimeout(_)
            | Act::Extend(_)
    )
}
