//! Sleeps, each of one owner, of three threads: armed, polled by other wakers, reset, handed to
//! another thread, dropped, and awaited, while the driver turns and the runtime may end.
//!
//! Checked: a sleep is ready only when its deadline has passed, and learns of the end only if the
//! runtime ends early. Its task is woken in time, and never in vain, also if it has reset
//! the sleep and not polled it since then. In the end nothing is armed.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::sync::{Arc, Mutex};
use tickwheel::{Instant, Sleep, Timer};

use crate::record::{Noting, Record, Span, last_held_up, trace};
use crate::world::{MS, ThreadContext, World, below, delay, one_in};

/// A sleep, and when it is due by the call that made or reset it last.
struct Own {
    sleep: Sleep,
    due: [Duration; 2],
}

/// What all threads share.
#[derive(Clone)]
struct Shared {
    timer: Timer,
    /// When the schedule began.
    origin: Instant,
    ends_early: bool,
    /// Sleeps that their threads have left to the others, armed or not.
    left: Arc<Mutex<Vec<Own>>>,
    /// When calls ended, and awaited sleeps were due.
    ends: Record<Duration>,
    awaited: Record<Awaited>,
}

/// A sleep that was awaited until it was ready.
#[derive(Debug)]
struct Awaited {
    due: [Duration; 2],
    woken: Option<(Duration, Duration)>,
}

pub fn run() {
    let world = World::begin();
    let shared = Shared {
        timer: world.timer.clone(),
        origin: world.origin,
        ends_early: world.ends_early,
        left: Arc::default(),
        ends: Record::new(),
        awaited: Record::new(),
    };
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (context, shared) = (world.context(), shared.clone());
            let calls = 1 + below(5);
            world.context().spawn(move || shared.act(&context, calls))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    world.calls_are_over();
    let ((), dropped) = Span::of(|| drop(std::mem::take(&mut *shared.left.lock().unwrap())));
    // A sleep whose time has passed may be ready before the turn that takes its timer out, which
    // has begun.
    let is_armed = || world.timer.metrics().pending() > 0;
    for _ in (0..1_000).take_while(|_| is_armed()) {
        shuttle::thread::yield_now();
    }
    assert!(!is_armed(), "a timer is left");
    let awaited = shared.awaited.take();
    let wait = world.wait_after_a_stall();
    let over = shared.ends.take().into_iter().max().unwrap_or_default();
    let over = over.max(last_held_up());
    for one in &awaited {
        if let (true, Some((since, woken))) = (world.is_punctual, one.woken) {
            let in_time = over.max(since).max(one.due[1]) + wait + world.tick + 3 * MS;
            assert!(woken <= in_time, "late: {one:#?}");
        }
    }
    let dues = awaited.iter().map(|one| one.due[1]);
    // What was left pending may have been due by then.
    world.end(dues.fold(over.max(dropped.ended), Duration::max));
}

impl Shared {
    fn act(&self, context: &ThreadContext, calls: u64) {
        let mut own = Vec::new();
        for _ in 0..calls {
            context.rest();
            if own.is_empty() || one_in(4) {
                own.push(self.make());
            }
            if one_in(6) {
                let taken = self.left.lock().unwrap().pop();
                own.extend(taken);
            }
            let at = below(own.len() as u64) as usize;
            match below(12) {
                0..4 => self.poll(&mut own[at]),
                4..8 => drop(self.reset(&mut own[at])),
                8 => {
                    let ((), span) = Span::of(|| drop(own.swap_remove(at)));
                    self.ends.push(span.ended);
                }
                9 => {
                    let one = own.swap_remove(at);
                    self.left.lock().unwrap().push(one);
                }
                10 => self.ask(&own[at]),
                _ => self.finish(own.swap_remove(at)),
            }
        }
        own.into_iter().for_each(|one| self.finish(one));
    }

    fn make(&self) -> Own {
        let delay = delay();
        let by_instant = one_in(3);
        let (sleep, span) = Span::of(|| {
            if by_instant {
                let now = under_std::time::passed();
                self.timer.sleep_until(self.origin + now + delay)
            } else {
                self.timer.sleep(delay)
            }
        });
        let due = [span.began + delay, span.ended + delay];
        Own { sleep, due }
    }

    /// Polls once, with a waker that wakes no task.
    fn poll(&self, own: &mut Own) {
        let (polled, span) = self.poll_with(own, Waker::noop());
        self.ends.push(span.ended);
        if polled == Poll::Ready(true) {
            // It is ready again, until it is reset.
            assert!(self.poll_with(own, Waker::noop()).0 == Poll::Ready(true));
            assert!(own.sleep.is_elapsed());
        }
    }

    /// Resets it. `true` if it was due before, so that it may have woken a task.
    fn reset(&self, own: &mut Own) -> bool {
        let delay = delay();
        let by_instant = one_in(3);
        let ((), span) = Span::of(|| {
            if by_instant {
                let now = under_std::time::passed();
                own.sleep.reset_at(self.origin + now + delay);
            } else {
                own.sleep.reset_after(delay);
            }
        });
        let was_due = own.due[0] <= span.ended;
        own.due = [span.began + delay, span.ended + delay];
        trace(|| format!("due between {:?}", own.due));
        self.ends.push(span.ended);
        was_due
    }

    fn ask(&self, own: &Own) {
        let (is_elapsed, span) = Span::of(|| own.sleep.is_elapsed());
        assert!(!is_elapsed || span.ended >= own.due[0], "{:?}", own.due);
        let deadline = own.sleep.deadline().duration_since(self.origin);
        let [from, to] = own.due;
        // The clock of a runtime that has ended stands still.
        assert!(
            self.ends_early || (from..=to).contains(&deadline),
            "{deadline:?}: {:?}",
            own.due
        );
    }

    /// Polls, and returns whether a sleep that is ready has elapsed or was shut down.
    fn poll_with(&self, own: &mut Own, waker: &Waker) -> (Poll<bool>, Span) {
        let cx = &mut Context::from_waker(waker);
        let (polled, span) = Span::of(|| Pin::new(&mut own.sleep).get_mut().try_poll(cx));
        let polled = polled.map(|result| result.is_ok());
        match polled {
            Poll::Ready(true) => assert!(span.ended >= own.due[0], "early: {span:?} {:?}", own.due),
            Poll::Ready(false) => assert!(self.ends_early, "the runtime goes on: {span:?}"),
            Poll::Pending => {}
        }
        (polled, span)
    }

    /// Awaits it. At times this is a future that keeps its waker: it resets the sleep after a poll,
    /// and does not poll it again before it is woken.
    fn finish(&self, mut own: Own) {
        let mut noting = None;
        let mut waits_since = None;
        let mut resets = below(4);
        // So often may the task be woken for a deadline that it had before.
        let mut for_former = 0;
        let (has_elapsed, woken) = block_on(poll_fn(|cx: &mut Context<'_>| {
            let noting = noting.get_or_insert_with(|| Noting::new(cx.waker()));
            let woken = waits_since.zip(noting.take());
            let (polled, span) = self.poll_with(&mut own, &Waker::from(noting.clone()));
            if woken.is_some_and(|(_, at)| polled.is_pending() || at < own.due[0]) {
                assert!(
                    for_former > 0 || self.ends_early,
                    "woken in vain: {woken:?} {span:?} {:?}",
                    own.due
                );
                for_former -= 1;
            }
            if polled.is_pending() {
                for _ in 0..std::mem::take(&mut resets) {
                    for_former += i32::from(self.reset(&mut own));
                }
                waits_since = Some(under_std::time::passed());
            }
            polled.map(|has_elapsed| (has_elapsed, woken))
        }));
        let ((), dropped) = Span::of(|| drop(own.sleep));
        self.ends.push(dropped.ended);
        if has_elapsed {
            let due = own.due;
            self.awaited.push(Awaited { due, woken });
        }
    }
}
