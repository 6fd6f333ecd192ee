//! Waits that never end by themselves: their kinds, the places where they go on, and how each of
//! them ended.

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread;

use futures::FutureExt;
use tickwheel::{Instant, Timer};
use tokio::runtime::{Handle, Runtime};
use tokio::task::{LocalSet, block_in_place};

use crate::MINUTE;
use crate::common::{HOUR, current_thread};

/// What tokio's own timers say once their runtime has shut down.
pub(crate) const TOKIOS_SENTENCE: &str = "A Tokio 1.x context was found, but it is being shutdown.";

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum End {
    Elapsed,
    Cancelled { by_shutdown: bool },
    Panicked(String),
}

impl End {
    pub(crate) fn of(deadline: Result<(), tickwheel::error::Cancelled>) -> End {
        match deadline {
            Ok(()) => End::Elapsed,
            Err(cancelled) => End::Cancelled {
                by_shutdown: cancelled.is_shutdown(),
            },
        }
    }
}

pub(crate) type Waiting = Pin<Box<dyn Future<Output = End> + Send>>;

/// How a wait ends, where a panic is an end too.
pub(crate) async fn end_of(waiting: Waiting) -> End {
    match AssertUnwindSafe(waiting).catch_unwind().await {
        Ok(end) => end,
        Err(payload) => End::Panicked(match payload.downcast::<String>() {
            Ok(message) => *message,
            Err(payload) => payload.downcast_ref::<&str>().unwrap().to_string(),
        }),
    }
}

/// A way to wait for what never comes, and how it is told of the shutdown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// To be called in the context of the runtime that drives the timer.
    pub(crate) wait: fn() -> Waiting,
}

impl Kind {
    pub(crate) const ALL: [Kind; 5] = [
        Kind::of("tokio's sleep", || {
            let nap = tokio::time::sleep(HOUR);
            Box::pin(nap.map(|()| End::Elapsed))
        }),
        Kind::of("sleep", || {
            let nap = tickwheel::sleep(HOUR);
            Box::pin(nap.map(|()| End::Elapsed))
        }),
        Kind::of("timeout", || {
            let timeout = tickwheel::timeout(HOUR, pending::<()>());
            Box::pin(timeout.map(|_| End::Elapsed))
        }),
        Kind::of("interval", || {
            let mut beat = tickwheel::interval_at(Instant::now() + HOUR, HOUR);
            Box::pin(async move {
                beat.tick().await;
                End::Elapsed
            })
        }),
        Kind::of("deadline", || {
            Box::pin(Timer::current().deadline(HOUR).map(End::of))
        }),
    ];

    pub(crate) const fn of(name: &'static str, wait: fn() -> Waiting) -> Kind {
        Kind { name, wait }
    }

    pub(crate) fn assert_is_told(self, place: &str, end: &End) {
        let is_told = match end {
            End::Elapsed => false,
            End::Cancelled { by_shutdown } => *by_shutdown,
            End::Panicked(message) if self.name == "tokio's sleep" => {
                message.contains(TOKIOS_SENTENCE)
            }
            End::Panicked(message) => {
                message.contains(TOKIOS_SENTENCE) && message.contains("shut down")
            }
        };
        assert!(is_told, "{} {place}: {end:?}", self.name);
    }
}

/// Makes a wait in the context of a runtime, and leaves that again.
pub(crate) fn made_on(handle: &Handle, kind: Kind) -> Waiting {
    let _context = handle.enter();
    (kind.wait)()
}

/// Where the waits go on: they begin and tell their end there.
#[derive(Default)]
pub(crate) struct Places {
    told: Vec<(&'static str, mpsc::Receiver<End>)>,
    begun: Vec<mpsc::Receiver<()>>,
}

impl Places {
    pub(crate) fn add(&mut self, name: &'static str) -> Place {
        let ((begins, begun), (end, told)) = (mpsc::channel(), mpsc::channel());
        self.told.push((name, told));
        self.begun.push(begun);
        Place { begins, end }
    }

    /// Returns when all have begun: what has not would be dropped with the runtime.
    pub(crate) fn await_begun(&self) {
        for begun in &self.begun {
            begun.recv_timeout(MINUTE).unwrap();
        }
    }

    pub(crate) fn assert_told(self, kind: Kind) {
        for (name, told) in self.told {
            match told.recv_timeout(MINUTE) {
                Ok(end) => kind.assert_is_told(name, &end),
                Err(error) => panic!("{} {name} is not told: {error}", kind.name),
            }
        }
    }
}

/// One of them.
pub(crate) struct Place {
    begins: mpsc::Sender<()>,
    end: mpsc::Sender<End>,
}

impl Place {
    pub(crate) fn wait(self, wait: impl FnOnce() -> End) {
        self.begins.send(()).unwrap();
        let _ = self.end.send(wait());
    }

    pub(crate) async fn wait_async(self, waiting: Waiting) {
        self.begins.send(()).unwrap();
        let _ = self.end.send(end_of(waiting).await);
    }
}

/// Begins one wait of a kind at each place that is not a task of the runtime.
pub(crate) fn begin_everywhere(runtime: &Runtime, other: &Runtime, kind: Kind) -> Places {
    let mut places = Places::default();
    let in_context =
        move |context: &Handle| context.block_on(async { end_of((kind.wait)()).await });

    let (place, handle) = (places.add("in a blocking task"), runtime.handle().clone());
    runtime.spawn_blocking(move || place.wait(|| in_context(&handle)));
    if runtime.metrics().num_workers() > 1 {
        let place = places.add("in place");
        runtime.spawn(async move {
            block_in_place(|| place.wait(|| in_context(&Handle::current())));
        });
    }
    let place = places.add("on a plain thread in the context");
    let handle = runtime.handle().clone();
    thread::spawn(move || place.wait(|| in_context(&handle)));
    let place = places.add("on a plain thread outside");
    let waiting = made_on(runtime.handle(), kind);
    thread::spawn(move || place.wait(|| futures::executor::block_on(end_of(waiting))));
    let place = places.add("in another runtime");
    other.spawn(place.wait_async(made_on(runtime.handle(), kind)));
    let place = places.add("in a local set of another thread");
    let waiting = made_on(runtime.handle(), kind);
    thread::spawn(move || {
        let local = LocalSet::new();
        local.spawn_local(place.wait_async(waiting));
        current_thread().block_on(local);
    });
    places.await_begun();
    places
}
