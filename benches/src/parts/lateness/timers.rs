//! The timers that are compared, and what each makes of the five ways to wait.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tickwheel::{DelayMap, Expirations, Timer};
use tokio_util::time::DelayQueue;

use crate::harness::Never;
use crate::parts::name;

/// A way to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sleep,
    Timeout,
    /// tokio's peer of a deadline is a sleep.
    Deadline,
    /// A deadline that was reset: it is due from there.
    Reset,
    /// A value of a `DelayMap`. tokio's peer is a `DelayQueue`.
    Value,
}

impl Kind {
    pub const ALL: &[Kind] = &[
        Kind::Sleep,
        Kind::Timeout,
        Kind::Deadline,
        Kind::Reset,
        Kind::Value,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Sleep => "sleep",
            Kind::Timeout => "timeout",
            Kind::Deadline => "deadline",
            Kind::Reset => "deadline, reset",
            Kind::Value => "value",
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
            (_, Kind::Value) => unreachable!("values wait in a collection"),
            (Timers::Tickwheel(timer), Kind::Sleep) => Box::pin(timer.sleep(after)),
            (Timers::Tickwheel(timer), Kind::Timeout) => {
                let timeout = timer.timeout(after, pending::<()>());
                Box::pin(async { assert!(timeout.await.is_err()) })
            }
            (Timers::Tickwheel(timer), Kind::Deadline) => {
                let deadline = timer.deadline(after);
                Box::pin(async { deadline.await.expect("nobody cancels it") })
            }
            (Timers::Tickwheel(timer), Kind::Reset) => {
                let mut deadline = timer.deadline(after);
                assert!(Pin::new(&mut deadline).poll(&mut cx).is_pending());
                now = Instant::now();
                assert!(deadline.handle().reset());
                Box::pin(async { deadline.await.expect("nobody cancels it") })
            }
            (Timers::Tokio, Kind::Sleep | Kind::Deadline) => Box::pin(tokio::time::sleep(after)),
            (Timers::Tokio, Kind::Timeout) => {
                let timeout = tokio::time::timeout(after, pending::<()>());
                Box::pin(async { assert!(timeout.await.is_err()) })
            }
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
                    pin!(timer.timeout(AFTER, Never)).poll(&mut cx).is_pending()
                }
                Timers::Tokio => pin!(tokio::time::timeout(AFTER, Never))
                    .poll(&mut cx)
                    .is_pending(),
            };
            assert!(is_pending);
        }
    }
}

/// Values that wait: each is the instant at which it is due.
pub enum Values {
    Tickwheel(DelayMap<usize, Instant>, Expirations<usize, Instant>),
    Tokio(DelayQueue<Instant>),
}

impl Values {
    pub fn new(timers: &Timers) -> Values {
        match timers {
            Timers::Tickwheel(timer) => {
                let (map, expirations) = DelayMap::new(timer);
                Values::Tickwheel(map, expirations)
            }
            Timers::Tokio => Values::Tokio(DelayQueue::new()),
        }
    }

    pub fn insert(&mut self, after: Duration) {
        let due = Instant::now() + after;
        match self {
            Values::Tickwheel(map, _) => {
                let replaced = map.insert(map.len(), due, after).expect("it is open");
                assert_eq!(replaced, None);
            }
            Values::Tokio(queue) => {
                queue.insert(due, after);
            }
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Values::Tickwheel(map, _) => map.len(),
            Values::Tokio(queue) => queue.len(),
        }
    }

    /// The next value that comes out.
    pub async fn next(&mut self) -> Instant {
        match self {
            Values::Tickwheel(_, expirations) => {
                expirations.recv().await.expect("the map is open").value
            }
            Values::Tokio(queue) => queue.next().await.expect("there are more").into_inner(),
        }
    }
}
