//! The model of `Sleep`, `Timeout` and `with_deadline`, each next to the real one. An `Interval` is
//! a sleep that is reset at each tick: `parity` compares it with tokio's.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures::future::{FutureExt, LocalBoxFuture};
use tickwheel::error::Elapsed;
use tickwheel::{Duration, Instant, Sleep, Timeout, Timer};

use super::clock::{At, Clock, FAR, Ticks, after};
use super::program::{Op, duration};
use super::waiter::{Expected, Waiter};
use crate::common::catch;
use crate::same;

/// What a moment allows: the time, and the line of the grid up to which the driver has surely
/// worked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: At,
    pub(crate) settled: u64,
    /// How often the driver had done all that there was to do.
    pub(crate) turns: u64,
}

/// How many timers a thing may hold in its timer now: at least, at most.
pub(crate) type Armed = (usize, usize);

/// A sleep, as its page describes it.
#[derive(Clone, Copy, Debug)]
struct Model {
    ticks: Ticks,
    due: At,
    /// When its deadline was set. One that had passed by then is ready at the first poll.
    set_at: At,
    was_touched: bool,
    has_elapsed: bool,
    is_armed: bool,
    /// The waker of the poll that was ready last, which a reset arms it for.
    kept: Option<usize>,
    /// It was armed, and has woken its waiter.
    has_fired: bool,
}

impl Model {
    fn new(ticks: Ticks, due: At, now: Now) -> Model {
        Model {
            ticks,
            due,
            set_at: now.at,
            was_touched: false,
            has_elapsed: false,
            is_armed: false,
            kept: None,
            has_fired: false,
        }
    }

    fn set(&mut self, due: At, now: Now) {
        let is_armed = self.is_armed && !self.has_fired || self.kept.is_some();
        *self = Model {
            was_touched: true,
            // What waits in the wheel is fired by the driver.
            is_armed,
            ..Model::new(self.ticks, due, now)
        };
    }

    fn has_surely_fired(&self, now: Now) -> bool {
        self.due < FAR && self.ticks.fires(self.due) <= now.settled
    }

    /// Whether a poll must be ready, and whether it may be.
    fn ready(&self, now: Now) -> (bool, bool) {
        let is_on_grid = self.ticks.is_ready(self.due, now.at);
        let may = is_on_grid || self.has_elapsed || self.has_fired;
        let was_due_when_set = self.due <= self.set_at && !self.is_armed;
        let was_missed = self.has_surely_fired(now);
        let must =
            self.has_elapsed || self.has_fired || was_missed || was_due_when_set && is_on_grid;
        (must, may)
    }

    /// Whether `is_elapsed` must be true, and whether it may be.
    fn elapsed(&self, now: Now) -> (bool, bool) {
        if !self.was_touched && !self.has_elapsed {
            return (false, false);
        }
        let is_on_grid = self.ticks.is_ready(self.due, now.at);
        (
            self.has_elapsed || self.has_fired || self.has_surely_fired(now),
            // A tick that begins between two lines may be turned before the next one.
            self.has_elapsed || is_on_grid || self.ticks.rounded(self.due) <= now.at,
        )
    }

    fn polled(&mut self, is_ready: bool) {
        self.was_touched = true;
        self.has_elapsed |= is_ready;
        self.is_armed = !is_ready;
        self.kept = None;
    }

    fn armed(&self, now: Now) -> Armed {
        let is_in = self.is_armed && !self.has_fired && !self.has_surely_fired(now);
        (usize::from(is_in && self.due > now.at), usize::from(is_in))
    }

    fn expected(&self, now: Now) -> Expected {
        Expected {
            may_from: self.is_armed.then_some(self.due),
            must: self.is_armed && self.has_surely_fired(now),
            by_line: self.ticks.fires(self.due),
            may_look: false,
        }
    }
}

/// The inner future of a timeout. It is ready when the program says so, and wakes no task.
pub(crate) type Gate = LocalBoxFuture<'static, ()>;

pub(crate) fn gate() -> (Gate, Rc<Cell<bool>>) {
    let is_open = Rc::new(Cell::new(false));
    let seen = is_open.clone();
    let poll = move |_: &mut Context<'_>| {
        if seen.get() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    };
    (poll_fn(poll).boxed_local(), is_open)
}

/// What the code within a deadline does, as seen from outside.
#[derive(Default)]
struct Within {
    /// When the timeout that it awaits is due.
    due: Cell<At>,
    /// What it was told that it should not have been.
    wrong: Cell<Option<String>>,
}

enum Real {
    Sleep(Sleep),
    Timeout(Timeout<Gate>, Rc<Cell<bool>>),
    WithDeadline(LocalBoxFuture<'static, Result<(), Elapsed>>, Rc<Within>),
}

impl Real {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Real::Sleep(sleep) => Pin::new(sleep).poll(cx),
            Real::Timeout(timeout, _) => Pin::new(timeout).poll(cx).map(drop),
            Real::WithDeadline(call, _) => call.as_mut().poll(cx).map(drop),
        }
    }
}

pub(crate) struct Sleeper {
    real: Real,
    model: Model,
    pub(crate) timer: usize,
    /// The timer of the timeouts within a deadline.
    pub(crate) inner_timer: usize,
    pub(crate) waiter: Waiter,
}

/// A timer of the program: which one, its ticks, its handle.
#[derive(Clone, Copy)]
pub(crate) struct On<'a> {
    pub(crate) number: usize,
    pub(crate) ticks: Ticks,
    pub(crate) timer: &'a Timer,
    pub(crate) clock: Clock,
}

impl On<'_> {
    fn sleeper(self, real: Real, due: At, now: Now) -> Sleeper {
        Sleeper {
            real,
            model: Model::new(self.ticks, due, now),
            timer: self.number,
            inner_timer: self.number,
            waiter: Waiter::new(self.clock),
        }
    }

    pub(crate) fn make(self, op: &Op, now: Now) -> Option<Sleeper> {
        let from = |from_now| self.clock.from(now.at, from_now);
        let (real, due) = match *op {
            Op::Sleep(_, micros) => {
                let duration = duration(micros);
                let sleep = self.timer.sleep(duration);
                (Real::Sleep(sleep), after(now.at, duration))
            }
            Op::SleepUntil(_, from_now) => {
                let (due, deadline) = from(from_now);
                (Real::Sleep(self.timer.sleep_until(deadline)), due)
            }
            Op::Timeout(_, micros) => {
                let (duration, (gate, is_open)) = (duration(micros), gate());
                let timeout = self.timer.timeout(duration, gate);
                (Real::Timeout(timeout, is_open), after(now.at, duration))
            }
            Op::TimeoutAt(_, from_now) => {
                let ((due, deadline), (gate, is_open)) = (from(from_now), gate());
                let timeout = self.timer.timeout_at(deadline, gate);
                (Real::Timeout(timeout, is_open), due)
            }
            _ => return None,
        };
        Some(self.sleeper(real, due, now))
    }

    /// A deadline within which timeouts on another timer are tried again as each elapses.
    pub(crate) fn with_deadline(
        self,
        (due, deadline): (At, Instant),
        inner: On<'_>,
        each: Duration,
        now: Now,
    ) -> Sleeper {
        let within = Rc::new(Within::default());
        within.due.set(FAR);
        let clock = self.clock;
        let (timer, seen) = (inner.timer.clone(), within.clone());
        let future = async move {
            loop {
                let left = due.saturating_sub(clock.now());
                if tickwheel::current_deadline() != Some(deadline)
                    || tickwheel::time_left() != Some(Duration::from_nanos(left))
                {
                    seen.wrong.set(Some(format!(
                        "told {:?} of {left} ns that are left",
                        tickwheel::time_left()
                    )));
                }
                let own = after(clock.now(), each);
                seen.due.set(own.min(due));
                let _ = timer.timeout(each, pending::<()>()).await;
                if clock.now() < own.min(due) {
                    seen.wrong.set(Some("a timeout within is early".to_owned()));
                }
            }
        };
        let call = Box::pin(self.timer.with_deadline(deadline, future));
        Sleeper {
            inner_timer: inner.number,
            ..self.sleeper(Real::WithDeadline(call, within), due, now)
        }
    }
}

impl Sleeper {
    /// Returns whether it is over.
    pub(crate) fn poll(&mut self, which: usize, now: Now) -> Result<bool, String> {
        if let Real::WithDeadline(..) = self.real {
            return self.poll_with_deadline(which, now);
        }
        let (must, may) = self.model.ready(now);
        let is_open = matches!(&self.real, Real::Timeout(_, is_open) if is_open.get());
        let due = self.model.due;
        let mut told = None;
        let real = &mut self.real;
        let polled = self.waiter.poll(which, |cx| match real {
            Real::Timeout(timeout, _) => {
                let polled = Pin::new(timeout).poll(cx);
                polled.map(|output| told = Some(output.is_ok()))
            }
            _ => real.poll(cx),
        });
        match (polled.is_ready(), is_open) {
            (true, true) if told == Some(true) => return Ok(true),
            (true, true) => return Err("the deadline won over what is ready".to_owned()),
            (false, true) => return Err("pending, though the inner future is ready".to_owned()),
            (true, false) if !may => {
                return Err(format!("ready {} ns early", due.saturating_sub(now.at)));
            }
            (false, false) if must => return Err("pending, though it is due".to_owned()),
            _ => {}
        }
        if told == Some(true) {
            return Err("a timeout tells an output that there is not".to_owned());
        }
        self.model.polled(polled.is_ready());
        if matches!(self.real, Real::Sleep(_)) && polled.is_ready() {
            self.model.kept = Some(which);
        }
        if polled.is_pending() {
            self.model.has_fired = false;
        }
        Ok(false)
    }

    /// Polls as a task does: again for as long as it wakes itself.
    fn poll_with_deadline(&mut self, which: usize, now: Now) -> Result<bool, String> {
        let Real::WithDeadline(call, within) = &mut self.real else {
            unreachable!("only for those with a deadline");
        };
        for _ in 0..10 {
            self.waiter.forget_wakes(which);
            let polled = self.waiter.poll(which, |cx| call.as_mut().poll(cx));
            if let Some(wrong) = within.wrong.take() {
                return Err(wrong);
            }
            let (must, _) = self.model.ready(now);
            match polled {
                Poll::Ready(_) if now.at < self.model.due => {
                    return Err("a deadline ends early".to_owned());
                }
                Poll::Ready(Ok(())) => unreachable!("the future within never ends"),
                Poll::Ready(Err(Elapsed { .. })) => return Ok(true),
                Poll::Pending if self.waiter.forget_wakes(which) > 0 => {}
                Poll::Pending if must => return Err("a deadline goes on after its end".to_owned()),
                Poll::Pending => {
                    self.model.polled(false);
                    return Ok(false);
                }
            }
        }
        Err("a deadline spins".to_owned())
    }

    /// `None` where a poll may be ready without a budget.
    pub(crate) fn poll_spent(&mut self) -> Option<Result<usize, String>> {
        let Sleeper { real, waiter, .. } = self;
        match real {
            Real::Timeout(_, is_open) if is_open.get() => return None,
            Real::WithDeadline(..) => return None,
            _ => {}
        }
        Some(waiter.poll_spent(|cx| real.poll(cx)))
    }

    pub(crate) fn finish(&mut self) {
        if let Real::Timeout(_, is_open) = &self.real {
            is_open.set(true);
        }
    }

    pub(crate) fn reset_at(&mut self, (due, deadline): (At, Instant), now: Now) {
        if let Real::Sleep(sleep) = &mut self.real {
            sleep.reset_at(deadline);
            self.set(due, now);
        }
    }

    pub(crate) fn reset_after(&mut self, duration: Duration, now: Now) {
        if let Real::Sleep(sleep) = &mut self.real {
            sleep.reset_after(duration);
            self.set(after(now.at, duration), now);
        }
    }

    fn set(&mut self, due: At, now: Now) {
        if let Some(which) = self.model.kept {
            self.waiter.register(which);
        }
        self.model.set(due, now);
    }

    /// What can be asked at any time.
    pub(crate) fn ask(&self, now: Now, clock: Clock) -> Result<(), String> {
        let Real::Sleep(sleep) = &self.real else {
            return Ok(());
        };
        let (told, due) = (clock.at(sleep.deadline()), self.model.due);
        same("deadline", told.min(FAR), due.min(FAR))?;
        let (must, may) = self.model.elapsed(now);
        let is_elapsed = sleep.is_elapsed();
        if is_elapsed && !may {
            Err("tells that it has elapsed, early".to_owned())
        } else if !is_elapsed && must {
            Err("tells that it has not elapsed".to_owned())
        } else {
            Ok(())
        }
    }

    pub(crate) fn check(&mut self, now: Now, ran_from: Option<u64>) -> Result<(), String> {
        let mut expected = self.model.expected(now);
        if let Real::WithDeadline(_, within) = &self.real {
            let due = within.due.get();
            expected.may_look = due <= now.at;
            expected.may_from = Some(due);
        }
        if self.waiter.check(expected, ran_from)? {
            self.model.has_fired = !matches!(self.real, Real::WithDeadline(..));
        }
        Ok(())
    }

    /// When its runtime is gone, one that waits was woken, and a poll panics if it is not due.
    pub(crate) fn after_shutdown(&mut self, now: Now) -> Result<(), String> {
        self.waiter.must_hear_of_the_end()?;
        // No line of the grid comes any more.
        let may = self.model.ready(now).1 || self.model.due <= now.at;
        let is_open = matches!(&self.real, Real::Timeout(_, is_open) if is_open.get());
        let (real, waiter) = (&mut self.real, &mut self.waiter);
        let mut poll = || {
            let polled = waiter.poll(0, |cx| real.poll(cx));
            (polled, waiter.forget_wakes(0) > 0)
        };
        // A first poll may find the end only as it arms, and wakes the task then.
        let polled = catch(|| match poll() {
            (Poll::Pending, true) => poll().0,
            (polled, _) => polled,
        });
        match polled {
            Ok(Poll::Ready(())) if may || is_open => Ok(()),
            Ok(Poll::Ready(())) => Err("ready early, as its runtime is gone".to_owned()),
            Ok(Poll::Pending) => Err("pending, though its runtime is gone".to_owned()),
            Err(_) if is_open || self.model.has_elapsed => {
                Err("panics, though it is ready".to_owned())
            }
            Err((message, _)) if message.contains("shut") => Ok(()),
            Err((message, _)) => Err(message),
        }
    }

    /// How many timers it has in its timer, and in that of the timeouts within.
    pub(crate) fn armed(&self, now: Now) -> (Armed, Armed) {
        let (least, most) = self.model.armed(now);
        if !matches!(self.real, Real::WithDeadline(..)) {
            return ((least, most), (0, 0));
        }
        let least = if self.model.due > now.at { least } else { 0 };
        ((least, most), (0, self.model.is_armed.into()))
    }

    /// When it makes time run, if it does: at the latest up to this line of the grid.
    pub(crate) fn runs_to(&self, now: Now) -> Option<(u64, At)> {
        let (own, within) = self.armed(now);
        // A timeout within may be on a timer whose tick is longer, of 100 ms at most.
        let last = self.model.ticks.fires(self.model.due) + 100 * within.1 as u64;
        (own.1 + within.1 > 0).then_some((last, self.model.due))
    }
}
