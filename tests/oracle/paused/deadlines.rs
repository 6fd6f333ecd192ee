//! The model of `Deadline`, `ResetHandle` and `KeyedDeadline`, each next to the real one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tickwheel::error::Cancelled;
use tickwheel::{Deadline, DeadlineMap, Duration, KeyedDeadline, ResetHandle};

use super::clock::{At, Clock, FAR, MS, Ticks, after};
use super::program::{Call, duration};
use super::sleepers::{Armed, Now, On};
use super::waiter::{Expected, Waiter};
use crate::same;

/// How a deadline came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Expired,
    Cancelled,
    Replaced,
    Drained,
}

#[derive(Clone, Debug)]
struct Model {
    ticks: Ticks,
    timeout: Duration,
    /// The beginning of a tick.
    due: At,
    /// How often the driver had worked when it was made or restarted.
    turns: u64,
    end: Option<End>,
    /// It was brought to its end by a call, so its waiter has been woken by now.
    was_ended_by_a_call: bool,
    /// Since when its waiter may be woken although it is pending: it had passed, and was restarted.
    may_have_woken: bool,
}

impl Model {
    /// The first call that looks settles a deadline that has passed.
    fn look(&mut self, now: At) -> bool {
        if self.end.is_none() && self.due <= now {
            self.end = Some(End::Expired);
        }
        self.end.is_none()
    }

    fn settle(&mut self, now: At, end: End) -> bool {
        let was_pending = self.look(now);
        if was_pending {
            self.end = Some(end);
            self.was_ended_by_a_call = true;
        }
        was_pending
    }

    /// It may have been moved to a moment that has passed.
    fn move_to(&mut self, due: At, now: At) {
        self.due = due;
        if !self.look(now) {
            self.was_ended_by_a_call = true;
        }
    }

    /// The due of a deadline that counts its timeout from `now`.
    fn counted(&self, now: At) -> At {
        self.ticks.rounded(after(now, self.timeout))
    }

    fn reset(&mut self, since: At, now: At) -> bool {
        let was_pending = self.look(now);
        if was_pending {
            self.due = self.due.max(self.counted(since.min(now)));
        }
        was_pending
    }

    fn set(&mut self, due: At, now: At) -> bool {
        let was_pending = self.look(now);
        if was_pending {
            // An instant that has passed need not wait for a tick.
            self.move_to(
                if due <= now {
                    due
                } else {
                    self.ticks.rounded(due)
                },
                now,
            );
        }
        was_pending
    }

    fn set_timeout(&mut self, timeout: Duration, now: At) -> bool {
        let was_pending = self.look(now);
        self.timeout = timeout;
        if was_pending {
            self.move_to(self.due.min(self.counted(now)), now);
        }
        was_pending
    }

    /// The time that is left in whole milliseconds, without the excess over the timeout that
    /// rounding gives.
    fn left(&self, now: At) -> Duration {
        let left = Duration::from_millis(self.due.saturating_sub(now) / MS);
        if left < self.timeout.saturating_add(self.ticks.length()) {
            left.min(self.timeout)
        } else {
            left
        }
    }

    fn restart(&mut self, Now { at: now, turns, .. }: Now) {
        let due = self.counted(now);
        self.may_have_woken = !self.look(now);
        self.due = if self.may_have_woken {
            due
        } else {
            self.due.max(due)
        };
        self.turns = turns;
        self.end = None;
        self.was_ended_by_a_call = false;
    }

    fn has_surely_fired(&self, now: Now) -> bool {
        self.due < FAR && self.ticks.fires(self.due) <= now.settled && self.turns < now.turns
    }
}

enum Real {
    Plain(Deadline),
    Keyed(KeyedDeadline<u32>),
}

impl Real {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cancelled>> {
        match self {
            Real::Plain(deadline) => Pin::new(deadline).poll(cx),
            Real::Keyed(keyed) => Pin::new(keyed).poll(cx),
        }
    }
}

pub(crate) struct Timed {
    real: Real,
    model: Model,
    pub(crate) timer: usize,
    pub(crate) handle: ResetHandle,
    pub(crate) waiter: Waiter,
    /// While it is in the map.
    pub(crate) key: Option<u32>,
}

impl On<'_> {
    pub(crate) fn deadline(self, timeout: Duration, now: Now) -> Timed {
        let real = self.timer.deadline(timeout);
        let (handle, real) = (real.handle(), Real::Plain(real));
        self.timed((real, handle), timeout, now, None)
    }

    pub(crate) fn keyed(self, real: KeyedDeadline<u32>, timeout: Duration, now: Now) -> Timed {
        let key = Some(*real.key());
        let (handle, real) = (real.handle(), Real::Keyed(real));
        self.timed((real, handle), timeout, now, key)
    }

    fn timed(
        self,
        (real, handle): (Real, ResetHandle),
        timeout: Duration,
        now: Now,
        key: Option<u32>,
    ) -> Timed {
        let model = Model {
            ticks: self.ticks,
            timeout,
            due: self.ticks.rounded(after(now.at, timeout)),
            turns: now.turns,
            end: None,
            was_ended_by_a_call: false,
            may_have_woken: false,
        };
        Timed {
            real,
            model,
            timer: self.number,
            handle,
            waiter: Waiter::new(self.clock),
            key,
        }
    }
}

impl Timed {
    pub(crate) fn poll(&mut self, which: usize, now: Now) -> Result<(), String> {
        self.model.look(now.at);
        let polled = self.waiter.poll(which, |cx| self.real.poll(cx));
        let kind = |error: Cancelled| match (error.is_replaced(), error.is_drained()) {
            _ if error.is_shutdown() => Err("shut down"),
            (true, false) => Ok(End::Replaced),
            (false, true) => Ok(End::Drained),
            (false, false) => Ok(End::Cancelled),
            _ => Err("replaced and drained"),
        };
        let told = match polled {
            Poll::Pending => Ok(None),
            Poll::Ready(Ok(())) => Ok(Some(End::Expired)),
            Poll::Ready(Err(error)) => kind(error).map(Some),
        };
        if told != Ok(self.model.end) {
            let ahead = self.model.due.saturating_sub(now.at);
            return Err(format!(
                "polled {told:?}, not {:?}, {ahead} ns ahead",
                self.model.end
            ));
        }
        Ok(())
    }

    pub(crate) fn poll_spent(&mut self) -> Result<usize, String> {
        self.waiter.poll_spent(|cx| self.real.poll(cx))
    }

    /// Makes a call by its handle, or by its key in that map, where it has one.
    pub(crate) fn call(
        &mut self,
        call: Call,
        map: Option<&DeadlineMap<u32>>,
        now: Now,
        clock: Clock,
    ) -> Result<(), String> {
        let Timed { model, key, .. } = self;
        let by_key = map.zip(key.as_ref());
        // A call that a map has no name for: its key gives a handle first.
        let handle = match by_key {
            Some((map, key)) => map.handle(key).ok_or("the map has no handle")?,
            None => self.handle.clone(),
        };
        let (told, expected) = match call {
            Call::Reset => {
                let told = by_key.map_or_else(|| handle.reset(), |(map, key)| map.reset(key));
                (told, model.reset(now.at, now.at))
            }
            Call::ResetFrom(from_now) => {
                let (since, instant) = clock.from(now.at, from_now);
                let told = match by_key {
                    Some((map, key)) => map.reset_from(key, instant),
                    None => handle.reset_from(instant),
                };
                (told, model.reset(since, now.at))
            }
            Call::ResetAfter(micros) => {
                let delay = duration(micros);
                let told = handle.reset_after(delay);
                (told, model.set(after(now.at, delay), now.at))
            }
            Call::ResetAt(from_now) => {
                let (due, instant) = clock.from(now.at, from_now);
                (handle.reset_at(instant), model.set(due, now.at))
            }
            Call::Extend(micros) => {
                let told = handle.extend(duration(micros));
                let due = after(model.due, duration(micros));
                (told, model.set(due, now.at))
            }
            Call::SetTimeout(micros) => {
                let timeout = duration(micros);
                let told = handle.set_timeout(timeout);
                (told, model.set_timeout(timeout, now.at))
            }
            Call::Cancel => (handle.cancel(), model.settle(now.at, End::Cancelled)),
            Call::Expire => {
                let told = by_key.map_or_else(|| handle.expire(), |(map, key)| map.expire(key));
                (told, model.settle(now.at, End::Expired))
            }
        };
        same("it", told, expected)
    }

    /// What a call to its map does to it. Returns the time that it had left, if it was pending.
    pub(crate) fn end(&mut self, end: End, now: Now) -> Option<Duration> {
        let left = self.model.left(now.at);
        self.model.settle(now.at, end).then_some(left)
    }

    pub(crate) fn restart(&mut self, now: Now) {
        match &mut self.real {
            Real::Plain(deadline) => deadline.restart(),
            Real::Keyed(keyed) => keyed.restart(),
        }
        self.model.restart(now);
    }

    /// Handles that its map gives lead to it, and to no other.
    pub(crate) fn is_shown_by(&mut self, handles: &[ResetHandle], now: Now) -> Result<(), String> {
        let is_pending = self.model.look(now.at);
        let is_its = |handle: &ResetHandle| {
            handle.is_pending() == is_pending
                && handle.timeout() == self.model.timeout
                && handle.deadline() == self.handle.deadline()
        };
        same("a handle of the map", handles.iter().all(is_its), true)
    }

    /// What can be asked at any time. To ask is to look, so the program says when.
    pub(crate) fn ask(&mut self, now: Now, clock: Clock) -> Result<(), String> {
        let is_pending = self.model.look(now.at);
        let (told, left) = (self.handle.deadline(), self.handle.remaining());
        same("is_pending", self.handle.is_pending(), is_pending)?;
        same("timeout", self.handle.timeout(), self.model.timeout)?;
        let due = self.model.due;
        if due >= FAR {
            let is_far = told.is_some_and(|told| clock.at(told) >= FAR);
            return same("a far deadline", is_far, is_pending);
        }
        let told = told.map(|told| clock.at(told));
        same("deadline", told, is_pending.then_some(due))?;
        let expected = is_pending.then(|| self.model.left(now.at));
        same("remaining", left, expected)
    }

    pub(crate) fn check(&mut self, now: Now, ran_from: Option<u64>) -> Result<(), String> {
        let may_have_woken = std::mem::take(&mut self.model.may_have_woken);
        let is_over = self.model.end.is_some();
        let may_from = if self.model.was_ended_by_a_call || may_have_woken {
            0
        } else {
            self.model.due
        };
        let must = self.model.was_ended_by_a_call || self.model.has_surely_fired(now);
        self.waiter.check(
            Expected {
                may_from: Some(may_from),
                must: must && (is_over || self.model.due <= now.at),
                by_line: self.model.ticks.fires(self.model.due),
                may_look: false,
            },
            ran_from,
        )?;
        Ok(())
    }

    /// When its runtime is gone, one that waits was woken, and what was pending reports it.
    pub(crate) fn after_shutdown(&mut self, now: Now) -> Result<(), String> {
        self.waiter.must_hear_of_the_end()?;
        let was_pending = self.model.look(now.at);
        let Poll::Ready(told) = self.waiter.poll(0, |cx| self.real.poll(cx)) else {
            return Err("pending, though its runtime is gone".to_owned());
        };
        if told.is_err_and(|error| error.is_shutdown()) != was_pending {
            return Err(format!("its runtime is gone, and it tells {told:?}"));
        }
        same("reset after the end", self.handle.reset(), false)?;
        same("is_pending after the end", self.handle.is_pending(), false)?;
        self.restart(now);
        match self.waiter.poll(0, |cx| self.real.poll(cx)) {
            Poll::Ready(Err(error)) if error.is_shutdown() => Ok(()),
            told => Err(format!("restarted after the end, it tells {told:?}")),
        }
    }

    pub(crate) fn armed(&self, now: Now) -> Armed {
        let is_in = self.model.end.is_none() && !self.model.has_surely_fired(now);
        (
            usize::from(is_in && self.model.due > now.at),
            usize::from(is_in || self.model.end == Some(End::Expired) && !self.has_left(now)),
        )
    }

    /// Whether it has left its wheel, settled by a call or fired.
    fn has_left(&self, now: Now) -> bool {
        self.model.was_ended_by_a_call || self.model.has_surely_fired(now)
    }

    pub(crate) fn runs_to(&self, now: Now) -> Option<(u64, At)> {
        let due = self.model.due;
        (self.armed(now).1 > 0).then(|| (self.model.ticks.fires(due), due))
    }
}

/// A deadline that was dropped is over for its handles.
pub(crate) fn ask_dropped(handle: &ResetHandle) -> Result<(), String> {
    same("reset of a dropped deadline", handle.reset(), false)?;
    same("cancel of a dropped deadline", handle.cancel(), false)?;
    same("is_pending of a dropped", handle.is_pending(), false)?;
    same("deadline of a dropped one", handle.deadline(), None)
}
