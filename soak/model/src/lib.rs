//! A checker in the style of those for linearizability: could the calls on one deadline or one key
//! have given the answers and the outcome that a history records? The soak and the random schedules
//! share it.
//!
//! An *interval* is the time of one deadline or value, from the call that begins it to the one that
//! ends it. Each call took effect at one moment between the two readings of the clock around it. A
//! call *surely* found an interval if it lies wholly within it, and *possibly* if it overlaps it. A
//! call that may explain an outcome counts if it is possible, and one that rules it out only if it
//! is sure. So each violation that is reported is one, and the checks of what is early are exact.

mod dues;

use std::collections::HashMap;
use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use dues::standing;
pub use dues::{Move, Setting, earliest_due, latest_due, seen_by};

/// A reading of the clock. Of two that are not equal the greater one is later.
pub trait Time:
    Copy + Ord + fmt::Debug + Add<Duration, Output = Self> + Sub<Output = Duration>
{
}

impl<T> Time for T where
    T: Copy + Ord + fmt::Debug + Add<Duration, Output = T> + Sub<Output = Duration>
{
}

/// How long it is to `at` from `from`, or zero.
fn since<T: Time>(at: T, from: T) -> Duration {
    at.max(from) - from
}

/// The kinds of findings. The summary counts them by these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Early,
    LostWakeUp,
    TwoOutcomes,
    WrongAnswer,
    ValueLost,
    Counts,
    Memory,
    Panic,
    Lateness,
    Hang,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Early => "early",
            Kind::LostWakeUp => "lost wake-up",
            Kind::TwoOutcomes => "two outcomes",
            Kind::WrongAnswer => "wrong answer",
            Kind::ValueLost => "value lost",
            Kind::Counts => "counts",
            Kind::Memory => "memory",
            Kind::Panic => "panic",
            Kind::Lateness => "lateness",
            Kind::Hang => "hang",
        })
    }
}

/// The clock before and after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<T> {
    pub before: T,
    pub after: T,
}

/// When something is to be due.
#[derive(Clone, Copy, Debug)]
pub enum Due<T> {
    After(Duration),
    At(T),
}

impl<T: Time> Due<T> {
    /// Before this it must not fire.
    pub fn earliest(self, call: Call<T>) -> T {
        match self {
            Due::After(delay) => call.before + delay,
            Due::At(instant) => instant,
        }
    }

    /// The shortest and the longest timeout that it may give. The call reads the clock at any
    /// moment, so that an instant may be as near as it is at the end.
    fn timeouts(self, call: Call<T>) -> [Duration; 2] {
        match self {
            Due::After(delay) => [delay; 2],
            Due::At(instant) => [call.after, call.before].map(|now| since(instant, now)),
        }
    }

    /// From this on it may not sleep, rounding aside.
    pub fn latest(self, call: Call<T>) -> T {
        match self {
            Due::After(delay) => call.after + delay,
            Due::At(instant) => instant,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    Elapsed,
    Cancelled,
    Replaced,
    Drained,
    Shutdown,
    /// A value that left its map in another way than by the stream.
    Taken,
    /// A value that the stream gave, with the instant at which it was due by its own account, and
    /// how many came before it.
    Out {
        due: T,
        number: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub enum Act<T> {
    /// An interval begins, with this timeout. The answer says whether the call may have ended
    /// another one.
    Begin(Due<T>),
    /// However often it is moved, it is due when this has passed.
    Cap(Duration),
    /// Moves the due, earlier or later.
    Set(Due<T>),
    /// Moves the due to now plus the timeout, unless it is due later.
    Reset,
    /// As a reset, counted from then, or from now if that is earlier.
    ResetFrom(T),
    /// Later resets count it. Moves the due to now plus the timeout, unless it is due earlier.
    SetTimeout(Duration),
    /// Moves the due that much later.
    Extend(Duration),
    Expire,
    Cancel,
    /// Asks whether it is pending.
    Look,
    /// Asks whether it is there, pending or not.
    Find,
    /// Takes a deadline out of its map, and cancels it. `false` if it is not in the map.
    Remove,
    /// A drain gave the key.
    Drained,
    /// Ends whatever interval there is under the key.
    Take,
    End(Outcome<T>),
}

/// One call, as it was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Event<T> {
    pub call: Call<T>,
    pub act: Act<T>,
    /// The interval that it found, or zero if it is not known which was under the key.
    pub interval: u64,
    pub answer: bool,
    /// It was a call on all keys, and what it did to this one is not known.
    pub is_vague: bool,
}

/// What the answers mean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// `true` while it is pending, and its outcome is final.
    Deadline,
    /// `true` while it is pending, by the clock. From its due on it belongs to the stream. Only
    /// what finds or takes it sees it until it has come out.
    Value,
}

/// What is known of an interval that was checked.
pub struct Checked<T> {
    pub interval: u64,
    pub outcome: Option<Outcome<T>>,
    /// What may have moved its due. The first of them began it.
    pub moves: Vec<Move<T>>,
    /// A call has surely expired it.
    pub is_expired_by_call: bool,
    /// What came out of the stream.
    out: Option<Out<T>>,
}

/// A value that the stream gave.
pub struct Out<T> {
    pub number: usize,
    /// When the poll began that gave it.
    polled: T,
    due: T,
    /// From when on nothing can have moved it.
    set: T,
}

/// Checks the history of one deadline or one key. `shutdown` is when the end of its runtime began.
pub fn check<T: Time>(
    events: &mut [Event<T>],
    rules: Rules,
    shutdown: Option<T>,
    mut report: impl FnMut(Kind, String),
) -> Vec<Checked<T>> {
    let mut checked = Vec::new();
    events.sort_by_key(|event| event.call.before);
    let events = &*events;
    let Some(longest) = events.iter().map(|e| e.call.after - e.call.before).max() else {
        return checked;
    };
    let ends: HashMap<u64, &Event<T>> = events
        .iter()
        .filter(|event| event.interval != 0 && matches!(event.act, Act::End(_) | Act::Take))
        .map(|event| (event.interval, event))
        .rev()
        .collect();
    let mut times = HashMap::<u64, usize>::new();
    for end in events
        .iter()
        .filter(|event| matches!(event.act, Act::End(_)))
    {
        *times.entry(end.interval).or_default() += 1;
    }
    for begin in events {
        if let Act::Begin(due) = begin.act {
            let end = ends.get(&begin.interval).copied();
            let last = end.map(|end| end.call.after);
            let from =
                events.partition_point(|e| since(begin.call.before, e.call.before) > longest);
            let to = last.map_or(events.len(), |last| {
                events.partition_point(|event| event.call.before <= last)
            });
            let interval = Interval::new(&events[from..], to - from, begin, due, end, rules);
            interval.check(rules, shutdown, &mut report);
            if rules == Rules::Value {
                let times = times.get(&begin.interval).copied().unwrap_or(0);
                interval.check_once(times, events, &mut report);
            }
            checked.push(interval.checked());
        }
    }
    report_unknown(events, rules, report);
    checked
}

/// Values come out in the order of their ticks. One that was due earlier by two ticks or more,
/// and was set before the poll that gave a later one, should have come first. What was due when it
/// was set counts from then, and from the beginning of the tick. Looks at the last few before each.
pub fn check_order<T: Time>(
    intervals: impl IntoIterator<Item = Checked<T>>,
    tick: Duration,
    report: impl FnMut(Kind, String),
) {
    let outs = intervals.into_iter().filter_map(|interval| interval.out);
    check_order_of(&mut outs.collect::<Vec<_>>(), tick, report);
}

fn check_order_of<T: Time>(
    outs: &mut [Out<T>],
    tick: Duration,
    mut report: impl FnMut(Kind, String),
) {
    const LAST: usize = 64;
    outs.sort_by_key(|out| out.number);
    for (at, out) in outs.iter().enumerate() {
        let before = outs[at.saturating_sub(LAST)..at].iter();
        if let Some(other) = before
            .rev()
            .find(|one| one.polled > out.set && one.due >= out.due.max(out.set) + 2 * tick)
        {
            let (by, since) = (other.due - out.due, other.polled - out.set);
            let text = format!(
                "out of order: number {}, due {by:?} before number {}, was set {since:?} before that was polled for",
                out.number, other.number
            );
            report(Kind::WrongAnswer, text);
        }
    }
}

/// A key that is found while nothing can be under it.
fn report_unknown<T: Time>(
    events: &[Event<T>],
    rules: Rules,
    mut report: impl FnMut(Kind, String),
) {
    let is_end =
        |event: &&Event<T>| event.interval != 0 && matches!(event.act, Act::End(_) | Act::Take);
    // Of several the last one, because a deadline that has ended stays in its map.
    let ends: HashMap<u64, &Event<T>> = events
        .iter()
        .filter(is_end)
        .map(|event| (event.interval, event))
        .collect();
    let mut intervals = events
        .iter()
        .filter(|event| matches!(event.act, Act::Begin(_)))
        .peekable();
    // The latest moment up to which an interval that has begun by now may have gone on.
    let mut until: Option<T> = None;
    let mut is_endless = false;
    let mut by_after: Vec<_> = events.iter().collect();
    by_after.sort_by_key(|event| event.call.after);
    for event in by_after {
        while let Some(begin) = intervals.next_if(|begin| begin.call.before <= event.call.after) {
            match ends.get(&begin.interval) {
                Some(end) => until = until.max(Some(end.call.after)),
                None => is_endless = true,
            }
        }
        let is_found = event.answer && !event.is_vague && event.interval == 0;
        let is_look = match event.act {
            Act::Find => true,
            Act::Set(_) | Act::Extend(_) | Act::Look | Act::Expire => rules == Rules::Value,
            _ => false,
        };
        if is_found && is_look && !is_endless && until.is_none_or(|until| until < event.call.before)
        {
            let text = format!("a key was found that is in no map: {:?}", event.act);
            report(Kind::WrongAnswer, text);
        }
    }
}

/// The time from the beginning of one deadline, or of one value, to its end, and what was called
/// meanwhile.
struct Interval<'a, T> {
    begin: &'a Event<T>,
    end: Option<&'a Event<T>>,
    /// The calls that may have found it.
    possible: Vec<&'a Event<T>>,
    /// Calls that end by then, and began after it did, have surely found it.
    sure_until: Option<T>,
    /// When a call was over that has surely taken it out of its map, or came after one that had.
    taken_out: Option<T>,
    /// A call that began another interval may have ended it.
    can_be_replaced: bool,
    /// A call that says that it began another interval, and ended none, while this one went on.
    usurper: Option<&'a Event<T>>,
    /// What may have moved its due. The first of them began it.
    moves: Vec<Move<T>>,
    /// The due cannot lie before this.
    earliest: T,
}

impl<'a, T: Time> Interval<'a, T> {
    /// Of the events from when this one may have begun, the first `count` are from before its end.
    fn new(
        events: &'a [Event<T>],
        count: usize,
        begin: &'a Event<T>,
        due: Due<T>,
        end: Option<&'a Event<T>>,
        rules: Rules,
    ) -> Interval<'a, T> {
        let may_end_it = |event: &&Event<T>| match event.act {
            Act::Begin(_) => event.interval != begin.interval && event.answer,
            Act::Remove => event.interval == begin.interval && event.answer,
            Act::Take => event.interval == 0 || event.interval == begin.interval,
            Act::End(_) => event.interval == begin.interval && rules == Rules::Value,
            _ => false,
        };
        let overlaps = |event: &&Event<T>| event.call.after >= begin.call.before;
        let (window, later) = events.split_at(count);
        // They are in the order of their beginnings.
        let ending = |events: &'a [Event<T>]| events.iter().filter(overlaps).filter(may_end_it);
        let ending_then: Vec<_> = ending(window).collect();
        let takes_out = |event: &&&Event<T>| {
            let call = event.call;
            let is_beside = |other: &&&Event<T>| {
                other.call.before <= call.after && other.call.after >= call.before
            };
            call.before > begin.call.after && ending_then.iter().filter(is_beside).count() == 1
        };
        let sure_until = ending_then.first().copied();
        let is_begin = |event: &&Event<T>| matches!(event.act, Act::Begin(_));
        let mut interval = Interval {
            begin,
            end,
            sure_until: sure_until
                .or_else(|| ending(later).next())
                .map(|event| event.call.before),
            taken_out: ending_then
                .iter()
                .find(takes_out)
                .map(|event| event.call.after),
            can_be_replaced: ending_then.iter().any(is_begin),
            usurper: None,
            moves: Vec::new(),
            possible: window
                .iter()
                .filter(overlaps)
                .filter(|event| event.interval == 0 || event.interval == begin.interval)
                .collect(),
            earliest: begin.call.before,
        };
        interval.moves = interval.moves(due);
        let earliest = earliest_due(&interval.moves);
        interval.earliest = interval
            .cap()
            .map_or(earliest, |[cap, _]| earliest.min(cap));
        let is_insert = |event: &&Event<T>| matches!(event.act, Act::Begin(_)) && !event.answer;
        interval.usurper = window
            .iter()
            .filter(is_insert)
            .find(|event| event.interval != begin.interval && interval.is_within(event.call));
        interval
    }

    fn is_within(&self, call: Call<T>) -> bool {
        call.before > self.begin.call.after
            && self.sure_until.is_none_or(|until| call.after < until)
    }

    fn is_sure(&self, event: &Event<T>) -> bool {
        !event.is_vague && (event.interval == self.begin.interval || self.is_within(event.call))
    }

    fn checked(self) -> Checked<T> {
        let expires = |event: &&&Event<T>| event.answer && matches!(event.act, Act::Expire);
        Checked {
            interval: self.begin.interval,
            outcome: self.outcome().map(|(outcome, _)| outcome),
            is_expired_by_call: self
                .possible
                .iter()
                .filter(expires)
                .any(|event| self.is_sure(event)),
            out: self.out(),
            moves: self.moves,
        }
    }

    fn outcome(&self) -> Option<(Outcome<T>, Call<T>)> {
        let end = self.end?;
        match end.act {
            Act::End(outcome) => Some((outcome, end.call)),
            _ => None,
        }
    }

    /// What the stream gave of it, if the moment is known from which on it was not moved.
    fn out(&self) -> Option<Out<T>> {
        let end = self.end?;
        let Act::End(Outcome::Out { due, number }) = end.act else {
            return None;
        };
        let moves = self
            .possible
            .iter()
            .filter(|event| event.answer && matches!(event.act, Act::Set(_) | Act::Expire));
        let moved = moves.map(|event| event.call.after).max();
        Some(Out {
            number,
            polled: end.call.before,
            due,
            set: moved.map_or(self.begin.call.after, |moved| {
                moved.max(self.begin.call.after)
            }),
        })
    }

    /// The end of the time that bounds it, read before the call that set it, and after it.
    fn cap(&self) -> Option<[T; 2]> {
        self.possible.iter().find_map(|event| match event.act {
            Act::Cap(cap) if event.interval == self.begin.interval => {
                Some([event.call.before + cap, event.call.after + cap])
            }
            _ => None,
        })
    }

    fn moves(&self, first: Due<T>) -> Vec<Move<T>> {
        let is_move = |event: &&&Event<T>| {
            let moves = matches!(
                event.act,
                Act::Set(_) | Act::Reset | Act::ResetFrom(_) | Act::SetTimeout(_) | Act::Extend(_)
            );
            moves && event.answer
        };
        let setting = |call, is_sure, to| Setting { call, is_sure, to };
        let begin = setting(self.begin.call, true, Act::Begin(first));
        let others = self.possible.iter().filter(is_move);
        let others = others.map(|event| setting(event.call, self.is_sure(event), event.act));
        [begin].into_iter().chain(others).collect()
    }

    /// Whether one of the calls that may have been the last to set it made it due then.
    fn may_be_due(&self, at: T, seen: Call<T>) -> bool {
        let sets = self
            .possible
            .iter()
            .filter(|event| event.answer || event.interval != 0);
        let settings = sets.filter_map(|event| {
            let (to, is_sure) = match event.act {
                Act::Begin(due) if event.interval == self.begin.interval => (due, true),
                Act::Set(due) => (due, self.is_sure(event)),
                // What is due already stays as it is.
                Act::Expire => (Due::After(Duration::ZERO), false),
                _ => return None,
            };
            let (call, to) = (event.call, [to.earliest(event.call), to.latest(event.call)]);
            Some(Setting { call, is_sure, to })
        });
        let settings: Vec<_> = settings.collect();
        let [cap_from, cap_to] = self.cap().map_or([None; 2], |cap| cap.map(Some));
        standing(&settings, seen).any(|one| {
            let [from, to] = one.to;
            let from = cap_from.map_or(from, |cap| cap.min(from));
            let to = cap_to.map_or(to, |cap| cap.min(to));
            (from..=to).contains(&at)
        })
    }

    fn check(&self, rules: Rules, shutdown: Option<T>, report: &mut impl FnMut(Kind, String)) {
        let possibly = |act: fn(&Act<T>) -> bool| {
            self.possible
                .iter()
                .any(|event| event.answer && act(&event.act))
        };
        let surely = |act: fn(&Act<T>) -> bool| {
            let sure = self.possible.iter().filter(|event| self.is_sure(event));
            sure.filter(|event| event.answer && act(&event.act)).count()
        };
        let can_be_expired = possibly(|act| matches!(act, Act::Expire));
        let can_be_cancelled = possibly(|act| matches!(act, Act::Cancel | Act::Remove));
        let can_be_drained = possibly(|act| matches!(act, Act::Drained));
        let outcome = self.outcome();
        // It has elapsed by then, or was due by its own account.
        let elapsed = match outcome {
            Some((Outcome::Elapsed, call)) => Some(call.after),
            Some((Outcome::Out { due, .. }, call)) => Some(due.min(call.after)),
            _ => None,
        };
        match (elapsed, outcome) {
            (Some(elapsed), _) if elapsed < self.earliest && !can_be_expired => {
                let early = self.earliest - elapsed;
                report(
                    Kind::Early,
                    format!("early by {early:?}: {}", self.history()),
                );
            }
            (_, Some((Outcome::Out { due, .. }, call))) if due > call.after => {
                let early = due - call.after;
                report(
                    Kind::Early,
                    format!("out {early:?} early: {}", self.history()),
                );
            }
            // The clock of a runtime that has ended stands still.
            (_, Some((Outcome::Out { due, .. }, call)))
                if shutdown.is_none() && !self.may_be_due(due, call) =>
            {
                let text = "due at a time that no call has set";
                report(Kind::WrongAnswer, format!("{text}: {}", self.history()));
            }
            _ => {}
        }
        if self.usurper.is_some() {
            let text = "a key that was in the map was taken to be absent";
            report(Kind::WrongAnswer, format!("{text}: {}", self.history()));
        }
        let has_ended = |call: Call<T>| shutdown.is_some_and(|began| began <= call.after);
        if rules == Rules::Value {
            for event in &self.possible {
                if !event.answer && matches!(event.act, Act::Find) && self.is_within(event.call) {
                    let text = "a key in the map was not found";
                    report(Kind::WrongAnswer, format!("{text}: {}", self.history()));
                }
            }
            self.check_answers(rules, can_be_expired, has_ended, report);
            self.check_overdue(has_ended, report);
            return;
        }
        let cancels = surely(|act| matches!(act, Act::Cancel));
        let expires = surely(|act| matches!(act, Act::Expire));
        if cancels + expires > 1 {
            let text = format!("{cancels} cancels and {expires} expires were true");
            report(Kind::TwoOutcomes, format!("{text}: {}", self.history()));
        }
        let is_possible = match outcome {
            None => true,
            Some((Outcome::Elapsed, _)) => cancels == 0,
            Some((Outcome::Cancelled, _)) => expires == 0 && can_be_cancelled,
            Some((Outcome::Drained, _)) => cancels + expires == 0 && can_be_drained,
            Some((Outcome::Replaced, _)) => cancels + expires == 0 && self.can_be_replaced,
            Some((Outcome::Shutdown, call)) => has_ended(call) && cancels + expires == 0,
            Some(_) => cancels + expires == 0,
        };
        if !is_possible {
            report(
                Kind::TwoOutcomes,
                format!("impossible outcome: {}", self.history()),
            );
        }
        self.check_place(can_be_expired, outcome.map(|(outcome, _)| outcome), report);
        let can_be_ended = can_be_expired || can_be_cancelled;
        self.check_answers(rules, can_be_ended, has_ended, report);
    }

    /// A value comes out once, one way, unless a call has dropped what was in the map.
    fn check_once(&self, times: usize, events: &[Event<T>], report: &mut impl FnMut(Kind, String)) {
        let drops = |event: &&Event<T>| event.interval == 0 && matches!(event.act, Act::Take);
        let may_be_dropped = |event: &Event<T>| event.call.after >= self.begin.call.before;
        let is_dropped = || events.iter().filter(drops).any(may_be_dropped);
        if times > 1 || times == 0 && !is_dropped() {
            let text = format!("a value came out {times} times");
            report(Kind::ValueLost, format!("{text}: {}", self.history()));
        }
    }

    /// A deadline is in its map until something takes it out, pending or not. A deadline that is
    /// taken out while it is pending does not elapse.
    fn check_place(
        &self,
        can_be_expired: bool,
        outcome: Option<Outcome<T>>,
        report: &mut impl FnMut(Kind, String),
    ) {
        let is_in_time = self.taken_out.is_some_and(|out| out < self.earliest);
        if is_in_time && !can_be_expired && outcome == Some(Outcome::Elapsed) {
            let text = "it elapsed after it was taken out of its map";
            report(Kind::WrongAnswer, format!("{text}: {}", self.history()));
        }
        for event in &self.possible {
            let looks = matches!(event.act, Act::Find | Act::Remove);
            if looks && !event.answer && self.is_within(event.call) {
                let text = format!("{:?} was {}", event.act, event.answer);
                report(Kind::WrongAnswer, format!("{text}: {}", self.history()));
            }
        }
    }

    /// A call that says that it is pending comes before one that says that it has ended, and it
    /// does not end before its time.
    fn check_answers(
        &self,
        rules: Rules,
        can_be_ended: bool,
        has_ended: impl Fn(Call<T>) -> bool,
        report: &mut impl FnMut(Kind, String),
    ) {
        let sure = || self.possible.iter().filter(|event| self.is_sure(event));
        let is_question = |event: &&&Event<T>| is_question(&event.act);
        let is_end = |event: &&&Event<T>| match (rules, event.act) {
            (Rules::Deadline, Act::End(_) | Act::Expire | Act::Cancel) => true,
            (Rules::Value, Act::End(Outcome::Out { .. })) => true,
            _ => is_question(event) && !event.answer,
        };
        // It makes each value due that is in the map, and its answer does not say for which.
        let makes_due = |event: &&&Event<T>| {
            let expires = rules == Rules::Value && matches!(event.act, Act::Expire);
            expires && self.is_within(event.call)
        };
        let ended = sure().filter(is_end);
        let ended = ended.chain(self.possible.iter().filter(makes_due));
        let Some(ended) = ended.map(|event| event.call).min_by_key(|call| call.after) else {
            return;
        };
        let pending = sure().filter(is_question).filter(|event| event.answer);
        if let Some(pending) = pending.max_by_key(|event| event.call.before) {
            if pending.call.before > ended.after {
                let text = format!("{:?} was true after the end", pending.act);
                report(Kind::TwoOutcomes, format!("{text}: {}", self.history()));
            }
        }
        // A map that took it out ends it at any time.
        let is_taken = self.sure_until.is_some_and(|until| until <= ended.after);
        if ended.after < self.earliest && !can_be_ended && !is_taken && !has_ended(ended) {
            let early = self.earliest - ended.after;
            report(
                Kind::Early,
                format!("ended {early:?} too soon: {}", self.history()),
            );
        }
    }

    /// No answer shows or moves a value that is due by the clock, however busy the stream is.
    fn check_overdue(
        &self,
        has_ended: impl Fn(Call<T>) -> bool,
        report: &mut impl FnMut(Kind, String),
    ) {
        let sure = self.possible.iter().filter(|event| self.is_sure(event));
        for event in sure.filter(|event| event.answer && is_question(&event.act)) {
            let due = latest_due(&seen_by(&self.moves, event.call), Duration::ZERO);
            let due = self.cap().map_or(due, |[_, cap]| due.min(cap));
            if due <= event.call.before && !has_ended(event.call) {
                let text = format!("{:?} found a value that was overdue", event.act);
                report(Kind::WrongAnswer, format!("{text}: {}", self.history()));
            }
        }
    }

    /// The history, from the beginning of the interval.
    fn history(&self) -> String {
        let start = self.begin.call.before;
        let at = |instant: T| {
            if instant >= start {
                (instant - start).as_micros() as i64
            } else {
                -((start - instant).as_micros() as i64)
            }
        };
        let skipped = self.possible.len().saturating_sub(12);
        let calls = self.possible.iter().skip(skipped).map(|event| {
            let (before, after) = (at(event.call.before), at(event.call.after));
            let sure = if self.is_sure(event) { "" } else { " perhaps" };
            format!(
                "[{before}..{after}us{sure}] {:?} = {}",
                event.act, event.answer
            )
        });
        let calls: Vec<_> = calls.collect();
        format!("due at {}us; {}", at(self.earliest), calls.join("; "))
    }
}

/// Whether its answer says if something is pending.
fn is_question<T>(act: &Act<T>) -> bool {
    matches!(
        act,
        Act::Set(_)
            | Act::Reset
            | Act::ResetFrom(_)
            | Act::SetTimeout(_)
            | Act::Extend(_)
            | Act::Expire
            | Act::Cancel
            | Act::Look
    )
}

#[cfg(test)]
mod tests;
