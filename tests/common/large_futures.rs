//! Large futures: whatever bounds one takes no more of the stack than tokio's timeout does.
//!
//! A thread that overflows its stack ends the process. So each try is a process of its own, which
//! runs this program's one test again with a way to bound a future, and a size of the stack.

use std::env;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};
use std::thread;

use tickwheel::{Duration, Instant};

use crate::common::{again, current_thread};

const KIB: usize = 1 << 10;
const LARGE: usize = 512 * KIB;
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A future that is ready at once.
pub(crate) struct Large([u8; LARGE]);

impl Future for Large {
    type Output = Result<u8, std::io::Error>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(black_box(&self.0)[LARGE - 1]))
    }
}

pub(crate) fn large() -> Large {
    Large([7; LARGE])
}

/// Polls once, in a stack frame that holds no other kind of future.
macro_rules! poll {
    ($future:expr) => {{
        let poll = || {
            let future = std::pin::pin!($future);
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(std::future::Future::poll(future, &mut cx).is_ready());
        };
        poll();
    }};
}
pub(crate) use poll;

pub(crate) fn at() -> Instant {
    Instant::now() + MINUTE
}

/// A way to bound a future, by its name.
pub(crate) type Way = (&'static str, fn());

/// Call this in the test of that name. The first way of each group is tokio's.
pub(crate) fn a_large_future_needs_no_more_stack_than_with_tokio(groups: &[&[Way]]) {
    if let Ok(way) = env::var(WAY) {
        return run_again(&groups.concat(), &way);
    }
    for ways in groups {
        let (of_tokio, _) = ways[0];
        let mut sizes = (1..64).map(|n| n * 128 * KIB);
        let least = sizes.find(|stack| survives(of_tokio, *stack)).unwrap();
        // Where the compiler optimises, tokio's is never moved, and some of these are.
        let stack = (least + 128 * KIB).max(2 << 20);
        for (way, _) in *ways {
            assert!(survives(way, stack), "{way} overflows {stack} bytes");
        }
        // Each try is a process of its own.
        assert!(!survives(ways[1].0, LARGE));
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

fn run_again(ways: &[Way], way: &str) {
    let stack = env::var(STACK).unwrap().parse().unwrap();
    let (_, bound) = *ways.iter().find(|(name, _)| *name == way).unwrap();
    let runtime = current_thread();
    let thread = thread::Builder::new().stack_size(stack).spawn(move || {
        let _context = runtime.enter();
        bound();
    });
    thread.unwrap().join().unwrap();
}
