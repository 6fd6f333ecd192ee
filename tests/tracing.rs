//! What is reported through `tracing`: a stalled driver, and a panicking waker.
//!
//! A process of its own, because a subscriber is set for all of it.
#![cfg(feature = "tracing")]

mod common;
#[path = "common/paused_clock.rs"]
mod paused_clock;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tickwheel::Timer;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::common::{MS, SECOND, arm, current_thread, waker_fn};
use crate::paused_clock::paused;

#[derive(Debug, PartialEq)]
struct ReportedEvent {
    level: Level,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for ReportedEvent {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// Keeps what is reported, and panics at each event after that.
#[derive(Clone, Default)]
struct Reported(Arc<Mutex<Vec<ReportedEvent>>>);

impl Reported {
    fn take(&self) -> Vec<ReportedEvent> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Subscriber for Reported {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tickwheel"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("there are no spans");
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut reported = ReportedEvent {
            level: *event.metadata().level(),
            fields: BTreeMap::new(),
        };
        event.record(&mut reported);
        self.0.lock().unwrap().push(reported);
        panic!("a subscriber's panic is contained");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One test, because all of the process has one subscriber.
#[test]
fn a_stall_and_a_panicking_waker_are_told_and_virtual_time_not() {
    let reported = Reported::default();
    tracing::subscriber::set_global_default(reported.clone()).unwrap();
    current_thread().block_on(async {
        let timer = Timer::builder().name("web").build().unwrap();
        timer.sleep(20 * MS).await;
        // On a busy machine this may have been late by itself.
        reported.take();

        // The sleep is due while the only thread is blocked. Smaller stalls may be reported too.
        let sleep = tokio::spawn(timer.sleep(100 * MS));
        tokio::task::yield_now().await;
        std::thread::sleep(500 * MS);
        sleep.await.unwrap();
        let events = reported.take();
        let is_of = |reported: &ReportedEvent, level| {
            reported.level == level && reported.fields["timer"] == "\"web\""
        };
        let is_the_stall = |reported: &ReportedEvent| {
            let is_a_stall = reported.fields["message"].starts_with("the driver was stalled");
            let late: Option<u64> = reported
                .fields
                .get("late_ms")
                .and_then(|late| late.parse().ok());
            is_of(reported, Level::WARN) && is_a_stall && late >= Some(200)
        };
        assert!(events.iter().any(is_the_stall), "{events:?}");

        let mut sleep = timer.sleep(300 * MS);
        arm(
            &mut sleep,
            &waker_fn(|| panic!("a waker's panic is contained")),
        );
        timer.sleep(400 * MS).await;
        drop(sleep);
        let reported = reported.take();
        let errors = reported
            .iter()
            .filter(|reported| is_of(reported, Level::ERROR));
        assert_eq!(errors.count(), 1, "{reported:?}");
        assert_eq!(timer.metrics().pending(), 0);
    });

    // A paused clock that is advanced looks late, and is not reported.
    paused().block_on(async {
        let timer = Timer::builder().build().unwrap();
        let sleep = tokio::spawn(timer.sleep(10 * MS));
        tokio::task::yield_now().await;
        tokio::time::advance(5 * SECOND).await;
        sleep.await.unwrap();
        assert!(timer.metrics().fired_lateness_sum() >= 4 * SECOND);
    });
    assert_eq!(reported.take(), []);
}
