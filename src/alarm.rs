//! A timer that says when the runtime has gone, in place of a panic: what waits for a tick inside this crate.
//!
//! Invariant: it holds a key only while its timer is armed. One that is set to `NEVER` does not fire, but it is woken
//! when the runtime shuts down.

use std::sync::Arc;
use std::task::{Context, Poll};

use crate::due::Due;
use crate::shard::{Closed, Polled, Shard};
use crate::tick::Moment;
use crate::wheel::Key;

pub(crate) struct Alarm {
    shard: Arc<Shard>,
    armed: Option<(Key, u64)>,
}

impl Alarm {
    pub(crate) fn new(shard: Arc<Shard>) -> Alarm {
        Alarm { shard, armed: None }
    }

    /// Ready once the driver has come to tick `due`, whatever it was set to before.
    pub(crate) fn poll_at(&mut self, due: u64, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        if let Some((key, set_to)) = self.armed.take() {
            if set_to == due || self.shard.move_to_tick(key, due) {
                self.armed = Some((key, due));
                match self.shard.poll_armed(key, Due::At(Moment::MAX), cx.waker()) {
                    Polled::Pending => return Poll::Pending,
                    Polled::Closed => return Poll::Ready(Err(Closed)),
                    Polled::Fired => {
                        self.armed = None;
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
        match self.shard.arm_at(due, cx.waker().clone()) {
            Ok(key) => {
                self.armed = Some((key, due));
                Poll::Pending
            }
            Err(Closed) => Poll::Ready(Err(Closed)),
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some((key, _)) = self.armed {
            self.shard.disarm(key);
        }
    }
}
