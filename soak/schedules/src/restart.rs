//! A `Deadline` that its owner awaits and restarts, again and again, while the driver turns,
//! a thread uses its handle, and the runtime may end.
//!
//! Checked: each restart comes to an end. It expires when its timeout has passed, and not before,
//! or reports that the runtime has ended. Then each later one reports it too, and is pending at no
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tickwheel_soak_model::Outcome;
use under_std::time::passed;

use crate::record::{Span, last_held_up};
use crate::wait::await_one;
use crate::world::{World, below, delay};

pub fn run() {
    let world = World::begin();
    let timeout = delay();
    let (mut deadline, mut made) = Span::of(|| world.timer.deadline(timeout));
    let handle = deadline.handle();
    let (context, rounds) = (world.context(), 1 + below(4));
    let has_ended = Arc::new(AtomicBool::new(false));
    let seen = has_ended.clone();
    let asking = world.context().spawn(move || {
        for _ in 0..below(4) {
            context.rest();
            if seen.load(Ordering::Relaxed) {
                assert!(!handle.reset(), "it was pending after the end");
            } else {
                handle.is_pending();
            }
        }
        passed()
    });
    let (context, ends_early) = (world.context(), world.ends_early);
    let owner = world.context().spawn(move || {
        for _ in 0..rounds {
            let (awaited, ready) = await_one(deadline);
            deadline = awaited;
            match ready.outcome {
                Outcome::Elapsed => {
                    assert!(
                        !has_ended.load(Ordering::Relaxed),
                        "it expired on a runtime that had ended"
                    );
                    assert!(
                        ready.seen.call.after.at >= made.began + timeout,
                        "early: {made:?} {ready:?}"
                    );
                }
                Outcome::Shutdown => {
                    assert!(ends_early, "the runtime goes on: {ready:?}");
                    has_ended.store(true, Ordering::Relaxed);
                }
                other => panic!("no call asked for it: {other:?}"),
            }
            // Once more than that is a reset.
            for _ in 0..=below(2) {
                context.rest();
                ((), made) = Span::of(|| deadline.restart());
            }
        }
        let ((), dropped) = Span::of(|| drop(deadline));
        dropped.ended.max(made.ended + timeout)
    });
    let last = asking.join().unwrap().max(owner.join().unwrap());
    world.calls_are_over();
    assert_eq!(world.timer.metrics().pending(), 0, "nothing is armed");
    world.end(last.max(last_held_up()));
}
