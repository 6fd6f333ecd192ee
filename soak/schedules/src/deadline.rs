//! A `Deadline`, with a warning before it or without, the task that awaits it, and three threads
//! with its handle.
//!
//! Checked: it has exactly one outcome, and every answer agrees with it. It never expires before
//! the resets that were in time allow it. The task is woken for it in time. No warning comes before
//! the notice of a due that it may have had. There is at most one for each of them, and the task is
//! woken in time for that of the last.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tickwheel::error::Cancelled;
use tickwheel::warn_before::{Stage, WarnBefore};
use tickwheel::{Deadline, Instant, ResetHandle};
use tickwheel_soak_model::{Event, Move, Outcome, Rules, earliest_due, latest_due, seen_by};
use under_std::time::passed;

use crate::history::{Act, CheckedHistory, History, LONE, after};
use crate::programs::Key;
use crate::programs::calls::call;
use crate::record::{Moment, Record, Span};
use crate::wait::{Ready, await_one};
use crate::world::{LONGEST, MS, ThreadContext, World, below, delay, grace, one_in};

/// The number of the only interval.
const LIFE: u64 = 1;

/// The dues that handles reported, and when.
type Reported = Record<(Duration, Span)>;

pub fn run() {
    if one_in(4) {
        reset_during_a_shorter_timeout();
    } else {
        await_among_calls(delay, false, |deadline| deadline);
    }
}

/// No due of the old timeout is left behind, whatever the order.
fn reset_during_a_shorter_timeout() {
    let world = World::begin();
    let deadline = world.timer.deadline(LONGEST);
    let handle = deadline.handle();
    // The shorter timeout leaves this due as it is.
    handle.reset_after(MS);
    let resets = handle.clone();
    let resets = world.context().spawn(move || resets.reset());
    handle.set_timeout(2 * MS);
    resets.join().unwrap();
    let left = handle.remaining().unwrap_or_default();
    assert!(
        left <= 2 * MS + world.tick,
        "a timeout of 2 ms leaves {left:?}"
    );
    drop(deadline);
    world.calls_are_over();
    assert_eq!(world.timer.metrics().pending(), 0, "nothing is armed");
    world.end(passed());
}

pub fn run_with_warnings() {
    let warnings = Record::new();
    let (notice, noted) = (short_or_long(), warnings.clone());
    let awaited = await_among_calls(short_or_long, true, |deadline| Warned {
        deadline: deadline.warn_before(notice),
        warnings: noted,
    });
    let (moves, warnings) = (&awaited.moves, warnings.take());
    assert!(warnings.len() <= moves.len(), "{warnings:#?} {moves:#?}");
    for warning in &warnings {
        let from = earliest_due(&seen_by(moves, warning.call())).at;
        let is_early = warning.ended + notice < from;
        assert!(!is_early, "{warning:?} before {from:?}: {moves:#?}");
    }
    check_missed(&awaited, notice, &warnings);
}

/// A delay that leaves time for a warning more often than others do.
fn short_or_long() -> Duration {
    if one_in(3) {
        LONGEST / (2 + below(4) as u32)
    } else {
        delay()
    }
}

/// A task that was surely not warned of the last due was woken when its notice began, and polled
/// too late.
fn check_missed(awaited: &Awaited, notice: Duration, warnings: &[Span]) {
    let moves = &awaited.moves;
    let Some(woken) = awaited.expired.and_then(|ready| ready.seen.woken) else {
        return;
    };
    let [since, woken] = woken.map(|moment| moment.at);
    let [from, to] = [earliest_due(moves).at, latest_due(moves, awaited.tick).at];
    let may_be_of_the_last = |warning: &Span| warning.ended + notice + awaited.tick + MS >= from;
    if warnings.iter().any(may_be_of_the_last) {
        return;
    }
    let begins = to.saturating_sub(notice);
    let in_time = awaited.over.max(since).max(begins)
        + notice / 8
        + awaited.tick
        + 3 * MS
        + grace(awaited.tick, woken);
    assert!(
        woken <= in_time,
        "woken at {woken:?}, notice from {begins:?}, no warning: {warnings:#?} {awaited:#?}"
    );
}

/// A deadline whose warnings are noted.
struct Warned {
    deadline: WarnBefore,
    warnings: Record<Span>,
}

impl Future for Warned {
    type Output = Result<(), Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let (polled, span) = Span::of(|| pin!(self.deadline.wait()).poll(cx));
            match ready!(polled)? {
                Stage::Warning => self.warnings.push(span),
                Stage::Expired => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// What came of a deadline that a task awaited.
#[derive(Debug)]
struct Awaited {
    tick: Duration,
    /// Every call that has moved it.
    moves: Vec<Move<Moment>>,
    /// When all calls were over.
    over: Duration,
    /// How it was ready, if it expired by itself, and nothing but its timers let time pass.
    expired: Option<Ready>,
}

/// `has_look` says that the task may arm another timer.
fn await_among_calls<F>(
    delay: fn() -> Duration,
    has_look: bool,
    awaited: impl FnOnce(Deadline) -> F,
) -> Awaited
where
    F: Future<Output = Result<(), Cancelled>> + Unpin + Send + 'static,
{
    let world = World::begin();
    let (history, reported) = (History::new(Rules::Deadline, 1), Reported::new());
    let timeout = delay();
    let (deadline, made) = Span::of(|| world.timer.deadline(timeout));
    history.note_of(LONE, LIFE, Act::Begin(after(timeout)), true, made);
    let handle = deadline.handle();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (context, handle, history) = (world.context(), handle.clone(), history.clone());
            let (origin, reported) = (world.origin, reported.clone());
            let number = 1 + below(4);
            world.context().spawn(move || {
                act(
                    &context, &handle, &history, &reported, number, origin, delay,
                );
            })
        })
        .collect();
    let awaited = awaited(deadline);
    let consumer = world.context().spawn(move || await_one(awaited));
    for thread in threads {
        thread.join().unwrap();
    }
    world.calls_are_over();
    let (deadline, ready) = consumer.join().unwrap();
    assert!(!handle.reset(), "it has come to its end");
    drop(deadline);
    history.note_end(LONE, LIFE, ready);
    let CheckedHistory {
        mut last,
        over,
        mut intervals,
        calls,
    } = history.check(&world);
    let interval = intervals.remove(0);
    let moves = interval.moves;
    let has_expired = ready.outcome == Outcome::Elapsed && !interval.is_expired_by_call;
    let is_in_time = world.is_punctual && !world.ends_early;
    if has_expired {
        check_reported(&world, &reported.take(), &moves);
        check_overdue(&calls, &moves, world.tick);
    }
    if has_look {
        // What the last pending poll has armed for the warning is gone when the task sees the end,
        // and not when a call makes it: the call knows nothing of it. A paused clock may come to it
        // meanwhile, since it does not wait for a task of a foreign thread. It comes no further
        // than to the latest due that there may have been.
        let may_be = |&one: &Move<_>| Move {
            is_sure: false,
            ..one
        };
        let latest = latest_due(&moves.iter().map(may_be).collect::<Vec<_>>(), world.tick).at;
        last = last.max(ready.seen.call.after.at.min(latest));
    }
    assert_eq!(world.timer.metrics().pending(), 0, "nothing is armed");
    let tick = world.tick;
    world.end(last);
    Awaited {
        tick,
        moves,
        over,
        expired: (has_expired && is_in_time).then_some(ready),
    }
}

/// An instant from which a reset counts: some time ago, or ahead of the call.
fn since() -> Moment {
    let (now, by) = (passed(), delay());
    Moment::of(if one_in(4) {
        now + by
    } else {
        now.saturating_sub(by)
    })
}

fn act(
    context: &ThreadContext,
    handle: &ResetHandle,
    history: &History,
    dues: &Reported,
    number: u64,
    origin: Instant,
    delay: fn() -> Duration,
) {
    for _ in 0..number {
        context.rest();
        let delay = delay();
        let act = match below(16) {
            0..4 => Act::Reset,
            4..7 => Act::ResetFrom(since()),
            7..9 => Act::Set(after(delay)),
            9 => Act::Extend(delay),
            10 | 11 => Act::SetTimeout(delay),
            12 => Act::Expire,
            13 => Act::Cancel,
            _ => Act::Look,
        };
        let mut reported = None;
        let asks = one_in(2);
        let (was_pending, span) = Span::of(|| match act {
            Act::Look if asks => {
                reported = handle.deadline().map(|due| due.duration_since(origin));
                reported.is_some()
            }
            _ => call(handle, act, |since| origin + since.at),
        });
        history.note_of(LONE, LIFE, act, was_pending, span);
        if let Some(reported) = reported {
            dues.push((reported, span));
        }
    }
}

fn check_reported(world: &World, reported: &[(Duration, Span)], moves: &[Move<Moment>]) {
    for (reported, span) in reported.iter().filter(|_| !world.ends_early) {
        let seen = seen_by(moves, span.call());
        let [from, to] = [earliest_due(&seen).at, latest_due(&seen, world.tick).at];
        let is_true = from <= *reported && (*reported <= to || span.ended > LONGEST);
        assert!(
            is_true,
            "{from:?} to {to:?}: {reported:?} {span:?} {moves:#?}"
        );
    }
}

/// A call finds out what has passed, whether or not the driver has come to it. After a stall it may
/// not, but here not as much time has passed as in a stall.
fn check_overdue(calls: &[(Option<Key>, Event<Moment>)], moves: &[Move<Moment>], tick: Duration) {
    for (_, event) in calls {
        let is_before_any_stall = event.call.after.at < LONGEST;
        let is_look = !matches!(event.act, Act::Begin(_) | Act::End(_));
        if is_look && event.answer && is_before_any_stall {
            let to = latest_due(&seen_by(moves, event.call), tick).at;
            let is_late = event.call.before.at > to;
            assert!(!is_late, "pending after {to:?}: {event:?} {calls:#?}");
        }
    }
}
