//! How late the driver comes to a turn that its alarm has asked for.
//!
//! ```text
//!   the alarm fires --(`FiredAlarm::fired`: for which tick was it set?)--> a turn begins --(`answered`)--> its lateness
//! ```
//!
//! A turn that was asked for otherwise, such as one that goes on with another, has no lateness.
//!
//! Invariant: lateness counts from the earliest tick whose alarm has fired and was not answered by
//! a turn. It is computed here alone.

use std::sync::atomic::{AtomicU64, Ordering};

/// By how many ticks a turn began after the tick that its alarm was set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lateness {
    pub(super) ticks: u64,
}

/// The tick of an alarm that has fired, until a turn answers it.
#[derive(Debug, Default)]
pub(super) struct FiredAlarm(Option<u64>);

impl FiredAlarm {
    /// The alarm has fired, and was set for that tick.
    pub(super) fn fired(&mut self, tick: u64) {
        self.0 = Some(self.0.map_or(tick, |earlier| earlier.min(tick)));
    }

    /// A turn began at that tick. `None` if the alarm did not ask for it.
    pub(super) fn answered(&mut self, began: u64) -> Option<Lateness> {
        let tick = self.0.take()?;
        Some(Lateness {
            ticks: began.saturating_sub(tick),
        })
    }
}

/// The lateness of the last turn that the alarm asked for.
#[derive(Debug, Default)]
pub(super) struct LastLateness(AtomicU64);

impl LastLateness {
    // Relaxed, here and below: a gauge that nothing else hangs on. Only the attendant writes it.
    pub(super) fn set(&self, lateness: Lateness) {
        self.0.store(lateness.ticks, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Lateness {
        Lateness {
            ticks: self.0.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timer;
    use crate::driver::Driver;
    use crate::time::clock::Clock;
    use crate::time::tick::{NEVER, TickLength};
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::runtime::Handle;
    use tokio::time::{Instant, advance, sleep};

    fn lateness(set_for: u64, began: u64) -> u64 {
        let mut alarm = FiredAlarm::default();
        alarm.fired(set_for);
        alarm.answered(began).unwrap().ticks
    }

    #[test]
    fn lateness_is_from_the_alarms_tick_and_never_negative() {
        assert_eq!(lateness(10, 10), 0);
        assert_eq!(lateness(10, 13), 3);
        assert_eq!(lateness(10, 9), 0, "the end of the runtime is told early");
        assert_eq!(lateness(NEVER, 13), 0, "nothing was set any more");
    }

    #[test]
    fn an_alarm_is_answered_once_and_for_its_earliest_tick() {
        let mut alarm = FiredAlarm::default();
        assert_eq!(alarm.answered(5), None);
        alarm.fired(7);
        alarm.fired(9);
        assert_eq!(alarm.answered(12), Some(Lateness { ticks: 5 }));
        assert_eq!(alarm.answered(13), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_driver_tells_how_late_its_last_alarm_was_answered() {
        const MS: Duration = Duration::from_millis(1);
        let timer = Timer::new();
        let deadline = timer.deadline(10 * MS);
        advance(15 * MS).await;
        assert_eq!(timer.metrics().lateness, 5 * MS);
        let again = timer.deadline(5 * MS);
        sleep(20 * MS).await;
        assert_eq!(timer.metrics().wake_ups, 2);
        assert_eq!(timer.metrics().lateness, Duration::ZERO);
        drop((deadline, again));
    }

    /// Two threads tell the driver in the wrong order: of a plan, and that it was put off.
    #[tokio::test(start_paused = true)]
    async fn a_plan_that_was_put_off_pulls_no_virtual_time_along() {
        let runtime = Handle::current();
        let tick = TickLength::new(Duration::from_millis(1)).unwrap();
        let clock = Clock::new(&runtime, tick, Instant::now());
        let driver = Arc::new(Driver::new(Arc::new(clock)));
        driver.begin(&[], &runtime);
        driver.need_not_come_at(10);
        driver.come_by(10);
        sleep(Duration::from_millis(20)).await;
        assert_eq!(driver.wake_ups(), 0);
    }
}
