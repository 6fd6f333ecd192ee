//! A `Deadline`, with a warning before it or without, the task that awaits it, and three threads
//! with its handle.
//!
//! Judged: it has exactly one outcome, and every answer agrees with it. It never expires before the
//! resets that were in time allow it. The task is woken for it in time. No warning comes before the
//! grace of a due that it may have had, and there is at most one for each of them.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tickwheel::error::Cancelled;
use tickwheel::warn_before::{Stage, WarnBefore};
use tickwheel::{Deadline, Instant, ResetHandle};
use under_std::time::passed;

use crate::due::{self, Act, Move};
use crate::record::{Moment, Record, Span, last_held_up};
use crate::wait::{Outcome, Ready, await_all};
use crate::world::{LONGEST, MS, Place, World, below, delay, grace, one_in};

#[derive(Debug)]
struct Call {
    act: Act,
    /// Whether it found the deadline pending.
    was_pending: bool,
    /// The due that it was told.
    told: Option<Duration>,
    span: Span,
}

pub fn run() {
    if one_in(4) {
        reset_beside_a_shorter_timeout();
    } else {
        await_among_calls(false, |deadline| deadline);
    }
}

/// Whichever comes first, no due of the old timeout is left behind.
fn reset_beside_a_shorter_timeout() {
    let world = World::begin();
    let deadline = world.timer.deadline(LONGEST);
    let handle = deadline.handle();
    // The shorter timeout leaves this due as it is.
    handle.reset_after(MS);
    let resets = handle.clone();
    let resets = world.place().spawn(move || resets.reset());
    handle.set_timeout(2 * MS);
    resets.join().unwrap();
    let left = handle.remaining().unwrap_or_default();
    assert!(left <= 3 * MS, "a timeout of 2 ms leaves {left:?}");
    drop(deadline);
    world.calls_are_over();
    assert_eq!(world.timer.metrics().pending, 0, "nothing is armed");
    world.end(passed());
}

pub fn run_with_warnings() {
    let warnings = Record::new();
    let (grace, noted) = (delay(), warnings.clone());
    let moves = await_among_calls(true, |deadline| Warned {
        deadline: deadline.warn_before(grace),
        warnings: noted,
    });
    let warnings = warnings.take();
    assert!(warnings.len() <= moves.len(), "{warnings:#?} {moves:#?}");
    for warning in warnings {
        let from = due::earliest(&due::seen_by(&moves, &warning));
        let is_early = warning.ended + grace < from;
        assert!(!is_early, "{warning:?} before {from:?}: {moves:#?}");
    }
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

/// Returns every call that has moved the deadline. `has_look` says that the task may arm a timer
/// beside it.
fn await_among_calls<F>(has_look: bool, awaited: impl FnOnce(Deadline) -> F) -> Vec<Move>
where
    F: Future<Output = Result<(), Cancelled>> + Unpin + Send + 'static,
{
    let world = World::begin();
    let timeout = delay();
    let (deadline, made) = Span::of(|| world.timer.deadline(timeout));
    let calls = Record::new();
    calls.push(Call {
        act: Act::Begin(due::after(timeout)),
        was_pending: true,
        told: None,
        span: made,
    });
    let handle = deadline.handle();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (place, handle, calls) = (world.place(), handle.clone(), calls.clone());
            let origin = world.origin;
            let number = 1 + below(4);
            world
                .place()
                .spawn(move || act(&place, &handle, &calls, number, origin))
        })
        .collect();
    let awaited = awaited(deadline);
    let consumer = world
        .place()
        .spawn(move || await_all(vec![(awaited, ())]).remove(0));
    for thread in threads {
        thread.join().unwrap();
    }
    world.calls_are_over();
    let (deadline, (), ready) = consumer.join().unwrap();
    assert!(!handle.reset(), "it has come to its end");
    drop(deadline);
    let calls = calls.take();
    let moves = moves(&calls);
    let mut last = judge(&world, &calls, &moves, &ready);
    if has_look {
        // What the last pending poll has armed for the warning is gone when the task sees the end,
        // and not when a call makes it: the call knows nothing of it. A paused clock may come to it
        // meanwhile, since it does not wait for a task of a foreign thread. It comes no further
        // than to the latest due that there may have been.
        let may_be = |&one: &Move| Move {
            is_sure: false,
            ..one
        };
        let latest = due::latest(&moves.iter().map(may_be).collect::<Vec<_>>());
        last = last.max(ready.span.ended.min(latest));
    }
    assert_eq!(world.timer.metrics().pending, 0, "nothing is armed");
    world.end(last);
    moves
}

/// An instant from which a reset counts: some time ago, or ahead of the call.
fn since() -> Moment {
    let (now, by) = (passed(), delay());
    Moment::of(match one_in(4) {
        true => now + by,
        false => now.saturating_sub(by),
    })
}

fn act(place: &Place, handle: &ResetHandle, calls: &Record<Call>, number: u64, origin: Instant) {
    for _ in 0..number {
        place.rest();
        let delay = delay();
        let act = match below(16) {
            0..4 => Act::Reset,
            4..7 => Act::ResetFrom(since()),
            7..9 => Act::Set(due::after(delay)),
            9 => Act::Extend(delay),
            10 | 11 => Act::SetTimeout(delay),
            12 => Act::Expire,
            13 => Act::Cancel,
            _ => Act::Look,
        };
        let mut told = None;
        let (was_pending, span) = Span::of(|| match act {
            Act::Reset => handle.reset(),
            Act::ResetFrom(since) => handle.reset_from(origin + since.at),
            Act::Set(_) => handle.reset_after(delay),
            Act::Extend(by) => handle.extend(by),
            Act::SetTimeout(timeout) => handle.set_timeout(timeout),
            Act::Expire => handle.expire(),
            Act::Cancel => handle.cancel(),
            _ if one_in(2) => {
                told = handle.deadline().map(|due| due.duration_since(origin));
                told.is_some()
            }
            _ => handle.is_pending(),
        });
        calls.push(Call {
            act,
            was_pending,
            told,
            span,
        });
    }
}

/// Gives the last moment at which something was called or due.
fn judge(world: &World, calls: &[Call], moves: &[Move], ready: &Ready) -> Duration {
    let ended_by = |ends: fn(&Act) -> bool| {
        let ends = |call: &&Call| call.was_pending && ends(&call.act);
        calls.iter().filter(ends).count()
    };
    let expired = ended_by(|act| matches!(act, Act::Expire));
    let cancelled = ended_by(|act| matches!(act, Act::Cancel));
    assert!(expired + cancelled <= 1, "two calls ended it: {calls:#?}");
    let outcomes: &[Outcome] = match (expired, cancelled) {
        (1, _) => &[Outcome::Expired],
        (_, 1) => &[Outcome::Cancelled],
        _ if world.ends_early => &[Outcome::Expired, Outcome::ShutDown],
        _ => &[Outcome::Expired],
    };
    assert!(outcomes.contains(&ready.outcome), "{ready:#?} {calls:#?}");
    // Every call that found it over, and every look that found it ready.
    let is_end = |call: &&Call| !call.was_pending || matches!(call.act, Act::Expire | Act::Cancel);
    let ends = || {
        calls
            .iter()
            .filter(is_end)
            .map(|call| call.span)
            .chain([ready.span])
    };
    for call in calls.iter().filter(|call| call.was_pending) {
        let is_late = ends().any(|end| end.is_before(&call.span));
        assert!(
            !is_late,
            "pending after its end: {call:?} {ready:#?} {calls:#?}"
        );
    }
    let ended = calls.iter().map(|call| call.span.ended);
    let over = ended.fold(last_held_up(), Duration::max);
    if expired + cancelled > 0 || ready.outcome == Outcome::ShutDown {
        return over;
    }
    for call in calls {
        if let (Some(told), false) = (call.told, world.ends_early) {
            let seen = due::seen_by(moves, &call.span);
            let [from, to] = [due::earliest(&seen), due::latest(&seen)];
            let is_true = from <= told && (told <= to || call.span.ended > LONGEST);
            assert!(is_true, "{from:?} to {to:?}: {call:?} {calls:#?}");
        }
    }
    // A call finds out what has passed, whether or not the driver has come to it. After a stall it
    // may not, but here not as much time has passed as in a stall.
    let is_before_any_stall = |call: &&Call| call.span.ended < LONGEST;
    for call in calls
        .iter()
        .filter(|call| call.was_pending && !matches!(call.act, Act::Begin(_)))
        .filter(is_before_any_stall)
    {
        let mut before = due::seen_by(moves, &call.span);
        before.retain(|one| one.call != call.span.call());
        let to = due::latest(&before);
        let is_late = call.span.began > to;
        assert!(!is_late, "pending after {to:?}: {call:?} {calls:#?}");
    }
    // All that found it pending came before its end.
    let [from, to] = [due::earliest(moves), due::latest(moves)];
    for end in ends() {
        assert!(
            end.ended >= from,
            "early: over in {end:?}, due at {from:?}: {calls:#?}"
        );
    }
    if let (true, Some((since, woken))) = (world.is_punctual, ready.woken) {
        let in_time = over.max(since).max(to) + 4 * MS + grace(woken);
        assert!(
            woken <= in_time,
            "late: {ready:#?} due at {to:?}, {calls:#?}"
        );
    }
    over.max(to) + grace(passed())
}

fn moves(calls: &[Call]) -> Vec<Move> {
    let moves = |call: &&Call| {
        let ends = matches!(call.act, Act::Expire | Act::Cancel | Act::Look);
        call.was_pending && !ends
    };
    let moves = calls.iter().filter(moves).map(|call| Move {
        call: call.span.call(),
        is_sure: true,
        to: call.act,
    });
    moves.collect()
}
