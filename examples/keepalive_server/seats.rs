//! The seats at the admin port: which sessions sit there, and which one gives way when all seats
//! are taken.
//!
//! Invariant: a seat is taken while its session holds it. The session that has been silent for
//! longest is asked to give way. So an operator that works is the last to be asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tickwheel::Instant;
use tokio::sync::Notify;

/// All seats that are taken, and some that were.
#[derive(Default)]
pub(crate) struct Seats(Vec<Weak<Seat>>);

/// The seat of one session.
pub(crate) struct Seat {
    /// When the operator last gave a whole line, or took some of a reply.
    heard_at: Mutex<Instant>,
    asked_to_give_way: Notify,
}

impl Seats {
    pub(crate) fn take(&mut self) -> Arc<Seat> {
        self.0.retain(|seat| seat.strong_count() > 0);
        let seat = Arc::new(Seat {
            heard_at: Mutex::new(Instant::now()),
            asked_to_give_way: Notify::new(),
        });
        self.0.push(Arc::downgrade(&seat));
        seat
    }

    /// To ask again before that session has gone asks no other one.
    pub(crate) fn ask_the_most_silent_to_give_way(&self) {
        let taken = self.0.iter().filter_map(Weak::upgrade);
        if let Some(seat) = taken.min_by_key(|seat| *seat.heard_at()) {
            seat.asked_to_give_way.notify_one();
        }
    }
}

impl Seat {
    pub(crate) fn heard(&self) {
        *self.heard_at() = Instant::now();
    }

    /// Completes when the session is to end for another one.
    pub(crate) async fn asked_to_give_way(&self) {
        self.asked_to_give_way.notified().await;
    }

    fn heard_at(&self) -> MutexGuard<'_, Instant> {
        self.heard_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
