//! After a stall the tasks run first.
//!
//! While a process is stopped or its workers are blocked, messages arrive in sockets that no task
//! has read. tokio fires its timers in the round of its driver in which it hands out the readiness
//! of the sockets, and after a stop by signals even a round before. So a task that races a read
//! against a sleep finds the sleep elapsed, though the message came in time. And where a `select!`
//! draws its branch by lot, a sleep that has fired may win over a message that has been read, too.
//! So the tasks have to be polled before the timers fire, and not only woken.
//!
//! A turn that comes late by a stall therefore waits (W in [`alarm`](super::alarm)), and a task
//! makes it once the other tasks have come round:
//!
//! ```text
//!                                           +---+ (LONGEST has passed, but it was held up: once)
//!                                           v   |
//!   no wait --(a turn, late by a stall)--> waits --(the tasks have come round, LONGEST has passed)
//!      ^                                                              |
//!      +--(REST times as long as the wait took, its task has ended)-- rests
//! ```
//!
//! - **When have they come round?** The task goes through *rounds*. In each it lets the runtime's
//!   driver hand out what lies in the sockets, by a short sleep of tokio's, and goes to the end of
//!   the run queue some times. Tasks that had something to read have then dropped or reset their
//!   timers. So they have come round once a round leaves as many timers due as it found. How
//!   much tokio does in a round only decides how many it takes.
//! - The first [`FEWEST`] rounds never end it. After a stop by signals the runtime's driver may
//!   have handed out nothing in the first. And a task that only writes down when it last read
//!   something changes no timer, so the count does not show that it has yet to run.
//! - **The wait is bounded in time**, whatever the tasks do: by [`LONGEST`], rounded up to a tick,
//!   the alarm makes the turn. None begins while the task runs, and none soon after one. So a
//!   program that blocks again and again delays its timers for a fifth of the time at most.
//! - **A wait that is held up begins again, once.** A container whose CPU quota is used up gets
//!   some milliseconds in each period. A wait that begins within them finds its time over when the
//!   next ones come, though its tasks could not run. It was held up if no round of it has ended for
//!   [`HELD_UP`] when its time is over. Twice would save more live peers, and delay the timers of a
//!   thread that is nearly always blocked by yet more.
//! - The stall ends as the wait begins, and the next one begins with its last tick. So the wait is
//!   no part of a stall. A timer that fires after it counts as late since its due.
//! - A round is cut short after [`LONGEST_ROUND`]. Then some tasks may not have run in it, so it
//!   counts as no round until the wait is over.
//! - On a loaded machine the rounds may take longer than the wait. They go on, because the grace of
//!   a deadline ends after both its time and the rounds (see `clock::stalls`).
//!
//! Nothing waits on a timer whose deadlines have no grace, on the process's timer, whose thread
//! hands out no readiness, on a virtual clock, which has no stalls, and on tokio's alternative
//! timer, which may be touched only by the alarm's task.
//!
//! A thread that holds the alarm's lock begins and ends a wait. The task notes each round under a
//! lock of its own, which is taken last. `Stalls` tells other threads whether the task runs. A
//! runtime that ends drops it, and then it runs no more.

use std::sync::Weak;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::Driver;
use crate::clock::tick::{Moment, Tick};
use crate::sync::{Mutex, lock};

/// How long a wait takes at most: as long as the shortest grace of a deadline.
const LONGEST: Duration = Duration::from_millis(100);

/// For so many times as long as a wait took, none begins.
const REST: u32 = 4;

/// The least number of rounds. They take some milliseconds on a runtime that is idle otherwise.
const FEWEST: usize = 4;

/// How often the task goes to the end of the run queue in a round. More save rounds where very many
/// tasks are ready.
const YIELDS: usize = 64;

/// How long a round goes on. Where tasks are always ready, tokio may run dozens of them each time
/// that the task goes to the end. Without this a round would take seconds there.
const LONGEST_ROUND: Duration = Duration::from_millis(10);

/// A wait is held up if no round of it ends for so long. Less would count a program that blocks for
/// some 60 ms again and again, whose timers come late enough.
const HELD_UP: Duration = LONGEST;

/// The last wait, and when the next one may begin.
#[derive(Debug, Default)]
pub(super) struct Rounds(Mutex<Wait>);

#[derive(Debug, Default)]
struct Wait {
    /// When it began, or began again.
    began: Moment,
    /// When its last round ended, or it began.
    came_round: Moment,
    /// How long it took before it was held up and began again.
    before: Option<Duration>,
    /// Before this none begins.
    rests_until: Moment,
}

impl Rounds {
    /// Begins a wait at `now`, and returns the moment by which it ends. `None` soon after one.
    pub(super) fn begin(&self, now: Moment) -> Option<Moment> {
        let mut wait = lock(&self.0);
        if now < wait.rests_until {
            return None;
        }
        wait.before = None;
        Some(wait.begin(now))
    }

    /// Begins the wait again, if it should end but was held up. `None` the second time.
    pub(super) fn begin_again(&self, now: Moment) -> Option<Moment> {
        let mut wait = lock(&self.0);
        if wait.before.is_some() || now.since(wait.came_round) < HELD_UP {
            return None;
        }
        wait.before = Some(wait.came_round.since(wait.began));
        Some(wait.begin(now))
    }

    /// A round ends at `now`. Returns whether the wait may end.
    fn come_round(&self, now: Moment) -> bool {
        let mut wait = lock(&self.0);
        wait.came_round = now;
        now.since(wait.began) >= LONGEST
    }

    pub(super) fn end(&self, now: Moment) {
        let mut wait = lock(&self.0);
        let before = wait.before.unwrap_or_default();
        let took = (before.min(LONGEST)).saturating_add(now.since(wait.began).min(LONGEST));
        wait.rests_until = now.after(REST * took);
    }
}

impl Wait {
    fn begin(&mut self, now: Moment) -> Moment {
        (self.began, self.came_round) = (now, now);
        now.after(LONGEST)
    }
}

/// Ends once the other tasks have come round, and then makes the turn that waits for that. `due` is
/// the tick of the turn.
pub(super) async fn run(tasks: ComeRound, due: Tick) {
    let mut progress = Progress::default();
    loop {
        let is_whole = go_round().await;
        let Some(driver) = tasks.0.upgrade() else {
            return;
        };
        let is_over = driver.rounds.come_round(driver.now());
        if progress.ends_with(is_whole, is_over, || driver.count_due(due)) {
            break;
        }
    }
    if let Some(driver) = tasks.0.upgrade() {
        driver.turns.end_wait(&*driver, driver.now());
    }
}

/// Lets the other tasks run. `false` if that was cut short.
async fn go_round() -> bool {
    // Fires once readiness was handed out.
    sleep(Duration::from_millis(1)).await;
    let began = Instant::now();
    for _ in 0..YIELDS {
        yield_now().await;
        if began.elapsed() > LONGEST_ROUND {
            return false;
        }
    }
    true
}

/// What the rounds so far have shown.
#[derive(Default)]
struct Progress {
    /// How many there were.
    rounds: usize,
    /// How many timers the last one left due. `None` is very many, or no round.
    left: Option<usize>,
}

impl Progress {
    /// Whether all tasks have run with one more round, of which some may not have run in a short
    /// one. `left` counts the timers that it has left due.
    fn ends_with(
        &mut self,
        is_whole: bool,
        is_wait_over: bool,
        left: impl FnOnce() -> Option<usize>,
    ) -> bool {
        if !is_whole && !is_wait_over {
            return false;
        }
        let left = left();
        self.rounds += 1;
        let has_changed = left.is_none() || left != self.left;
        self.left = left;
        self.rounds >= FEWEST && !has_changed
    }
}

/// Held by the task, and dropped with it.
pub(super) struct ComeRound(pub(super) Weak<Driver>);

impl Drop for ComeRound {
    fn drop(&mut self) {
        if let Some(driver) = self.0.upgrade() {
            driver.clock.stalls().tasks_have_run();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_come_round_once_a_round_changes_nothing() {
        let some = |left: &[usize]| left.iter().copied().map(Some).collect::<Vec<_>>();
        let cases = [
            (some(&[0, 0, 0, 0]), Some(4)),
            (some(&[9, 7, 7, 7]), Some(4)),
            (some(&[0, 0, 0]), None),
            (some(&[9, 7, 5, 3, 1]), None),
            (some(&[9, 7, 5, 3, 1, 1]), Some(6)),
            (vec![None; 50], None),
            ([vec![None; 50], some(&[7, 7])].concat(), Some(52)),
        ];
        for (left, expected) in cases {
            let mut progress = Progress::default();
            let ends_with = |&left: &_| progress.ends_with(true, false, || left);
            let ended = left.iter().position(ends_with);
            assert_eq!(ended.map(|index| index + 1), expected, "{left:?}");
        }
    }

    #[test]
    fn a_round_that_is_cut_short_counts_only_once_the_wait_is_over() {
        let mut progress = Progress::default();
        for _ in 0..2 * FEWEST {
            assert!(!progress.ends_with(false, false, || Some(7)));
        }
        for _ in 1..FEWEST {
            assert!(!progress.ends_with(false, true, || Some(7)));
        }
        assert!(progress.ends_with(false, true, || Some(7)));
    }

    #[test]
    fn a_wait_that_is_held_up_begins_again_once() {
        let rounds = Rounds::default();
        let at = |ms| Moment::EPOCH.after(Duration::from_millis(ms));
        // The second value: at what moments a round ends.
        let cases: [(u64, &[u64], Option<u64>); 6] = [
            (100, &[], Some(200)),
            (105, &[5], Some(205)),
            (100, &[5], None),
            (100, &[5, 60], None),
            (900, &[5, 60], Some(1_000)),
            (5_000, &[4_950], None),
        ];
        for (begin, (elapses, round_ends, again)) in (0..).step_by(10_000).zip(cases) {
            let at = |ms| at(begin + ms);
            assert_eq!(rounds.begin(at(0)), Some(at(100)));
            for &ms in round_ends {
                assert_eq!(rounds.come_round(at(ms)), ms >= 100);
            }
            assert_eq!(rounds.begin_again(at(elapses)), again.map(at));
            if let Some(again) = again {
                assert!(!rounds.come_round(at(again - 1)));
                assert!(rounds.come_round(at(again)));
                assert_eq!(rounds.begin_again(at(again + 500)), None, "once");
            }
            rounds.end(at(elapses));
        }
    }

    #[test]
    fn no_wait_begins_soon_after_one() {
        let rounds = Rounds::default();
        let at = |ms| Moment::EPOCH.after(Duration::from_millis(ms));
        assert_eq!(rounds.begin(at(0)), Some(at(100)));
        rounds.end(at(10));
        assert_eq!(rounds.begin(at(49)), None, "it took 10 ms");
        assert_eq!(rounds.begin(at(50)), Some(at(150)));
        // The worker was blocked, which is no part of the wait.
        rounds.end(at(5_000));
        assert_eq!(rounds.begin(at(5_399)), None);
        assert_eq!(rounds.begin(at(5_400)), Some(at(5_500)));
        // It was held up after 30 ms, and took 20 ms more.
        rounds.come_round(at(5_430));
        assert_eq!(rounds.begin_again(at(6_000)), Some(at(6_100)));
        rounds.end(at(6_020));
        assert_eq!(rounds.begin(at(6_219)), None);
        assert_eq!(rounds.begin(at(6_220)), Some(at(6_320)));
    }
}
