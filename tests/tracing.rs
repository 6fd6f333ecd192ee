//! What is told through `tracing`: a stalled driver, and a panicking waker.
//!
//! A process of its own, because a subscriber is set for all of it.
#![cfg(feature = "tracing")]

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tickwheel::Timer;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The level, the message, `late_ms` and the timer's name.
type ToldEvent = (Level, String, u64, String);

/// Keeps what is told, and panics at each event after that.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<ToldEvent>>>);

impl Told {
    fn take(&self) -> Vec<ToldEvent> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    timer: String,
    late_ms: u64,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "timer" {
            self.timer = value.to_owned();
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "late_ms" {
            self.late_ms = value;
        }
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
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields {
            message,
            timer,
            late_ms,
        } = fields;
        let told = (*event.metadata().level(), message, late_ms, timer);
        self.0.lock().unwrap().push(told);
        panic!("a subscriber's panic is contained");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("a waker's panic is contained");
    }
}

/// One test, because all of the process has one subscriber.
#[test]
fn a_stall_and_a_panicking_waker_are_told_and_virtual_time_not() {
    let told = Told::default();
    tracing::subscriber::set_global_default(told.clone()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let timer = Timer::builder().name("web").build().unwrap();
        timer.sleep(Duration::from_millis(20)).await;
        // On a busy machine this may have been late by itself.
        told.take();

        // The sleep is due while the only thread is blocked. Smaller stalls may be told beside it.
        let sleep = tokio::spawn(timer.sleep(Duration::from_millis(100)));
        tokio::task::yield_now().await;
        std::thread::sleep(Duration::from_millis(500));
        sleep.await.unwrap();
        let told_now = told.take();
        let is_the_stall = |(level, message, late_ms, timer): &ToldEvent| {
            let is_told = message.starts_with("the driver was stalled");
            *level == Level::WARN && is_told && *late_ms >= 200 && timer == "web"
        };
        assert!(told_now.iter().any(is_the_stall), "{told_now:?}");

        let waker = Waker::from(Arc::new(Panicking));
        {
            let mut sleep = pin!(timer.sleep(Duration::from_millis(300)));
            assert!(
                sleep
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
            timer.sleep(Duration::from_millis(400)).await;
        }
        let told = told.take();
        let panics = told
            .iter()
            .filter(|(level, .., timer)| *level == Level::ERROR && timer == "web");
        assert_eq!(panics.count(), 1, "{told:?}");
        assert_eq!(timer.metrics().pending, 0);
    });

    // A paused clock that is advanced looks late, and is not told.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let timer = Timer::new();
        let sleep = tokio::spawn(timer.sleep(Duration::from_millis(10)));
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(5)).await;
        sleep.await.unwrap();
        assert!(timer.metrics().lateness >= Duration::from_secs(4));
    });
    assert_eq!(told.take(), []);
}
