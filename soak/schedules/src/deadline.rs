//! A `Deadline`, with a warning before it or without, the task that awaits it, and three threads
//! with its handle.
//!
//! Judged: it has exactly one outcome, and every answer agrees with it. It never expires before the
//! resets that were in time allow it. The task is woken for it in time. No warning comes before the
//! grace of a due that it may have had, and there is at most one for each of them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tickwheel::error::Cancelled;
use tickwheel::{Deadline, ResetHandle, WarnBefore, warn_before::Stage};
use under_std::time::passed;

use crate::due::{Setting, bounds};
use crate::record::{Record, Span, last_held_up};
use crate::wait::{Outcome, Ready, await_all};
use crate::world::{MS, Place, World, below, delay, grace, one_in};

/// What a call was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Reset,
    /// It set the due for once, after this delay.
    Once(Duration),
    SetTimeout(Duration),
    Expire,
    Cancel,
    /// It asked whether the deadline is pending.
    Ask,
}

#[derive(Debug)]
struct Call {
    did: Did,
    /// Whether it found the deadline pending.
    was_pending: bool,
    span: Span,
}

pub fn run() {
    await_among_calls(false, |deadline| deadline);
}

pub fn run_with_warnings() {
    let warnings = Record::new();
    let (grace, noted) = (delay(), warnings.clone());
    let (settings, dues) = await_among_calls(true, |deadline| Warned {
        deadline: deadline.warn_before(grace),
        warnings: noted,
    });
    let warnings = warnings.take();
    assert!(warnings.len() <= dues, "{warnings:#?} {settings:#?}");
    for warning in warnings {
        let [from, _] = bounds(&settings, &warning);
        let is_early = warning.ended + grace < from;
        assert!(!is_early, "{warning:?} before {from:?}: {settings:#?}");
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
            let (polled, span) = Span::of(|| self.deadline.poll_wait(cx));
            match ready!(polled)? {
                Stage::Warning => self.warnings.push(span),
                Stage::Expired => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Returns every call that may have moved the deadline, and how many dues it may have had.
/// `has_look` says that the task may arm a timer beside it.
fn await_among_calls<F>(
    has_look: bool,
    awaited: impl FnOnce(Deadline) -> F,
) -> (Vec<Setting>, usize)
where
    F: Future<Output = Result<(), Cancelled>> + Unpin + Send + 'static,
{
    let world = World::begin();
    let timeout = delay();
    let (deadline, made) = Span::of(|| world.timer.deadline(timeout));
    let calls = Record::new();
    calls.push(Call {
        did: Did::SetTimeout(timeout),
        was_pending: true,
        span: made,
    });
    let handle = deadline.handle();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (place, handle, calls) = (world.place(), handle.clone(), calls.clone());
            let number = 1 + below(4);
            world
                .place()
                .spawn(move || act(&place, &handle, &calls, number))
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
    let mut last = judge(&world, made, &calls, &ready);
    if has_look {
        // What the last pending poll has armed for the warning is gone when the task sees the end,
        // and not when a call makes it: the call knows nothing of it. A paused clock may come to it
        // meanwhile, since it does not wait for a task of a foreign thread. It comes no further.
        let dues = settings(made, &calls).into_iter().map(|one| one.to[1]);
        last = last.max(ready.span.ended.min(dues.max().unwrap_or_default()));
    }
    assert_eq!(world.timer.metrics().pending, 0, "nothing is armed");
    world.end(last);
    let sets_timeout = |call: &&Call| matches!(call.did, Did::SetTimeout(_));
    // The first of these made it.
    let others = calls.iter().filter(sets_timeout).count() - 1;
    let settings = settings(made, &calls);
    let dues = settings.len() + others;
    (settings, dues)
}

fn act(place: &Place, handle: &ResetHandle, calls: &Record<Call>, number: u64) {
    for _ in 0..number {
        place.rest();
        let delay = delay();
        let did = match below(16) {
            0..8 => Did::Reset,
            8..11 => Did::Once(delay),
            11 => Did::SetTimeout(delay),
            12 => Did::Expire,
            13 => Did::Cancel,
            _ => Did::Ask,
        };
        let (was_pending, span) = Span::of(|| match did {
            Did::Reset => handle.reset(),
            Did::Once(delay) => handle.reset_after(delay),
            Did::SetTimeout(timeout) => handle.set_timeout(timeout),
            Did::Expire => handle.expire(),
            Did::Cancel => handle.cancel(),
            Did::Ask if one_in(2) => handle.remaining().is_some(),
            Did::Ask => handle.is_pending(),
        });
        calls.push(Call {
            did,
            was_pending,
            span,
        });
    }
}

/// Gives the last moment at which something was called or due.
fn judge(world: &World, made: Span, calls: &[Call], ready: &Ready) -> Duration {
    let ended_by = |did| {
        let ends = |call: &&Call| call.did == did && call.was_pending;
        calls.iter().filter(ends).count()
    };
    let (expired, cancelled) = (ended_by(Did::Expire), ended_by(Did::Cancel));
    assert!(expired + cancelled <= 1, "two calls ended it: {calls:#?}");
    let outcomes: &[Outcome] = match (expired, cancelled) {
        (1, _) => &[Outcome::Expired],
        (_, 1) => &[Outcome::Cancelled],
        _ if world.ends_early => &[Outcome::Expired, Outcome::ShutDown],
        _ => &[Outcome::Expired],
    };
    assert!(outcomes.contains(&ready.outcome), "{ready:#?} {calls:#?}");
    // Every call that found it over, and every look that found it ready.
    let is_end = |call: &&Call| !call.was_pending || matches!(call.did, Did::Expire | Did::Cancel);
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
    let settings = settings(made, calls);
    // A call finds out what has passed, whether or not the driver has come to it. After a stall it
    // may not, but here not as much time has passed as in a stall.
    // The clock of a runtime that ends stands still before its shards are closed.
    let is_before_any_stall =
        |call: &&Call| call.span.ended < 50 * MS && !world.clock_may_stand_still();
    for call in calls
        .iter()
        .filter(|call| call.was_pending)
        .filter(is_before_any_stall)
    {
        let before: Vec<_> = settings
            .iter()
            .filter(|s| s.call.before.step != call.span.first)
            .copied()
            .collect();
        let [_, to] = bounds(&before, &call.span);
        let is_late = call.span.first != made.first && call.span.began > to;
        assert!(!is_late, "pending after {to:?}: {call:?} {calls:#?}");
    }
    // Of resets alone each one holds, whichever came last: a later one covers an older one.
    let is_once = |call: &Call| matches!(call.did, Did::Once(_)) && call.was_pending;
    let by_resets = settings.iter().map(|setting| setting.to[0]).max();
    let by_resets = by_resets
        .filter(|_| !calls.iter().any(is_once))
        .unwrap_or_default();
    for end in ends() {
        let [from, _] = bounds(&settings, &end);
        let from = from.max(by_resets);
        assert!(
            end.ended >= from,
            "early: over in {end:?}, due at {from:?}: {calls:#?}"
        );
    }
    let [_, to] = bounds(&settings, &ready.span);
    if let (true, Some((since, woken))) = (world.is_punctual, ready.woken) {
        let in_time = over.max(since).max(to) + 4 * MS + grace(woken);
        assert!(
            woken <= in_time,
            "late: {ready:#?} due at {to:?}, {calls:#?}"
        );
    }
    over.max(to) + grace(passed())
}

fn settings(made: Span, calls: &[Call]) -> Vec<Setting> {
    let timeouts = || {
        calls.iter().filter_map(|call| match call.did {
            Did::SetTimeout(timeout) => Some(timeout),
            _ => None,
        })
    };
    let shortest = timeouts().min().unwrap_or_default();
    let longest = timeouts().max().unwrap_or_default();
    let setting = |span: Span, (shortest, longest)| Setting {
        call: span.call(),
        is_sure: true,
        to: [span.began + shortest, span.ended + longest],
    };
    let moves = calls.iter().filter(|call| call.was_pending);
    let moved = moves.filter_map(|call| match call.did {
        // A reset counts from the next whole millisecond.
        Did::Reset => Some(setting(call.span, (shortest, longest + MS))),
        Did::Once(delay) => Some(setting(call.span, (delay, delay))),
        _ => None,
    });
    moved.chain([setting(made, (shortest, longest))]).collect()
}
