//! All that `tokio::time` holds, under its names. Replace `tokio::time` by `tickwheel::time`, and
//! nothing else.
//!
//! What sleeps is this crate's and runs on the current runtime's own timer. What only names or
//! measures time is tokio's. Types of other crates that hold tokio's timers work as before. The
//! [guide](crate::docs::migration#what-a-change-of-use-does-not-reach) says what to use in their
//! place.
//!
//! ```
//! use tickwheel::time::{self, Duration, Instant}; // was: use tokio::time::{self, Duration, Instant};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let start = Instant::now();
//! let late: Result<(), time::error::Elapsed> =
//!     time::timeout(Duration::from_secs(2), std::future::pending()).await;
//! assert!(late.is_err());
//! assert_eq!(start.elapsed(), Duration::from_secs(2));
//! # }
//! ```

// # Glossary
//
// One meaning for each word, in names, comments and documents.
//
// | word | meaning |
// |---|---|
// | tick | the unit of time of a wheel, an integer; also the length of that unit, 1 ms by default |
// | moment | a point in time, in nanoseconds from the epoch of the timer; `Instant` is tokio's |
// | slot | a bucket of one level |
// | level | one wheel of the hierarchy |
// | overflow | what does not fit a level and goes one level up |
// | due | from when a timer may fire: a moment, or a stamp and some ticks |
// | scheduled tick | the tick at which a timer is linked: its due or earlier |
// | timeout | the duration that a user has set; also the future `Timeout` |
// | arm, disarm | put a timer into a wheel, and take it out before it fires |
// | link, unlink | put a timer into the list of a slot, and take it out again |
// | cascade | move a timer from a coarse slot to a finer one when the coarse one's time comes |
// | turn | one pass of the driver: it advances every wheel and fires what is due |
// | next expiry | the tick at which the driver next has work in a shard |
// | reset | push a pending deadline to now plus its timeout |
// | settle | bring a deadline to its end, with an outcome |
// | resting, ticking | the two modes of the driver |
// | stamp | the published tick, taken instead of a reading of the clock |
// | window | the time from the publishing of a stamp until it has been replaced |
// | alarm | what fires when the next turn is due |
// | running thread | the thread that does the work of the driver at a moment |
// | part | one share of a `DelayMap`'s keys, behind a lock of its own |
// | place | room for one key or one entry, in a store, in a table or under a limit |
// | left | what remains, of time or of a count |
// | late | how long after its deadline a timer fired; never negative |
// | shut down | what has happened to a runtime that will drive no timer any more |
//
// # No timer fires early
//
// A deadline is rounded up to its tick, and a reading of the clock is rounded down. So if the
// current tick has reached the tick of a due, the deadline has passed. This is the whole proof for
// the time when the driver rests. Then callers read the clock, and their dues are exact.
//
// While the driver ticks, it publishes the current tick, and a caller takes that as its stamp.
// Linux calls its published tick jiffies. The window of stamp `s` ends when `s` has been replaced.
// The driver replaces it at each turn, by these steps. The code refers to their labels.
//
// ```text
//   P1  r1 = reading         f1 = floor(r1)
//   P2  old = swap(published, f1)            sequentially consistent
//   P3  r2 = reading         end(old) = ceil(r2), noted in the log if later than old + 2
//   P4  turn the wheels up to f1
// ```
//
// A stalled driver replaces nothing. So of the calls that take a stamp, every 61st on a thread
// looks at the clock. One that finds the window over replaces `s` by "resting": it takes P2 and P3,
// and turns nothing.
//
// Let a call begin at moment `t`, as the caller's clock reads it, and load stamp `s` after that.
// The call's timer is truly due at tick `end(s) + ceil(duration)`.
//
// 1. `t <= r2` of whoever replaced `s`. Assume the contrary. Then the caller's reading came
//    after the reading of P3, which came after the swap of P2. The load of the stamp comes after
//    the caller's reading. So it comes after the swap in the one order of all sequentially
//    consistent operations. Then it would not have given `s`.
// 2. So `t <= r2 <=` the start of tick `end(s)`, and `t + duration <=` the start of the due tick.
// 3. A timer fires only in a turn to `f1 >=` its true due. Then the clock has read at least the
//    start of that tick.
//
// P3 must come after P2. The system may stop the thread between P1 and P2. If it had read the clock
// before P2, it would close the window before it has ended, and step 1 fails. If the driver was
// late, for whatever reason, `r2` shows it. The look that a call takes is no P3 for the same
// reason: other calls may take the stamp after it.
//
// **The true due is known when it is asked for.** A timer with stamp `s` is scheduled at `s + 2`
// plus its own ticks. So a turn to `f1` looks at it only if `s + 2 <= f1`. By then `s` was
// replaced, by this turn at the latest, and the end of its window was noted. To close a window is
// one critical section of the log, whoever does it. So a thread that holds the log sees a window
// either open and still published, or noted. A stamp can be published twice, by two turns in one
// tick or after a short rest. Its two windows count as one, with the later end. A timer whose
// window ended late is linked again, at its true due.
//
// **Virtual time is never stamped.** If the clock of a runtime is not between two readings of the
// system's clock, it is paused or has been. The driver looks for that at each tick, and then rests.
//
// **What is reported before a window has ended.** The deadline of a call that took stamp `s` lies
// between `t + duration` and its true due, and neither is known. What is reported counts from the
// reading of the caller that asks first, or from the window's end if that has come. This moment is
// not before `t`, and not after `end(s)`. The timer keeps what was reported, so it does not change.

pub(crate) mod clock;
pub(crate) mod next_check;
pub(crate) mod stamp;
pub(crate) mod tick;

#[doc(no_inline)]
pub use crate::{
    Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval, interval_at, sleep,
    sleep_until, timeout, timeout_at,
};
#[cfg(feature = "test-util")]
#[cfg_attr(docsrs, doc(cfg(feature = "test-util")))]
#[doc(no_inline)]
pub use tokio::time::{advance, pause, resume};

/// What `tokio::time::error` holds.
pub mod error {
    #[doc(no_inline)]
    pub use crate::error::{Elapsed, Error};
}
