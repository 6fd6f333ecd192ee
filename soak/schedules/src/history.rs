//! The history of a schedule: its calls, by the keys that they were made on, and the tasks that
//! were woken. The soak's checker checks it.

use std::collections::BTreeMap;
use std::time::Duration;

use tickwheel_soak_model::{self as model, Checked, Event, Outcome, Rules, check, latest_due};
use under_std::time::passed;

use crate::record::{Moment, Record, Span, last_held_up};
use crate::wait::Ready;
use crate::world::{MS, World, grace};

pub type Key = u8;
pub type Act = model::Act<Moment>;

/// A lone deadline is under this key.
pub const LONE: Key = 0;

pub fn after(delay: Duration) -> model::Due<Moment> {
    model::Due::After(delay)
}

#[derive(Clone)]
pub struct History {
    keys: Key,
    rules: Rules,
    /// One without a key was on all of them.
    calls: Record<(Option<Key>, Event<Moment>)>,
    /// The intervals whose ends were seen.
    ends: Record<(u64, Ready)>,
    /// The calls that have closed the map.
    closed: Record<Span>,
}

/// What all of it comes to.
pub struct CheckedHistory {
    /// The last moment at which something was called or due.
    pub last: Duration,
    /// The last moment at which something was called, or a thread was held up.
    pub over: Duration,
    pub intervals: Vec<Checked<Moment>>,
    pub calls: Vec<(Option<Key>, Event<Moment>)>,
}

impl History {
    pub fn new(rules: Rules, keys: Key) -> History {
        History {
            keys,
            rules,
            calls: Record::new(),
            ends: Record::new(),
            closed: Record::new(),
        }
    }

    /// Notes a call on whichever interval is under the key.
    pub fn note(&self, key: Option<Key>, act: Act, answer: bool, span: Span) {
        self.calls.push((key, event(act, 0, answer, span)));
    }

    pub fn note_of(&self, key: Key, interval: u64, act: Act, answer: bool, span: Span) {
        self.calls
            .push((Some(key), event(act, interval, answer, span)));
    }

    /// Notes the end of an interval that a task has waited for.
    pub fn note_end(&self, key: Key, interval: u64, ready: Ready) {
        self.note_of(key, interval, Act::End(ready.outcome), true, ready.span);
        self.ends.push((interval, ready));
    }

    pub fn note_close(&self, span: Span) {
        self.closed.push(span);
    }

    /// Whether a call that closes the map has returned.
    pub fn is_closed(&self) -> bool {
        self.closed.any(|_| true)
    }

    /// Nothing goes into a map that is closed, and nothing comes out.
    pub fn assert_open(&self, interval: u64, span: &Span) {
        let is_closed = self.closed.any(|closed| closed.is_before(span));
        assert!(!is_closed, "{interval} in a closed map: {span:?}");
    }

    pub fn count(&self, is_it: fn(&Act) -> bool) -> usize {
        self.calls.count(|(_, event)| is_it(&event.act))
    }

    pub fn check(&self, world: &World) -> CheckedHistory {
        let (calls, ends) = (self.calls.take(), self.ends.take());
        let mut by_key = BTreeMap::<Key, Vec<Event<Moment>>>::new();
        for (key, event) in &calls {
            let is_vague = key.is_none();
            for key in key.map_or(0..self.keys, |key| key..key + 1) {
                let event = Event { is_vague, ..*event };
                by_key.entry(key).or_default().push(event);
            }
        }
        // The runtime may have ended at any moment.
        let shutdown = world.ends_early.then_some(Moment::of(Duration::ZERO));
        let shutdown = shutdown.filter(|_| self.rules == Rules::Deadline);
        let mut intervals = Vec::new();
        for mut events in by_key.into_values() {
            intervals.extend(check(&mut events, self.rules, shutdown, |kind, text| {
                panic!("{kind}: {text}: {calls:#?}")
            }));
        }
        // A deadline that was awaited keeps no clock busy after its end.
        let is_call = |event: &&Event<Moment>| {
            let is_end = matches!(event.act, Act::End(_) | Act::Take);
            let is_awaited = || ends.iter().any(|(interval, _)| *interval == event.interval);
            self.rules == Rules::Value || !(is_end && is_awaited())
        };
        let called = calls.iter().map(|(_, event)| event).filter(is_call);
        let called = called.map(|event| event.call.after.at);
        let over = called.fold(last_held_up(), Duration::max);
        // Only a deadline may live on after a stall.
        let grace = |now| match self.rules {
            Rules::Deadline => grace(world.tick, now),
            Rules::Value => Duration::ZERO,
        };
        let mut last = over;
        for interval in &intervals {
            let (due, slack) = match interval.outcome {
                Some(Outcome::Out { due, .. }) => (due.at, world.tick + MS),
                Some(Outcome::Elapsed) if !interval.is_expired_by_call => (
                    latest_due(&interval.moves, world.tick).at,
                    world.tick + 3 * MS,
                ),
                _ => continue,
            };
            last = last.max(over.max(due) + grace(passed()));
            let end = ends.iter().find(|(number, _)| *number == interval.interval);
            let woken = end.and_then(|(_, ready)| ready.woken);
            if let (true, Some((since, woken))) = (world.is_punctual, woken) {
                let in_time = over.max(since).max(due) + slack + grace(woken);
                assert!(woken <= in_time, "late: {end:#?}, due {due:?}: {calls:#?}");
            }
        }
        CheckedHistory {
            last,
            over,
            intervals,
            calls,
        }
    }
}

fn event(act: Act, interval: u64, answer: bool, span: Span) -> Event<Moment> {
    Event {
        call: span.call(),
        act,
        interval,
        answer,
        is_vague: false,
    }
}
