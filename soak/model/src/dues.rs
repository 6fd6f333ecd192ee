//! When a deadline may be due, by the calls that have moved it. Its due is set, is made later by
//! resets and extensions, and earlier by a shorter timeout. The order of calls that overlap is not
//! known, so what is known are the earliest and the latest due.

use std::time::Duration;

use crate::{Act, Call, Time};

/// A call that has set something, such as when an interval is due.
#[derive(Clone, Copy, Debug)]
pub struct Setting<T, To> {
    pub call: Call<T>,
    /// It has surely set this, and not the same of another interval.
    pub is_sure: bool,
    pub to: To,
}

/// Those that may have been the last before `seen`: no other surely came after them.
pub(crate) fn standing<T: Time, To>(
    settings: &[Setting<T, To>],
    seen: Call<T>,
) -> impl Iterator<Item = &Setting<T, To>> {
    let sure = settings
        .iter()
        .filter(move |one| one.is_sure && one.call.after <= seen.before);
    let newest = sure.map(|one| one.call.before).max();
    settings.iter().filter(move |one| {
        one.call.before <= seen.after && newest.is_none_or(|newest| one.call.after >= newest)
    })
}

/// A call that has moved the due of a deadline, or may have.
pub type Move<T> = Setting<T, Act<T>>;

/// The moves as another call found them. Some may have come after it.
pub fn seen_by<T: Time>(moves: &[Move<T>], call: Call<T>) -> Vec<Move<T>> {
    let is_seen = |one: &&Move<T>| one.call.before <= call.after && one.call != call;
    let seen = moves.iter().filter(is_seen).map(|&one| Move {
        is_sure: one.is_sure && one.call.after <= call.before,
        ..one
    });
    seen.collect()
}

/// The moves that may have been the last to set the due, and all that may have come after those.
fn last_moves<T: Time>(moves: &[Move<T>]) -> impl Iterator<Item = &Move<T>> {
    let sets = |one: &&Move<T>| one.is_sure && matches!(one.to, Act::Begin(_) | Act::Set(_));
    let newest = moves.iter().filter(sets).map(|one| one.call.before).max();
    moves
        .iter()
        .filter(move |one| newest.is_none_or(|newest| one.call.after >= newest))
}

/// The timeouts that resets may have counted.
fn timeouts<T: Time>(moves: &[Move<T>]) -> Vec<Setting<T, [Duration; 2]>> {
    let timeout = |one: &Move<T>| {
        let to = match one.to {
            Act::Begin(due) => due.timeouts(one.call),
            Act::SetTimeout(timeout) => [timeout; 2],
            _ => return None,
        };
        let (call, is_sure) = (one.call, one.is_sure);
        Some(Setting { call, is_sure, to })
    };
    moves.iter().filter_map(timeout).collect()
}

/// The earliest and the latest moment from which a reset may have counted.
fn counts_from<T: Time>(reset: &Move<T>) -> Option<[T; 2]> {
    let now = [reset.call.before, reset.call.after];
    match reset.to {
        Act::Reset => Some(now),
        Act::ResetFrom(since) => Some(now.map(|now| now.min(since))),
        _ => None,
    }
}

/// A deadline that was moved so, the first time by its beginning, is not due before this. One of
/// the calls that may make it earlier was the last of them, and all that surely came after that
/// call made it later.
pub fn earliest_due<T: Time>(moves: &[Move<T>]) -> T {
    let timeouts = timeouts(moves);
    let after = |call: Call<T>| {
        let is_after = move |one: &&Move<T>| one.is_sure && one.call.before > call.after;
        moves.iter().filter(is_after)
    };
    let extended = |due: T, call| {
        after(call).fold(due, |due, one| match one.to {
            Act::Extend(by) => due + by,
            _ => due,
        })
    };
    let dues = last_moves(moves).filter_map(|one| {
        let due = match one.to {
            Act::Begin(due) | Act::Set(due) => due.earliest(one.call),
            Act::SetTimeout(timeout) => one.call.before + timeout,
            _ => return None,
        };
        let resets = after(one.call).filter_map(|reset| {
            let [from, _] = counts_from(reset)?;
            let timeout = standing(&timeouts, reset.call).map(|one| one.to[0]).min();
            Some(extended(from + timeout.unwrap(), reset.call))
        });
        Some(resets.fold(extended(due, one.call), T::max))
    });
    dues.min().unwrap()
}

/// As `earliest_due`, for the latest time. Each due is rounded up to a tick.
///
/// A reset that counts a timeout comes before each later change of that timeout. So no due of the
/// old timeout is left behind.
pub fn latest_due<T: Time>(moves: &[Move<T>], tick: Duration) -> T {
    let timeouts = timeouts(moves);
    let extended = |due: T, call: Call<T>| {
        let may_be_after = |one: &&Move<T>| one.call != call && one.call.after >= call.before;
        let others = moves.iter().filter(may_be_after);
        others.fold(due + tick, |due, one| match one.to {
            Act::Extend(by) => due + by + tick,
            _ => due,
        })
    };
    let limited = |due: T, call: Call<T>, counted: Call<T>| {
        let from = call.after.min(counted.after);
        let later = moves
            .iter()
            .filter(|one| one.is_sure && one.call.before > from);
        later.fold(extended(due, call), |due, one| match one.to {
            Act::SetTimeout(timeout) => due.min(extended(one.call.after + timeout, one.call)),
            _ => due,
        })
    };
    let dues = last_moves(moves).filter_map(|one| {
        let call = one.call;
        match one.to {
            Act::Begin(due) | Act::Set(due) => Some(limited(due.latest(call), call, call)),
            // In a grace it counts from now.
            Act::Extend(by) => Some(limited(call.after + by, call, call)),
            _ => {
                let [_, from] = counts_from(one)?;
                let timeouts = standing(&timeouts, call);
                let due = |timeout: &Setting<T, [Duration; 2]>| from + timeout.to[1];
                timeouts
                    .map(|timeout| limited(due(timeout), call, timeout.call))
                    .max()
            }
        }
    });
    dues.max().unwrap()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::Due;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_reset_that_overlaps_a_shorter_timeout_may_come_first() {
        let dues = |reset, tick| {
            let start = Instant::now();
            let acts = [
                ((0, 1), Act::Begin(Due::After(10 * MS))),
                ((3, 5), Act::SetTimeout(2 * MS)),
                (reset, Act::Reset),
            ];
            let moves = acts.map(|((before, after), to)| Setting {
                call: Call {
                    before: start + before * MS,
                    after: start + after * MS,
                },
                is_sure: true,
                to,
            });
            let dues = [earliest_due(&moves), latest_due(&moves, tick)];
            dues.map(|due| (due - start).as_millis())
        };
        assert_eq!(dues((4, 9), MS), [5, 12], "it never leaves the old timeout");
        assert_eq!(dues((6, 9), Duration::ZERO), [8, 11]);
        assert_eq!(dues((1, 2), Duration::ZERO), [5, 7]);
    }
}
