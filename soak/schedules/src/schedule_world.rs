//! The world of an actor in a schedule: a thread of shuttle's, virtual time, and wakers that note
//! when they are woken.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::sync::mpsc::Sender;
use shuttle::thread::JoinHandle;
use tickwheel::Instant;
use tickwheel_soak_model::{Act, Call, Kind, Outcome};
use under_std::time::passed;

use crate::history::History;
use crate::programs::{self, Key, Seen};
use crate::record::{Moment, Noting, Span};
use crate::wait::wait_for_all;
use crate::world::{ThreadContext, World, below, delay};

pub struct ScheduleWorld {
    context: ThreadContext,
    history: History,
    origin: Instant,
    ends_early: bool,
    /// How many more calls it makes.
    calls: u64,
    /// Receives a message for each value that comes out of the stream.
    outs: Option<Sender<()>>,
    noting: Option<Arc<Noting>>,
    threads: Threads,
}

/// The threads that actors have started.
#[derive(Clone, Default)]
pub struct Threads(Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Threads {
    pub fn join(&self) {
        loop {
            let next = self.0.lock().unwrap().pop();
            match next {
                Some(thread) => thread.join().unwrap(),
                None => return,
            }
        }
    }
}

impl ScheduleWorld {
    pub fn new(world: &World, history: &History, calls: u64, threads: &Threads) -> ScheduleWorld {
        ScheduleWorld {
            context: world.context(),
            history: history.clone(),
            origin: world.origin,
            ends_early: world.ends_early,
            calls,
            outs: None,
            noting: None,
            threads: threads.clone(),
        }
    }

    pub fn reporting(self, outs: Sender<()>) -> ScheduleWorld {
        ScheduleWorld {
            outs: Some(outs),
            ..self
        }
    }
}

impl programs::World for ScheduleWorld {
    type Time = Moment;

    fn fork(&mut self) -> ScheduleWorld {
        ScheduleWorld {
            context: self.context.clone(),
            history: self.history.clone(),
            outs: self.outs.clone(),
            noting: None,
            threads: self.threads.clone(),
            ..*self
        }
    }

    fn spawn(&mut self, actor: impl Future<Output = ()> + Send + 'static) {
        let thread = self.context.clone().spawn(|| block_on(actor));
        self.threads.0.lock().unwrap().push(thread);
    }

    fn goes_on(&mut self) -> bool {
        let goes_on = self.calls > 0;
        self.calls = self.calls.saturating_sub(1);
        goes_on
    }

    fn ago(&self, by: Duration) -> Moment {
        Moment::of(passed().saturating_sub(by))
    }

    fn instant(&self, time: Moment) -> Instant {
        self.origin + time.at
    }

    fn time(&self, instant: Instant) -> Moment {
        Moment::of(instant.duration_since(self.origin))
    }

    fn timed<R>(&self, call: impl FnOnce() -> R) -> (R, Call<Moment>) {
        let (result, span) = Span::of(call);
        (result, span.call())
    }

    async fn rest(&mut self) {
        self.context.rest();
    }

    async fn yield_now(&mut self) {
        shuttle::thread::yield_now();
    }

    fn below(&mut self, end: u64) -> u64 {
        below(end)
    }

    fn delay(&mut self) -> Duration {
        delay()
    }

    async fn wait<F>(&mut self, futures: Vec<F>) -> Vec<(F, F::Output, Seen<Moment>)>
    where
        F: Future<Output: Send> + Send + Unpin,
    {
        wait_for_all(&mut self.noting, futures).await
    }

    async fn watch<F>(
        &mut self,
        _: impl Fn() -> String + Send + 'static,
        part: F,
    ) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + Unpin + 'static,
    {
        Some(part.await)
    }

    fn note(
        &mut self,
        key: Option<Key>,
        interval: u64,
        act: Act<Moment>,
        answer: bool,
        seen: Seen<Moment>,
    ) {
        self.history.note_seen(key, interval, act, answer, seen);
        if let (Act::End(Outcome::Out { .. }), Some(outs)) = (act, &self.outs) {
            // The receiver may be gone.
            let _ = outs.send(());
        }
    }

    fn may_have_ended(&self) -> bool {
        self.ends_early
    }

    fn report(&self, kind: Kind, text: &str) {
        panic!("{kind}: {text}");
    }
}
