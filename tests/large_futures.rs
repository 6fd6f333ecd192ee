//! Large futures: whatever bounds one takes no more of the stack than tokio's timeout does.
//!
//! A thread that overflows its stack ends the process. So each try is a process of its own, which
//! runs this program's one test again with a way to bound a future, and a size of the stack.

mod common;

use std::env;
use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::process::Stdio;
use std::task::{Context, Poll, Waker};
use std::thread;

use tickwheel::future::FutureExt;
use tickwheel::{Duration, Instant, Timer};
use tokio::time as tokios;

use crate::common::{again, current_thread};

const KIB: usize = 1 << 10;
const LARGE: usize = 512 * KIB;
const MINUTE: Duration = Duration::from_secs(60);

/// A future that is ready at once.
struct Large([u8; LARGE]);

impl Future for Large {
    type Output = Result<u8, std::io::Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(black_box(&self.0)[LARGE - 1]))
    }
}

fn large() -> Large {
    Large([7; LARGE])
}

/// Polls once, in a stack frame that holds no other kind of future.
macro_rules! poll {
    ($future:expr) => {{
        let poll = || {
            let future = pin!($future);
            let mut cx = Context::from_waker(Waker::noop());
            assert!(future.poll(&mut cx).is_ready());
        };
        poll();
    }};
}

const OF_TOKIO: &str = "tokio::time::timeout";

fn at() -> Instant {
    Instant::now() + MINUTE
}

const WAYS: &[(&str, fn())] = &[
    (OF_TOKIO, || poll!(tokios::timeout(MINUTE, large()))),
    ("timeout", || poll!(tickwheel::timeout(MINUTE, large()))),
    ("timeout_at", || poll!(tickwheel::timeout_at(at(), large()))),
    ("FutureExt::timeout", || poll!(large().timeout(MINUTE))),
    ("FutureExt::timeout_at", || poll!(large().timeout_at(at()))),
    ("Timer::timeout", || {
        poll!(Timer::current().timeout(MINUTE, large()));
    }),
    ("Timer::timeout_at", || {
        poll!(Timer::current().timeout_at(at(), large()));
    }),
    ("scope", || poll!(tickwheel::scope(at(), large()))),
    ("Timer::scope", || {
        poll!(Timer::current().scope(at(), large()));
    }),
    #[cfg(feature = "tower")]
    ("tower::Timeout", || poll!(in_tower::call())),
];

#[cfg(feature = "tower")]
mod in_tower {
    use super::*;
    use tickwheel::tower::{BoxError, Timeout};
    use tower::{Service, service_fn};

    pub(super) fn call() -> impl Future<Output = Result<u8, BoxError>> {
        Timeout::new(service_fn(|()| large()), MINUTE).call(())
    }
}

const WAY: &str = "TICKWHEEL_LARGE_FUTURE";
const STACK: &str = "TICKWHEEL_LARGE_FUTURE_STACK";

/// Whether a thread with so large a stack survives that way to bound a large future.
fn survives(way: &str, stack: usize) -> bool {
    let mut again = again("a_large_future_needs_no_more_stack_than_with_tokio");
    again.env(WAY, way).env(STACK, stack.to_string());
    again.stdout(Stdio::null()).stderr(Stdio::null());
    again.status().unwrap().success()
}

fn run_again(way: &str) {
    let stack = env::var(STACK).unwrap().parse().unwrap();
    let (_, bound) = WAYS.iter().find(|(name, _)| *name == way).unwrap();
    let runtime = current_thread();
    let thread = thread::Builder::new().stack_size(stack).spawn(move || {
        let _context = runtime.enter();
        bound();
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn a_large_future_needs_no_more_stack_than_with_tokio() {
    if let Ok(way) = env::var(WAY) {
        return run_again(&way);
    }
    let mut sizes = (1..64).map(|n| n * 128 * KIB);
    let least = sizes.find(|stack| survives(OF_TOKIO, *stack)).unwrap();
    // Where the compiler optimises, tokio's is never moved, and some of these are.
    let stack = (least + 128 * KIB).max(2 << 20);
    for (way, _) in WAYS {
        assert!(survives(way, stack), "{way} overflows {stack} bytes");
    }
    // Each try is a process of its own.
    assert!(!survives("timeout", LARGE));
}
