//! The thread of an alarm: every interleaving of its wait with threads that set the alarm.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use super::with_few_preemptions;
use crate::clock::tick::Tick;
use crate::driver::alarm::Alarm;
use crate::driver::thread_alarm::ThreadAlarm;
use crate::sync::lock;

/// Seen to fail where the wait lets the lock go between reading the tick and going to sleep, and
/// where `set` notifies nobody.
#[test]
fn a_thread_that_goes_to_sleep_misses_no_earlier_tick() {
    with_few_preemptions(|| {
        let mut alarm = Arc::new(ThreadAlarm::unset());
        let of_thread = alarm.clone();
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                of_thread.wait(|_| Duration::ZERO);
            }
        });
        alarm.set(Tick::new(5));
        // Until that has fired, or the next one would be the same firing.
        while *lock(&alarm.at) != Tick::NEVER {
            thread::yield_now();
        }
        alarm.set(Tick::new(7));
        thread.join().unwrap();
    });
}
