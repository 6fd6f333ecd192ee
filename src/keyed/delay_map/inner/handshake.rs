//! The hand-shake of those who change a [`DelayMap`](crate::DelayMap) with its stream.
//!
//! Invariant: no wake-up is lost.

use std::sync::{MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Closed, Inner, Locked};
use crate::keyed::delay_map::part::Setting;
use crate::keyed::delay_map::stream_timer::StreamTimer;
use crate::shard::{NotArmed, Polled};
use crate::time::due::Due;
use crate::time::tick::{Moment, NEVER};
use crate::waking::wake;
use crate::wheel::Key;

/// For whoever changes the map.
impl<K, V> Inner<K, V> {
    /// To be called after something was set: lets the part go, and has the stream look in time.
    pub(in crate::keyed::delay_map) fn plan_for(&self, locked: Locked<'_, K, V>, setting: Setting) {
        if self.clock().is_pausable() {
            return self.plan_again(locked);
        }
        let Locked { part, number } = locked;
        let mut is_earlier = self.states.tell_due(number, &part);
        if let Some(tick) = setting.tick {
            is_earlier |= self.states.tell_waiting(number, tick);
        }
        drop(part);
        // If it is not, whoever told what stands there calls the stream in time, after its own
        // lock: also for this.
        if is_earlier {
            self.call_for(setting.tick.unwrap_or(0));
        }
    }

    /// To be called after something was taken out: lets the part go.
    pub(in crate::keyed::delay_map) fn plan_without(&self, locked: Locked<'_, K, V>) {
        if self.clock().is_pausable() {
            return self.plan_again(locked);
        }
        self.states.tell_due(locked.number, &locked.part);
    }

    /// To be called after a part was changed in whatever way: lets the part go, has the stream look
    /// in time, and on a clock that can be paused not too early.
    pub(in crate::keyed::delay_map) fn plan_again(
        &self,
        Locked { part, number }: Locked<'_, K, V>,
    ) {
        self.states.tell(number, &part);
        let (first, earliest) = (self.states.first_due(number), part.earliest());
        drop(part);
        // Something may be due now; whether it is the stream finds out.
        let tick = if first == NEVER {
            earliest.unwrap_or(NEVER)
        } else {
            0
        };
        self.call_for(tick);
        self.set_stream_timer_anew();
    }

    fn call_for(&self, tick: u64) {
        if self.lookout.is_called_for(tick) {
            self.call_stream();
        }
    }

    /// Has whoever waits for the stream poll it.
    pub(in crate::keyed::delay_map) fn call_stream(&self) {
        if let Some(waker) = self.lookout.call() {
            wake(waker);
        }
    }

    /// On a clock that can be paused: sets the stream's timer to the earliest, or it would pull
    /// virtual time along. While something is due it is set for no time at all, and the stream is
    /// called: what was found before its deadline may have passed that since, and the stream's
    /// timer was to tell it. Whether or not anybody polls the stream now, so it is not left to the
    /// stream. On the system's clock one look too early is cheaper.
    pub(super) fn set_stream_timer_anew(&self) {
        if !self.clock().is_pausable() {
            return;
        }
        let mut stream_timer = self.stream_timer();
        let waits = self.lookout.is_put_off();
        let looked_for = self.looked_for();
        let earliest = match looked_for {
            0 => NEVER,
            tick => tick,
        };
        stream_timer.set_if_armed(&self.shard, earliest);
        if waits {
            self.lookout.waits_on_until(earliest);
        }
        drop(stream_timer);
        if waits && looked_for == 0 {
            self.call_stream();
        }
    }

    /// The tick at which there is something to look for; zero if there is now.
    fn looked_for(&self) -> u64 {
        let earliest = self.states.earliest_of_all();
        let first = self.states.first_dues().min().unwrap_or(NEVER);
        if first == NEVER {
            return earliest;
        }
        // What was found may lie ahead by a part of a tick. The clock is read after what was told.
        let first = Moment::from_bits(first);
        if first <= self.clock().now() {
            0
        } else {
            earliest.min(self.clock().tick().due(first))
        }
    }

    fn stream_timer(&self) -> MutexGuard<'_, StreamTimer> {
        self.stream_timer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// For the stream.
impl<K, V> Inner<K, V> {
    /// The stream is polled: nobody needs to call it.
    pub(in crate::keyed::delay_map) fn stop_waiting(&self) {
        self.lookout.stops_waiting();
    }

    /// The stream is going to wait, with this waker.
    pub(in crate::keyed::delay_map) fn start_waiting(&self, waker: &Waker) {
        if !self.lookout.has(waker) {
            // Wakers are cloned and dropped under no lock.
            let replaced = self.lookout.leave(waker.clone());
            drop(replaced);
        }
        self.lookout.begins_to_wait();
    }

    /// Sets the stream's timer to the earliest and polls it; ready if that has come. To be called
    /// after `start_waiting`.
    pub(in crate::keyed::delay_map) fn poll_stream_timer(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Closed>> {
        loop {
            let Some(key) = self.set_stream_timer_to_earliest() else {
                // Armed for no time at first, so that a removal which comes before it is set is not
                // overlooked.
                match self.shard.arm_for_never(cx.waker().clone()) {
                    Ok(key) => self.stream_timer().armed(key, NEVER),
                    Err(NotArmed::Fired) => {}
                    Err(NotArmed::Closed) => return Poll::Ready(Err(Closed)),
                }
                continue;
            };
            // The stream's timer's lock is let go: a waker is cloned and dropped here.
            return match self.shard.poll_armed(key, Due::At(Moment::MAX), cx.waker()) {
                Polled::Pending => Poll::Pending,
                Polled::Closed => Poll::Ready(Err(Closed)),
                Polled::Fired => {
                    self.stream_timer().take();
                    Poll::Ready(Ok(()))
                }
            };
        }
    }

    fn set_stream_timer_to_earliest(&self) -> Option<Key> {
        let mut stream_timer = self.stream_timer();
        self.lookout.begins_to_wait();
        let earliest = self.looked_for();
        let key = stream_timer.move_to(&self.shard, earliest);
        self.lookout.waits_until(earliest);
        key
    }

    /// Whether there is something to look for now. To be asked after `start_waiting`.
    pub(in crate::keyed::delay_map) fn is_looked_for_now(&self) -> bool {
        self.looked_for() <= self.clock().current_tick()
    }

    /// The stream has ended: nothing of it stays armed.
    pub(in crate::keyed::delay_map) fn stop_stream_timer(&self) {
        let armed = self.stream_timer().take();
        if let Some(key) = armed {
            self.shard.disarm(key);
        }
        drop(self.lookout.call());
    }
}
