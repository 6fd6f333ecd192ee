//! The bell: how any thread makes a request of the driver, without a task and without waiting.
//!
//! The driver is not a task. It is what its *attendant* does. A thread that rings the bell while
//! nobody attends becomes the attendant. This is tokio's time driver when the alarm fires, or a
//! thread that arms. A thread that rings while another attends leaves its request and goes on. The
//! attendant serves the request before it leaves.
//!
//! ```text
//!   free --(ring: "attend")--> attended --(leave, nothing was requested meanwhile)--> free
//!                               |    ^
//!                               +----+  ring: "left to the attendant";  take: the requests so far
//! ```
//!
//! Who may touch what, and when:
//!
//! - Any thread rings, asks for a tick, and reads for which tick the alarm is set.
//! - Only the attendant takes requests, takes the tick that was asked for, says when the next turn
//!   is, and leaves.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *A request comes while the attendant leaves.* Leaving is one compare-exchange from "attended,
//!   nothing requested". If the request came first, the exchange fails, and the attendant goes on.
//!   If the exchange came first, the thread that rings attends.
//! - *An arm finds the alarm set early enough, and the driver has just passed it over.* The arm
//!   lowers its shard's plan and then asks the `next_turn`. A turn begins that look before it reads
//!   the plans. `time::next_look` has the argument why one of the two sees the other.
//! - *The alarm fires while the attendant sets it.* Then the attendant's own thread rings, with the
//!   desk in its hands. This is a request like any other, and takes no lock.
//!
//! Invariant: there is at most one attendant. A request that was made is served by the attendant of
//! that moment, or by the thread that made it.

use crate::sync::{AtomicU64, Ordering};
use crate::time::next_look::NextLook;
use crate::time::tick::NEVER;

/// What a thread wants of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The alarm has fired, and its waker is spent: turn.
    Fired = 2,
    /// Turn.
    Turn = 4,
    /// Set the alarm for the right tick.
    Plan = 8,
    /// Tick from now on, if that is better.
    Tick = 16,
}

/// What was requested since the attendant looked last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requests(u64);

impl Requests {
    pub(crate) fn has(self, request: Request) -> bool {
        self.0 & request as u64 != 0
    }
}

const ATTENDED: u64 = 1;

#[derive(Debug)]
pub(crate) struct Bell {
    /// `ATTENDED`, and a bit for each request.
    state: AtomicU64,
    /// The earliest tick that was asked for.
    asked_for: AtomicU64,
    /// When the driver turns at the latest, and so looks at the plans.
    next_turn: NextLook,
}

impl Bell {
    pub(crate) fn new() -> Bell {
        Bell {
            state: AtomicU64::new(0),
            asked_for: AtomicU64::new(NEVER),
            next_turn: NextLook::never(),
        }
    }

    /// Whether the driver turns at `tick` or before. To be called after the plan was lowered to
    /// `tick`.
    #[inline]
    pub(crate) fn is_set_by(&self, tick: u64) -> bool {
        self.next_turn.comes_by(tick)
    }

    /// Asks for a turn at `tick`. To be followed by a ring for `Plan`.
    pub(crate) fn ask_for(&self, tick: u64) {
        // Release: pairs with the Acquire in `take_asked_for`. A turn that forgets this tick sees
        // the plan that was lowered to it.
        self.asked_for.fetch_min(tick, Ordering::AcqRel);
    }

    /// Requests something; `true` if the caller has to attend.
    #[must_use = "a caller that is told to attend has to attend until it may leave"]
    pub(crate) fn ring(&self, request: Request) -> bool {
        // Release: pairs with the Acquire in `take_requests`. The attendant that serves the request
        // sees what its thread did before. Acquire: pairs with the Release in `leave`. An attendant
        // sees what the one before it did.
        let before = self
            .state
            .fetch_or(ATTENDED | request as u64, Ordering::AcqRel);
        before & ATTENDED == 0
    }
}

/// For the attendant.
impl Bell {
    /// What was requested since this was last called.
    pub(crate) fn take_requests(&self) -> Requests {
        // Acquire: pairs with the Release in `ring`.
        Requests(self.state.swap(ATTENDED, Ordering::AcqRel))
    }

    /// The earliest tick that was asked for since this was last called.
    pub(crate) fn take_asked_for(&self) -> u64 {
        // Acquire: pairs with the Release in `ask_for`.
        self.asked_for.swap(NEVER, Ordering::AcqRel)
    }

    /// From here on the attendant reads the plans: a thread that lowers one after that rings.
    /// Forgets what was asked for, because the plans have it.
    pub(crate) fn begin_to_read_plans(&self) {
        // Taken, and not overwritten by a store: so the plans that are read after this contain what
        // was asked for before.
        self.take_asked_for();
        self.next_turn.begin();
    }

    /// Says at which tick the driver turns at the latest.
    pub(crate) fn set_for(&self, tick: u64) {
        self.next_turn.at(tick);
    }

    /// Leaves; `false` if something was requested meanwhile, and then the caller goes on attending.
    #[must_use = "a caller that could not leave is still the attendant"]
    pub(crate) fn leave(&self) -> bool {
        // Release: pairs with the Acquire in the `ring` of the next attendant.
        self.state
            .compare_exchange(ATTENDED, 0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}
