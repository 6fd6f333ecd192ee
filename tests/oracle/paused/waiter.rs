//! Two wakers for each thing that is waited for. They count how often they are woken, and note
//! when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::clock::{At, Clock, MS, line_until};
use crate::common::use_up_the_budget;

struct Counting {
    clock: Clock,
    count: AtomicU32,
    /// When it was first woken since the last look, or zero.
    first: AtomicU64,
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        if self.first.load(Ordering::Relaxed) == 0 {
            self.first.store(self.clock.now(), Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// What may and what must have happened to the one who waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// It may have been woken from here on. `None` if nothing can have woken it.
    pub(crate) may_from: Option<At>,
    /// It must have been woken by now.
    pub(crate) must: bool,
    /// The latest line of the grid at which to be woken, if time ran by itself.
    pub(crate) by_line: u64,
    /// It may be woken for nothing.
    pub(crate) may_look: bool,
}

pub(crate) struct Waiter {
    counting: [Arc<Counting>; 2],
    wakers: [Waker; 2],
    seen: [u32; 2],
    /// The waker of the last poll that stayed pending, until it was woken.
    registered: Option<usize>,
}

impl Waiter {
    pub(crate) fn new(clock: Clock) -> Waiter {
        let counting = [0, 1].map(|_| {
            Arc::new(Counting {
                clock,
                count: AtomicU32::new(0),
                first: AtomicU64::new(0),
            })
        });
        Waiter {
            wakers: counting.clone().map(Waker::from),
            counting,
            seen: [0; 2],
            registered: None,
        }
    }

    /// Polls with one of the two wakers, outside of the task's budget.
    pub(crate) fn poll<R>(
        &mut self,
        which: usize,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        let mut poll = Some(poll);
        let unconstrained = tokio::task::unconstrained(std::future::poll_fn(|cx| {
            Poll::Ready(poll.take().expect("it is polled once")(cx))
        }));
        let mut cx = Context::from_waker(&self.wakers[which]);
        let Poll::Ready(polled) = std::pin::pin!(unconstrained).poll(&mut cx) else {
            unreachable!("it is ready at once");
        };
        self.registered = polled.is_pending().then_some(which);
        polled
    }

    /// Polls when the budget is used up, which leaves it pending and wakes it. Returns the waker
    /// that was used. Which one counts is open until the next poll.
    pub(crate) fn poll_spent<R>(
        &mut self,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Result<usize, String> {
        let which = self.registered.unwrap_or(0);
        let mut cx = Context::from_waker(&self.wakers[which]);
        use_up_the_budget(&mut Context::from_waker(Waker::noop()));
        match poll(&mut cx) {
            Poll::Ready(_) => Err("ready without a budget".to_owned()),
            Poll::Pending => Ok(which),
        }
    }

    /// Something has happened that wakes whatever waits.
    pub(crate) fn must_be_woken(&mut self, which: usize, after: &str) -> Result<(), String> {
        match self.forget_wakes(which) {
            0 => Err(format!("sleeps on after {after}")),
            _ => Ok(()),
        }
    }

    /// As `must_be_woken`, once the runtime is gone.
    pub(crate) fn must_hear_of_the_end(&mut self) -> Result<(), String> {
        let registered = self.registered;
        registered.map_or(Ok(()), |which| {
            self.must_be_woken(which, "the end of its runtime")
        })
    }

    /// Something else than a poll that stays pending has registered this waker.
    pub(crate) fn register(&mut self, which: usize) {
        self.registered = Some(which);
    }

    /// Whether a waker was woken since the last look, which forgets it.
    pub(crate) fn forget_wakes(&mut self, which: usize) -> u32 {
        let count = self.counting[which].count.load(Ordering::Relaxed);
        self.counting[which].first.store(0, Ordering::Relaxed);
        count - std::mem::replace(&mut self.seen[which], count)
    }

    /// Compares the wake-ups since the last look with what is expected. Returns whether there was
    /// one. `ran_from` is the line of the grid from which time ran by itself, if it did.
    pub(crate) fn check(
        &mut self,
        expected: Expected,
        ran_from: Option<u64>,
    ) -> Result<bool, String> {
        let mut woken = false;
        for which in [0, 1] {
            let counting = &self.counting[which];
            let count = counting.count.load(Ordering::Relaxed);
            let at = counting.first.swap(0, Ordering::Relaxed);
            let new = count - std::mem::replace(&mut self.seen[which], count);
            if new == 0 {
                continue;
            }
            let is_registered = self.registered == Some(which);
            if !expected.may_look {
                match expected.may_from {
                    _ if new > 1 => return Err(format!("woke {new} times for one expiry")),
                    None => return Err("woke for no reason".to_owned()),
                    Some(from) if at < from => {
                        return Err(format!("woke {} ns early", from - at));
                    }
                    Some(_) => {}
                }
            }
            if let Some(from) = ran_from.filter(|_| is_registered) {
                let by = expected.by_line.max(from);
                if line_until(at) > by {
                    return Err(format!("woke {} ns late", at - by * MS));
                }
            }
            woken |= is_registered;
        }
        if woken {
            self.registered = None;
        } else if self.registered.is_some() && expected.must {
            return Err("sleeps on, though it is due".to_owned());
        }
        Ok(woken)
    }
}
