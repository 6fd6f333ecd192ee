//! The history of a schedule: its calls, by the keys that they were made on, and the tasks that
//! were woken. The soak's checker checks it.

use std::collections::BTreeMap;
use std::time::Duration;

use tickwheel_soak_model::{self as model, Checked, Event, Outcome, Rules, check, latest_due};
use under_std::time::passed;

use crate::programs::{Key, Seen};
use crate::record::{Moment, Record, Span, last_held_up};
use crate::wait::Ready;
use crate::world::{MS, World, grace};

pub type Act = model::Act<Moment>;

/// Since when a task had waited, and when it was woken.
type Woken = Option<[Moment; 2]>;

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
    ends: Record<(u64, Woken)>,
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
        }
    }

    pub fn note_of(&self, key: Key, interval: u64, act: Act, answer: bool, span: Span) {
        let seen = span.call().into();
        self.note_seen(Some(key), interval, act, answer, seen);
    }

    /// Notes the end of an interval that a task has waited for.
    pub fn note_end(&self, key: Key, interval: u64, ready: Ready) {
        let end = Act::End(ready.outcome);
        self.note_seen(Some(key), interval, end, true, ready.seen);
    }

    /// Notes a call. Interval 0 is any that may be under the key. Without a key it was on all keys.
    pub fn note_seen(
        &self,
        key: Option<Key>,
        interval: u64,
        act: Act,
        answer: bool,
        seen: Seen<Moment>,
    ) {
        let event = Event {
            call: seen.call,
            act,
            interval,
            answer,
            is_vague: false,
        };
        self.calls.push((key, event));
        if !matches!(act, Act::End(Outcome::Taken)) && matches!(act, Act::End(_)) {
            self.ends.push((interval, seen.woken));
        }
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
        let is_call = |event: &&Event<Moment>| match event.act {
            Act::End(_) | Act::Take if self.rules == Rules::Deadline => {
                !ends.iter().any(|(interval, _)| *interval == event.interval)
            }
            _ => true,
        };
        let is_out = |event: &&Event<Moment>| matches!(event.act, Act::End(Outcome::Out { .. }));
        let called = calls.iter().map(|(_, event)| event).filter(is_call);
        let after = |event: &Event<Moment>| event.call.after.at;
        let (outs, called): (Vec<_>, Vec<_>) = called.partition(is_out);
        // A value that came out late excuses no other.
        let over = called
            .into_iter()
            .map(after)
            .fold(last_held_up(), Duration::max);
        // Only a deadline may live on after a stall. All else waits for tasks alone.
        let wait = world.wait_after_a_stall();
        let grace = |now| match self.rules {
            Rules::Deadline => grace(world.tick, now),
            Rules::Value => wait,
        };
        let mut last = outs.into_iter().map(after).fold(over, Duration::max);
        for interval in &intervals {
            let (due, is_rounded) = match interval.outcome {
                Some(Outcome::Out { due, .. }) => (due.at, false),
                Some(Outcome::Elapsed) if !interval.is_expired_by_call => {
                    (latest_due(&interval.moves, world.tick).at, true)
                }
                _ => continue,
            };
            let ticks = if is_rounded { 1 } else { 2 };
            let slack = ticks * world.tick + 3 * MS;
            last = last.max(over.max(due) + grace(passed()));
            let end = ends.iter().find(|(number, _)| *number == interval.interval);
            let woken = end.and_then(|(_, woken)| *woken);
            if let (true, Some(woken)) = (world.is_punctual, woken) {
                let [since, woken] = woken.map(|moment| moment.at);
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
