//! The part `kestrel` of the benchmarks: kestrel-timer against tickwheel and tokio, all with
//! `tokio/test-util` on.
//!
//! kestrel-timer has no timeout; its users register a timer, await its completion, and cancel it.

#![forbid(unsafe_code)]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use kestrel_timer::{CompletionReceiver, TimerTask, TimerWheel};
use tickwheel_bench::conductor;
use tickwheel_bench::guard::has_test_util;
use tickwheel_bench::harness::{Durations, Operation, Race, Record, operation};
use tickwheel_bench::parts::{name, pending};
use tickwheel_bench::settings::Settings;
use tokio::time::{Instant, Sleep, sleep};

const TIMEOUT: Duration = Duration::from_secs(30);

fn main() {
    assert!(has_test_util(), "it is why this is a program of its own");
    let settings = Settings::from_args();
    let mut records: Vec<Record> = [1, 2]
        .into_iter()
        .flat_map(|threads| arm_and_disarm(threads).run(&settings))
        .collect();
    records.extend(reset().run(&settings));
    conductor::tell(&records);
}

fn arm_and_disarm(threads: usize) -> Race {
    let mut race = Race::new(format!("kestrel-pending-{threads}"), threads);
    pending::enter_tickwheel(&mut race);
    pending::enter_tokio(&mut race);
    let mut wheel = None;
    race.enter(name::KESTREL, move || {
        let wheel = wheel
            .get_or_insert_with(|| Arc::new(TimerWheel::with_defaults()))
            .clone();
        let durations = Durations::of_timeouts();
        operation(move |cx, times| {
            for index in 0..times {
                let task = TimerTask::new_oneshot(durations.get(index), None);
                let registered = wheel.register(wheel.allocate_handle(), task);
                let (completion, handle) = registered.expect("the wheel runs").into_parts();
                if let CompletionReceiver::OneShot(completion) = completion {
                    assert!(pin!(completion.recv()).poll(cx).is_pending());
                }
                assert!(handle.cancel().expect("it is the handle's own wheel"));
            }
        })
    });
    race
}

fn reset() -> Race {
    let mut race = Race::new("kestrel-reset", 1);
    race.enter(name::TICKWHEEL, || {
        let deadline = tickwheel::Timer::current().deadline(TIMEOUT);
        let handle = deadline.handle();
        tokio::spawn(deadline);
        operation(move |_, times| {
            for _ in 0..times {
                assert!(handle.reset());
            }
        })
    });
    race.enter(name::TOKIO, || OwnedSleep(Box::pin(sleep(TIMEOUT))));
    race.enter(name::KESTREL, || {
        let wheel = TimerWheel::with_defaults();
        let task = TimerTask::new_oneshot(TIMEOUT, None);
        let registered = wheel.register(wheel.allocate_handle(), task);
        let handle = registered.expect("the wheel runs");
        operation(move |_, times| {
            let _runs = &wheel;
            for _ in 0..times {
                assert!(
                    handle
                        .postpone(TIMEOUT, None)
                        .expect("it is the handle's own wheel")
                );
            }
        })
    });
    race
}

struct OwnedSleep(Pin<Box<Sleep>>);

impl Operation for OwnedSleep {
    fn prepare(&mut self, cx: &mut Context<'_>) {
        assert!(self.0.as_mut().poll(cx).is_pending());
    }

    fn run(&mut self, _: &mut Context<'_>, times: usize) {
        for _ in 0..times {
            self.0.as_mut().reset(Instant::now() + TIMEOUT);
        }
    }
}
