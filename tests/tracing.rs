//! What is told through `tracing`: a stalled driver, and a panicking waker.
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
struct ToldEvent {
    level: Level,
    fields: BTreeMap<&'static str, String>,
}

impl Visit for ToldEvent {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// Keeps what is told, and panics at each event after that.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<ToldEvent>>>);

impl Told {
    fn take(&self) -> Vec<ToldEvent> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tickwheel"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("there are no spans");
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut told = ToldEvent {
            level: *event.metadata().level(),
            fields: BTreeMap::new(),
        };
        event.record(&mut told);
        self.0.lock().unwrap().push(told);
        panic!("a subscriber's panic is contained");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// One test, because all of the process has one subscriber.
#[test]
fn a_stall_and_a_panicking_waker_are_told_and_virtual_time_not() {
    let told = Told::default();
    tracing::subscriber::set_global_default(told.clone()).unwrap();
    current_thread().block_on(async {
        let timer = Timer::builder().name("web").build().unwrap();
        timer.sleep(20 * MS).await;
        // On a busy machine this may have been late by itself.
        told.take();

        // The sleep is due while the only thread is blocked. Smaller stalls may be told beside it.
        let sleep = tokio::spawn(timer.sleep(100 * MS));
        tokio::task::yield_now().await;
        std::thread::sleep(500 * MS);
        sleep.await.unwrap();
        let told_now = told.take();
        let is_of =
            |told: &ToldEvent, level| told.level == level && told.fields["timer"] == "\"web\"";
        let is_the_stall = |told: &ToldEvent| {
            let is_told = told.fields["message"].starts_with("the driver was stalled");
            let late: Option<u64> = told
                .fields
                .get("late_ms")
                .and_then(|late| late.parse().ok());
            is_of(told, Level::WARN) && is_told && late >= Some(200)
        };
        assert!(told_now.iter().any(is_the_stall), "{told_now:?}");

        let mut sleep = timer.sleep(300 * MS);
        arm(
            &mut sleep,
            &waker_fn(|| panic!("a waker's panic is contained")),
        );
        timer.sleep(400 * MS).await;
        drop(sleep);
        let told = told.take();
        let errors = told.iter().filter(|told| is_of(told, Level::ERROR));
        assert_eq!(errors.count(), 1, "{told:?}");
        assert_eq!(timer.metrics().pending(), 0);
    });

    // A paused clock that is advanced looks late, and is not told.
    paused().block_on(async {
        let timer = Timer::builder().build().unwrap();
        let sleep = tokio::spawn(timer.sleep(10 * MS));
        tokio::task::yield_now().await;
        tokio::time::advance(5 * SECOND).await;
        sleep.await.unwrap();
        assert!(timer.metrics().fired_lateness_sum() >= 4 * SECOND);
    });
    assert_eq!(told.take(), []);
}
