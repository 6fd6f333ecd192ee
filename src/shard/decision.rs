//! What becomes of a pending deadline: pure functions of its due, the end of its grace, its timeout
//! and the time.
//!
//! A turn, a poll and a call on a handle decide alike, so the answer is the same whichever comes
//! first. Each asks under the shard's lock, and [`LockedWord`](super::word::LockedWord) carries the
//! decision out by one exchange.
//!
//! Invariants:
//!
//! - A deadline fires only if it is due and no stall spares it.
//! - A call that can only postpone a deadline never ends one in its grace.
//! - What fires is not changed any more.

use std::time::Duration;

use crate::clock::tick::{Moment, Tick, TickLength};

/// What is decided on a pending deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is due since this tick, and expires.
    Fire(Tick),
    /// It is due at this tick, which has yet to come.
    Reschedule(Tick),
    /// It is due, but in the grace of a stall, which ends at this tick.
    Spare(Tick),
}

/// A call on a handle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Its timeout after this moment, or after now if earlier. Never earlier than its due.
    ResetFrom(Moment),
    /// This moment, earlier or later. A past moment expires the deadline.
    MoveTo(Moment),
    /// This much later; in a grace, this much after now.
    Extend(Duration),
    /// Sets the timeout, and makes the deadline due that long after now if it is due later.
    SetTimeout(Duration),
}

/// What a call finds, and what it makes of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The decision without the call. If it is to fire, the call comes too late.
    pub(crate) found: Decision,
    /// When the deadline was due before the call.
    pub(crate) from: Tick,
    /// When it is due from now on, unless it fires.
    pub(crate) to: Tick,
    /// The decision after the call.
    pub(crate) made: Decision,
}

impl Changed {
    /// For a call that comes too late, because the deadline fires.
    pub(crate) fn too_late(found: Decision) -> Option<Changed> {
        let Decision::Fire(due) = found else {
            return None;
        };
        Some(Changed {
            found,
            from: due,
            to: due,
            made: found,
        })
    }
}

impl Decision {
    /// On a deadline with this due. `grace_end` is asked only once that has come.
    #[inline]
    pub(crate) fn on(
        due: Tick,
        present: Tick,
        grace_end: impl FnOnce() -> Option<Tick>,
    ) -> Decision {
        if due > present {
            return Decision::Reschedule(due);
        }
        match grace_end() {
            Some(end) => Decision::Spare(end),
            None => Decision::Fire(due),
        }
    }
}

impl Change {
    /// What the call makes of a deadline that is pending at `now`. `grace_end` returns when the
    /// grace of a due ends under a timeout, if it has one.
    pub(crate) fn decide(
        self,
        due: Tick,
        timeout: Duration,
        now: Moment,
        tick: TickLength,
        grace_end: impl Fn(Tick, Duration) -> Option<Tick>,
    ) -> Changed {
        let present = tick.current(now);
        let decide = |due, timeout| Decision::on(due, present, || grace_end(due, timeout));
        let found = decide(due, timeout);
        let changed = |to, made| Changed {
            found,
            from: due,
            to,
            made,
        };
        if let Decision::Fire(_) = found {
            return changed(due, found);
        }
        let due_after = |from: Moment, delay| tick.due(from.after(delay));
        // A grace also covers a due shortly after the stall.
        let not_in_grace = |to: Tick| to.max(grace_end(due, timeout).unwrap_or(due));
        let to = match self {
            Change::ResetFrom(since) => {
                let to = due_after(since.min(now), timeout);
                if to > due { not_in_grace(to) } else { due }
            }
            Change::MoveTo(moment) if moment <= now => return changed(due, Decision::Fire(due)),
            Change::MoveTo(moment) => tick.due(moment),
            Change::Extend(by) => {
                let is_spared = matches!(found, Decision::Spare(_));
                let from = if is_spared { now } else { tick.start_of(due) };
                not_in_grace(due_after(from, by))
            }
            Change::SetTimeout(timeout) => due.min(due_after(now, timeout)),
        };
        // A shorter timeout may end a grace.
        changed(to, decide(to, self.timeout().unwrap_or(timeout)))
    }

    /// The timeout that the call sets, if it sets one.
    pub(crate) fn timeout(self) -> Option<Duration> {
        match self {
            Change::SetTimeout(timeout) => Some(timeout),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Change::{Extend, MoveTo, ResetFrom, SetTimeout};
    use Decision::{Fire, Reschedule, Spare};

    const ZERO: Duration = Duration::ZERO;
    const MS: Duration = Duration::from_millis(1);

    /// The time of each call, in milliseconds.
    const NOW: u32 = 1_000;

    fn at(ms: u32) -> Moment {
        Moment::after_epoch(ms * MS)
    }

    /// A stall until 990 ms moves what was due from 900 to 1,090 ms by 90 ms: to 1,090 ms at the
    /// earliest, and by the timeout after it at the latest.
    fn grace_end(due: Tick, timeout: Duration) -> Option<Tick> {
        let (due, latest) = (due.get(), 990 + timeout.as_millis() as u64);
        let end = (due + 90).max(1_090).min(latest);
        ((900..=1_090).contains(&due) && end > due && end > NOW.into()).then(|| Tick::new(end))
    }

    struct Case {
        due: Tick,
        timeout: Duration,
        change: Change,
        expected: Changed,
    }

    /// Each line has the due, the timeout and the call, in milliseconds. Then come the decision
    /// that it finds, the new due, and the decision that it makes.
    macro_rules! cases {
        ($(
            $due:literal, $timeout:literal, $change:expr =>
            $found:ident($found_at:literal), $to:literal, $made:ident($made_at:literal);
        )+) => {
            [$(Case {
                due: Tick::new($due),
                timeout: $timeout * MS,
                change: $change,
                expected: Changed {
                    found: $found(Tick::new($found_at)),
                    from: Tick::new($due),
                    to: Tick::new($to),
                    made: $made(Tick::new($made_at)),
                },
            }),+]
        };
    }

    #[test]
    fn a_call_decides_by_due_grace_timeout_and_now() {
        let cases = cases! {
            // Not due: a reset counts from the call or from before it, and moves nothing earlier.
            1_300, 500, ResetFrom(Moment::MAX) => Reschedule(1_300), 1_500, Reschedule(1_500);
            1_300, 500, ResetFrom(at(900))     => Reschedule(1_300), 1_400, Reschedule(1_400);
            1_300, 500, ResetFrom(at(700))     => Reschedule(1_300), 1_300, Reschedule(1_300);
            1_300, 500, ResetFrom(at(0))       => Reschedule(1_300), 1_300, Reschedule(1_300);
            // A move goes either way. To the past, it ends the deadline.
            1_300, 500, MoveTo(at(1_800))      => Reschedule(1_300), 1_800, Reschedule(1_800);
            1_300, 500, MoveTo(at(1_001))      => Reschedule(1_300), 1_001, Reschedule(1_001);
            1_300, 500, MoveTo(at(1_000))      => Reschedule(1_300), 1_300, Fire(1_300);
            1_300, 500, MoveTo(at(5))          => Reschedule(1_300), 1_300, Fire(1_300);
            // An extension counts from the due.
            1_300, 500, Extend(200 * MS)       => Reschedule(1_300), 1_500, Reschedule(1_500);
            1_300, 500, Extend(ZERO)           => Reschedule(1_300), 1_300, Reschedule(1_300);
            // A timeout moves only what is due after it.
            1_300, 500, SetTimeout(100 * MS)   => Reschedule(1_300), 1_100, Reschedule(1_100);
            1_300, 500, SetTimeout(400 * MS)   => Reschedule(1_300), 1_300, Reschedule(1_300);
            1_300, 500, SetTimeout(ZERO)       => Reschedule(1_300), 1_000, Fire(1_000);
            // Due before the stall: too late for any call.
            899,   500, ResetFrom(Moment::MAX) => Fire(899),         899,   Fire(899);
            899,   500, MoveTo(at(1_800))      => Fire(899),         899,   Fire(899);
            899,   500, Extend(200 * MS)       => Fire(899),         899,   Fire(899);
            899,   500, SetTimeout(900 * MS)   => Fire(899),         899,   Fire(899);
            // Due within the stall, but its grace has ended with its timeout.
            950,   10,  ResetFrom(Moment::MAX) => Fire(950),         950,   Fire(950);
            950,   10,  SetTimeout(500 * MS)   => Fire(950),         950,   Fire(950);
            // Spared: a reset to before the end of the grace keeps that end.
            950,   500, ResetFrom(Moment::MAX) => Spare(1_090),      1_500, Reschedule(1_500);
            950,   500, ResetFrom(at(560))     => Spare(1_090),      1_090, Reschedule(1_090);
            950,   500, ResetFrom(at(450))     => Spare(1_090),      950,   Spare(1_090);
            // A move does not.
            950,   500, MoveTo(at(1_010))      => Spare(1_090),      1_010, Reschedule(1_010);
            950,   500, MoveTo(at(1_000))      => Spare(1_090),      950,   Fire(950);
            // In a grace an extension counts from now, and does not end it.
            950,   500, Extend(200 * MS)       => Spare(1_090),      1_200, Reschedule(1_200);
            950,   500, Extend(20 * MS)        => Spare(1_090),      1_090, Reschedule(1_090);
            // A timeout leaves a grace, shortens it, or ends it.
            950,   500, SetTimeout(900 * MS)   => Spare(1_090),      950,   Spare(1_090);
            950,   500, SetTimeout(50 * MS)    => Spare(1_090),      950,   Spare(1_040);
            950,   500, SetTimeout(10 * MS)    => Spare(1_090),      950,   Fire(950);
            950,   500, SetTimeout(ZERO)       => Spare(1_090),      950,   Fire(950);
            // Not due, but shortly after the stall, so that a grace is to come.
            1_050, 500, ResetFrom(at(560))     => Reschedule(1_050), 1_140, Reschedule(1_140);
            1_050, 500, ResetFrom(at(550))     => Reschedule(1_050), 1_050, Reschedule(1_050);
            1_050, 500, Extend(20 * MS)        => Reschedule(1_050), 1_140, Reschedule(1_140);
            1_050, 500, Extend(100 * MS)       => Reschedule(1_050), 1_150, Reschedule(1_150);
            1_050, 500, MoveTo(at(1_060))      => Reschedule(1_050), 1_060, Reschedule(1_060);
        };
        let tick = TickLength::new(MS).unwrap();
        for case in cases {
            let (due, timeout, change) = (case.due, case.timeout, case.change);
            let changed = change.decide(due, timeout, at(NOW), tick, grace_end);
            let call = format!("{change:?}, due {due:?}, timeout {timeout:?}");
            assert_eq!(changed, case.expected, "{call}");
        }
    }

    /// To ask takes a lock.
    #[test]
    fn a_deadline_that_is_not_due_is_not_asked_for_its_grace() {
        let tick = TickLength::new(MS).unwrap();
        let no_grace = |_, _| panic!("not asked");
        for change in [MoveTo(at(1_200)), ResetFrom(at(0)), SetTimeout(100 * MS)] {
            let due = Tick::new(1_300);
            let changed = change.decide(due, 500 * MS, at(NOW), tick, no_grace);
            assert_eq!(changed.found, Reschedule(due));
        }
    }
}
