//! Requests: how any thread makes a request of the driver, without a task and without waiting.
//!
//! A thread that submits a request while no thread runs the driver becomes its *running thread*.
//! This is tokio's time driver when the alarm fires, or a thread that arms. A thread that submits a
//! request while another runs the driver leaves it to that one.
//!
//! ```text
//!   free --(submit: "run")--> running --(release, nothing was requested meanwhile)--> free
//!                               |    ^
//!                               +----+  submit: "left to the running thread";  take: the requests so far
//! ```
//!
//! Any thread submits, asks for a tick, and reads when the next turn is. All else is done by the
//! running thread alone, through its [`Running`], of which there is one at a time.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A request comes while the running thread stops.* The release is one compare-exchange from
//!   "running, nothing requested". If the request came first, the exchange fails, and the running
//!   thread goes on. If the exchange came first, the thread that submits the request runs.
//! - *An arm finds the alarm set early enough, and the driver has just passed it over.* The arm
//!   lowers its shard's next expiry and then reads `next_turn`. The driver writes that before it
//!   reads the next expiries. `clock::next_check` has the argument why one of the two sees the
//!   other.
//! - *The alarm fires while the running thread sets it.* Then that thread itself submits, with the
//!   core in its hands. This is a request like any other, and takes no lock.
//!
//! Invariant: a request is served by the running thread of that moment, or by the thread that made
//! it.

use crate::clock::next_check::NextCheck;
use crate::clock::tick::Tick;
use crate::sync::{AtomicU64, Ordering};

/// One or more requests to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request(u64);

impl Request {
    /// The alarm has fired, and its waker is spent: turn.
    pub(crate) const FIRED: Request = Request(2);
    /// Turn.
    pub(crate) const TURN: Request = Request(4);
    /// Set the alarm for the right tick.
    pub(crate) const SET_ALARM: Request = Request(8);

    pub(crate) fn has(self, request: Request) -> bool {
        self.0 & request.0 != 0
    }
}

const RUNNING: u64 = 1;

#[derive(Debug)]
pub(crate) struct Requests {
    /// `RUNNING`, and a bit for each request.
    state: AtomicU64,
    /// The earliest tick that was asked for.
    asked_for: AtomicU64,
    /// When the driver turns at the latest, and so reads the next expiries.
    next_turn: NextCheck,
}

impl Requests {
    pub(crate) fn new() -> Requests {
        Requests {
            state: AtomicU64::new(0),
            asked_for: AtomicU64::new(Tick::NEVER.get()),
            next_turn: NextCheck::new(Tick::NEVER),
        }
    }

    /// Whether the driver turns at `tick` or before. Call this after the next expiry was lowered
    /// to `tick`.
    #[inline]
    pub(crate) fn is_set_by(&self, tick: Tick) -> bool {
        self.next_turn.comes_by(tick)
    }

    /// Asks for a turn at `tick`. Follow this with a request to `SET_ALARM`.
    pub(crate) fn ask_for(&self, tick: Tick) {
        // Release: pairs with the Acquire in `take_asked_for`. A turn that forgets this tick sees
        // the next expiry that was lowered to it.
        self.asked_for.fetch_min(tick.get(), Ordering::AcqRel);
    }

    /// Submits a request. If no thread runs the driver, the caller does: `serve` serves what is
    /// requested, until nothing more is.
    pub(crate) fn run(&self, request: Request, mut serve: impl FnMut(&mut Running<'_>, Request)) {
        let mut running = self.submit(request);
        while let Some(mut runs) = running {
            let requests = runs.take();
            serve(&mut runs, requests);
            running = runs.release();
        }
    }

    /// Submits a request. If no thread runs the driver, the caller has to, until it may stop.
    pub(crate) fn submit(&self, request: Request) -> Option<Running<'_>> {
        // Release: pairs with the Acquire in `take`, whose thread sees what this one did before.
        // Acquire: pairs with the Release in `release`. A running thread sees what the last one
        // did.
        let before = self.state.fetch_or(RUNNING | request.0, Ordering::AcqRel);
        (before & RUNNING == 0).then_some(Running(self))
    }
}

/// Shows that the calling thread runs the driver.
#[derive(Debug)]
#[must_use = "the calling thread has to run the driver until it may stop"]
pub(crate) struct Running<'a>(&'a Requests);

impl<'a> Running<'a> {
    /// The requests since this was last called.
    pub(crate) fn take(&mut self) -> Request {
        // Acquire: pairs with the Release in `submit`.
        Request(self.0.state.swap(RUNNING, Ordering::AcqRel))
    }

    /// The earliest tick that was asked for since this was last called.
    pub(crate) fn take_asked_for(&mut self) -> Tick {
        // Acquire: pairs with the Release in `ask_for`.
        let never = Tick::NEVER.get();
        Tick::new(self.0.asked_for.swap(never, Ordering::AcqRel))
    }

    /// Reads the next expiries with `read`. A thread that lowers one after this has begun submits a
    /// request. An earlier request is forgotten, because the next expiries have it.
    pub(crate) fn read<R>(&mut self, read: impl FnOnce() -> R) -> R {
        // Taken, and not overwritten by a store: so the next expiries that are read after this
        // contain what was asked for before.
        self.take_asked_for();
        self.0.next_turn.begin(read)
    }

    /// Says at which tick the driver turns at the latest.
    pub(crate) fn set_for(&mut self, tick: Tick) {
        self.0.next_turn.at(tick);
    }

    /// Stops. If something was requested meanwhile, the caller is still the running thread.
    pub(crate) fn release(self) -> Option<Running<'a>> {
        // Release: pairs with the Acquire in the `submit` of the next running thread.
        let released =
            self.0
                .state
                .compare_exchange(RUNNING, 0, Ordering::AcqRel, Ordering::Acquire);
        released.is_err().then_some(self)
    }
}
