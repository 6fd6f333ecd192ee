//! A lone [`Deadline`](tickwheel::Deadline), whose handles are used from everywhere at once.

use std::sync::Arc;

use tickwheel::ResetHandle;
use tickwheel::error::Cancelled;
use tokio::time::{Duration, Instant};

use super::{Lengths, Pace};
use crate::life::{Act, Call, Due, Outcome, Rules, timed};
use crate::program::{Clock, Program};
use crate::record::{Record, Subject};
use crate::wait::{Latest, Wait};
use crate::world::Place;

pub fn outcome(result: Result<(), Cancelled>) -> Outcome {
    match result {
        Ok(()) => Outcome::Elapsed,
        Err(cancelled) if cancelled.is_replaced() => Outcome::Replaced,
        Err(cancelled) if cancelled.is_drained() => Outcome::Drained,
        Err(cancelled) if cancelled.is_shutdown() => Outcome::Shutdown,
        Err(_) => Outcome::Cancelled,
    }
}

pub fn waits(what: &'static str, latest: &Latest, handle: &ResetHandle, clock: &Clock) -> Wait {
    let (latest, handle, timer) = (latest.clone(), handle.clone(), clock.timer.clone());
    Wait {
        what,
        due: Box::new(move || Some(latest.get())),
        state: Box::new(move || format!("{handle:?}, {:?}", timer.metrics())),
    }
}

/// What the latest due may be after a call that comes, with room for the timeouts of others.
pub fn push(latest: &Latest, clock: &Clock, act: Act) {
    latest.push(Instant::now() + LONGEST + 2 * clock.tick);
    if let Act::Extend(by) = act {
        latest.extend(by + clock.tick);
    }
}

pub const LONGEST: Duration = Duration::from_millis(301);

/// A call on a handle or by a key, whatever it is made on.
pub fn random_call(random: &mut fastrand::Rng, lengths: Lengths, latest: &Latest) -> Act {
    let length = lengths.draw(random);
    // Not for ever.
    let may_extend = latest.get() < Instant::now() + 2 * LONGEST;
    match random.u8(..32) {
        0 | 1 if may_extend => Act::Extend(length),
        0..9 => Act::Reset,
        9..12 => Act::ResetFrom(match random.bool() {
            true => Instant::now() + length,
            false => Instant::now() - length,
        }),
        12..17 => Act::Set(Due::After(length)),
        17..21 => Act::Set(Due::At(Instant::now() + length)),
        21..23 => Act::SetTimeout(length),
        23 => Act::Expire,
        24 => Act::Cancel,
        _ => Act::Look,
    }
}

/// Makes a call on a handle.
pub fn call(handle: &ResetHandle, act: Act, variant: bool) -> bool {
    match act {
        Act::Set(Due::After(delay)) => handle.reset_after(delay),
        Act::Set(Due::At(instant)) => handle.reset_at(instant),
        Act::SetTimeout(timeout) => handle.set_timeout(timeout),
        Act::Extend(by) => handle.extend(by),
        Act::ResetFrom(since) => handle.reset_from(since),
        Act::Expire => handle.expire(),
        Act::Cancel => handle.cancel(),
        Act::Look if variant => handle.is_pending(),
        Act::Look => handle.deadline().is_some(),
        _ => handle.reset(),
    }
}

pub async fn run(program: Arc<Program>, mut random: fastrand::Rng) {
    let lengths = Lengths::random(&mut random);
    let clock = program.clocks[random.usize(..program.clocks.len())].clone();
    let subject = Subject {
        map: program.new_map(Rules::Deadline, &clock),
        key: 0,
    };
    let latest = Latest::new(Instant::now());
    let timeout = lengths.draw(&mut random);
    let (deadline, made) = timed(|| clock.timer.deadline(timeout));
    let handle = deadline.handle();
    let mut kept = Kept::new(&program, subject, deadline, ());
    kept.begin(program.new_life(), Due::After(timeout), (true, made));
    push(&latest, &clock, Act::Reset);
    for _ in 0..random.u8(..4) {
        let (mut random, handle) = (random.fork(), handle.clone());
        let (latest, clock, program_, place) = (
            latest.clone(),
            clock.clone(),
            program.clone(),
            Place::random(&mut random, program.runtimes.len()),
        );
        program.start(place, async move {
            let (mut record, pace) = (program_.record(), Pace::random(&mut random));
            let mut rounds = 0;
            while program_.is_busy() && rounds < 20_000 {
                rounds += 1;
                let act = random_call(&mut random, lengths, &latest);
                push(&latest, &clock, act);
                let variant = random.bool();
                record.keep(subject, act, timed(|| call(&handle, act, variant)));
                pace.rest(&mut random).await;
            }
        });
    }
    loop {
        let wait = waits("a deadline", &latest, &handle, &clock);
        let waiting = Box::pin(kept.ended());
        let Some(back) = program.wait(&mut random, &clock, wait, waiting).await else {
            return;
        };
        kept = back;
        if !program.is_busy() {
            return;
        }
        let timeout = handle.timeout();
        let ((), again) = timed(|| kept.deadline().restart());
        // Somebody may have changed the timeout meanwhile. Then it is not known.
        let is_known = handle.timeout() == timeout;
        let timeout = if is_known { timeout } else { Duration::ZERO };
        kept.begin(program.new_life(), Due::After(timeout), (true, again));
        push(&latest, &clock, Act::Reset);
    }
}

/// A deadline of any kind, with the record of its lives. It keeps when it was dropped, too.
///
/// What it keeps alive is dropped after the deadline.
pub struct Kept<D, A> {
    deadline: Option<D>,
    _alive: A,
    record: Record,
    subject: Subject,
    life: u64,
}

impl<D: Future<Output = Result<(), Cancelled>> + Unpin, A> Kept<D, A> {
    pub fn new(program: &Program, subject: Subject, deadline: D, alive: A) -> Kept<D, A> {
        Kept {
            deadline: Some(deadline),
            _alive: alive,
            record: program.record(),
            subject,
            life: 0,
        }
    }

    /// Begins a life. The answer of the call says whether it may have ended another one.
    pub fn begin(&mut self, life: u64, due: Due, call: (bool, Call)) {
        self.life = life;
        self.keep(Act::Begin(due), call);
    }

    /// Keeps a call on the life of now.
    pub fn keep(&mut self, act: Act, answer: (bool, Call)) {
        let (subject, life) = (self.subject, self.life);
        self.record.keep_answer_of(subject, life, act, answer);
    }

    pub fn deadline(&mut self) -> &mut D {
        self.deadline.as_mut().expect("it was not dropped")
    }

    /// Waits for the outcome and keeps it.
    pub async fn ended(mut self) -> Kept<D, A> {
        let result = self.deadline().await;
        let ((), ended) = timed(|| {});
        self.keep(Act::End(outcome(result)), (true, ended));
        self
    }
}

impl<D, A> Drop for Kept<D, A> {
    fn drop(&mut self) {
        let ((), dropped) = timed(|| drop(self.deadline.take()));
        let (subject, life) = (self.subject, self.life);
        self.record.keep_of(subject, life, Act::Take, dropped);
    }
}
