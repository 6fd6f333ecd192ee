//! The timers that are compared, and what each makes of the three ways to wait.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tickwheel::Timer;

use crate::harness::Inner;
use crate::part::name;

/// A way to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sleep,
    /// tokio's peer of a deadline is a sleep.
    Deadline,
    /// A deadline that was reset: it is due from there.
    Reset,
}

impl Kind {
    pub const ALL: &[Kind] = &[Kind::Sleep, Kind::Deadline, Kind::Reset];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Sleep => "sleep",
            Kind::Deadline => "deadline",
            Kind::Reset => "deadline, reset",
        }
    }
}

/// A timer that runs on the present runtime.
#[derive(Clone)]
pub enum Timers {
    Tickwheel(Timer),
    Tokio,
}

/// Something that waits, in its box, so that the contenders allocate alike.
pub type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

pub const CONTENDERS: [&str; 2] = [name::TICKWHEEL, name::TOKIO];

impl Timers {
    pub fn of(contender: &str) -> Timers {
        match contender {
            name::TICKWHEEL => Timers::Tickwheel(Timer::current()),
            _ => Timers::Tokio,
        }
    }

    /// A wait that is armed, and the instant from which it may end.
    pub fn wait(&self, kind: Kind, after: Duration, waker: &Waker) -> (Wait, Instant) {
        let mut cx = Context::from_waker(waker);
        let mut now = Instant::now();
        let mut wait: Wait = match (self, kind) {
            (Timers::Tickwheel(timer), Kind::Sleep) => Box::pin(timer.sleep(after)),
            (Timers::Tickwheel(timer), Kind::Deadline | Kind::Reset) => {
                let mut deadline = timer.deadline(after);
                if kind == Kind::Reset {
                    assert!(Pin::new(&mut deadline).poll(&mut cx).is_pending());
                    now = Instant::now();
                    assert!(deadline.handle().reset());
                }
                Box::pin(async { deadline.await.expect("it is never cancelled") })
            }
            (Timers::Tokio, Kind::Sleep | Kind::Deadline) => Box::pin(tokio::time::sleep(after)),
            (Timers::Tokio, Kind::Reset) => {
                let mut sleep = Box::pin(tokio::time::sleep(after));
                assert!(sleep.as_mut().poll(&mut cx).is_pending());
                now = Instant::now();
                sleep.as_mut().reset((now + after).into());
                sleep
            }
        };
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        (wait, now + after)
    }

    /// Makes timeouts that are pending once, and drops them: load.
    pub fn arm_and_disarm(&self, times: usize) {
        const AFTER: Duration = Duration::from_secs(30);
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..times {
            let is_pending = match self {
                Timers::Tickwheel(timer) => {
                    let timeout = timer.timeout(AFTER, Inner::<false>);
                    pin!(timeout).poll(&mut cx).is_pending()
                }
                Timers::Tokio => {
                    let timeout = tokio::time::timeout(AFTER, Inner::<false>);
                    pin!(timeout).poll(&mut cx).is_pending()
                }
            };
            assert!(is_pending);
        }
    }
}
