//! What the crate is known to do otherwise than its contract says. A mended line goes.

use std::cell::Cell;

thread_local! {
    static IS_STRICT: Cell<bool> = const { Cell::new(false) };
}

/// Runs a program with all checks, also those that today's code is known to fail.
pub(crate) fn strictly<R>(run: impl FnOnce() -> R) -> R {
    let before = IS_STRICT.replace(true);
    let outcome = run();
    IS_STRICT.set(before);
    outcome
}

/// A check that today's code fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// `advance()` returns with all but the first 256 of what is due still asleep.
    AdvanceLeavesSomeAsleep,
    /// `metrics().pending` counts the stream of an empty `DelayMap` that was polled.
    EmptyMapCountsAsPending,
    /// On a tick of more than 1 ms, under a paused clock, the first poll of what is due now or in
    /// the past waits for the next tick. It should wait for tokio's grid at most.
    NowWaitsForACoarseTick,
    /// A scope on a coarse timer polls for ever, between its deadline and the tick of that.
    ScopeSpins,
    /// A reset of a deadline with a timeout of zero, in the instant of its last reset, answers
    /// `true`, though the deadline has passed.
    ResetOfNoTimeAtAll,
    /// A poll of a `Deadline` that finds it passed wakes the waker of the poll before.
    ReadyPollWakesToo,
    /// `is_elapsed` of a sleep that was reset, and not polled since, is true as soon as its
    /// deadline has passed, though a poll waits for tokio's grid, as tokio's `is_elapsed` does.
    ElapsedBetweenTwoLines,
    /// Once the runtime is gone, a restart of a deadline with a timeout of zero expires, where the
    /// timer never had anything armed. It should tell that the runtime has shut down.
    RestartOfNoTimeAfterTheEnd,
    /// Of two intervals that have missed ticks and are polled one after the other, the second one
    /// stays pending until the driver's next turn, as the first one has left an earlier expiry.
    SecondMissedTickIsPending,
    /// Of two sleeps that are reset to now, the second one sleeps on for a millisecond, where the
    /// wheel has a cascade to do at a tick that tokio's time driver has passed.
    ResetToNowWaitsForACascade,
    /// The same for the first poll of a sleep that was due while nobody polled it.
    FirstPollWaitsForACascade,
    /// A sleep that is reset to the past, before the driver has had its turn, puts the driver's
    /// alarm off: what is due sleeps on until the next millisecond.
    ResetToThePastPutsTheAlarmOff,
}

pub(crate) const KNOWN: &[Known] = &[Known::RestartOfNoTimeAfterTheEnd];

impl Known {
    /// Whether the check is left out.
    pub(crate) fn is_left_out(self) -> bool {
        KNOWN.contains(&self) && !IS_STRICT.get()
    }
}
