//! The faults that are thrown in: wakers that misbehave, and a machine that does. Keys and values
//! that panic are the matter of the oracle.

use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::world::message_of;
use futures::task::AtomicWaker;
use tokio::task::coop::{Unconstrained, unconstrained};
use tokio::time::{Duration, Instant};

/// What every panic on purpose says.
pub const ON_PURPOSE: &str = "on purpose";

/// Panics on purpose, and those of timers whose runtime has ended, are not printed.
pub fn quiet_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = message_of(info.payload());
        if !message.contains(ON_PURPOSE) && !message.contains("shut") {
            default(info);
        }
    }));
}

/// What a waker does beside waking.
pub type Mischief = Arc<dyn Fn() + Send + Sync>;

/// Polls a future with a waker that does mischief once it has woken the task.
///
/// The future has no budget to use up. Tokio's workers would wake it then, and they do not outlive
/// a waker that panics.
pub struct Misled<F> {
    future: Unconstrained<F>,
    waker: Option<Arc<BadWaker>>,
    mischief: Mischief,
}

struct BadWaker {
    inner: AtomicWaker,
    mischief: Mischief,
}

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.inner.wake();
        (self.mischief)();
    }
}

impl<F> Misled<F> {
    pub fn new(future: F, mischief: Mischief) -> Misled<F> {
        Misled {
            future: unconstrained(future),
            waker: None,
            mischief,
        }
    }
}

impl<F: Future + Unpin> Future for Misled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let bad = this.waker.get_or_insert_with(|| {
            Arc::new(BadWaker {
                inner: AtomicWaker::new(),
                mischief: this.mischief.clone(),
            })
        });
        bad.inner.register(cx.waker());
        let waker = Waker::from(bad.clone());
        Pin::new(&mut this.future).poll(&mut Context::from_waker(&waker))
    }
}

/// Keeps its worker busy for so long.
pub fn spin(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Uses up what the task may do before it must yield, without yielding.
pub fn burn_budget() {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        let mut unit = std::pin::pin!(tokio::task::coop::consume_budget());
        if unit.as_mut().poll(&mut context).is_pending() {
            return;
        }
    }
}

/// Stops this whole process for a while.
pub fn stop(length: Duration) {
    let (pid, seconds) = (std::process::id(), length.as_secs_f64());
    let command = format!("kill -STOP {pid}; sleep {seconds}; kill -CONT {pid}");
    let _ = Command::new("sh").args(["-c", &command]).status();
}
