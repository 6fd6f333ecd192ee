//! The hand-shake: how a call that changes a [`DelayMap`](crate::DelayMap) makes its stream look in
//! time.
//!
//! The stream takes out what is due. When nothing is due it *waits*, and says until which tick. A
//! timer wakes it at that tick. A call that makes something due earlier wakes it before that.
//!
//! ```text
//!   a call that makes a change                  the stream
//!   --------------------------                  ----------
//!   C1  with the part locked: change the part   S1  look by itself (`stop_waiting`)
//!       and tell `states`                       S2  search the parts, take what is due
//!   C2  with the part unlocked: ask whether     S3  put the waker into `lookout`, begin a look (`start_waiting`)
//!       the stream has to be called             S4  read `states`: nothing to look for, not finished
//!   C3  call it, under no lock                  S5  with its timer locked: begin a look, read `states`,
//!                                                   set the timer, say until when (`poll_stream_timer`)
//!                                               S6  poll the timer, and wait
//! ```
//!
//! On a clock that can be paused, each change has one more step:
//!
//! - **C4** With the stream's timer locked: begin a look for the stream, read `states`, set its
//!   timer, and say until when it waits. Without this, the timer would pull virtual time along to
//!   an item that is gone.
//!
//! Invariant: no wake-up is lost. Take a moment in which the stream waits, and no call is between
//! C1 and its last step. Then the timer is set for the earliest tick of `states` or before, or the
//! stream was called.
//!
//! # Ground rules
//!
//! What each lock guards:
//!
//! - **G1** The lock of a part guards what is in the part, and every write of its state in
//!   `states`. Anybody reads a state without the lock.
//! - **G2** The lock of `stream_timer` guards which timer wakes the stream, and for which tick it
//!   is set. S5 and C4 hold it while they set the timer and say until when the stream waits.
//! - **G3** The lock in `lookout` guards the waker of the stream, and nothing else.
//!
//! In which order locks are taken:
//!
//! - **G4** The lock for making parts comes first, and then the parts: one alone, or all in their
//!   order. No other lock of the map is taken with a part locked.
//! - **G5** The lock of `stream_timer` comes first, and then that of a shard of the timer. Neither
//!   is taken with a part locked, and no part is locked with `stream_timer` locked.
//! - **G6** The map clones, wakes and drops the stream's waker under none of these locks. Nor does
//!   it tell the driver that a timer was moved: a driver that finds the runtime's end there wakes
//!   whoever waits.
//!
//! Who may touch what:
//!
//! - **G7** Only the stream begins and stops to wait, puts its waker into `lookout`, arms its
//!   timer, and takes the timer's key. Calls only move the timer, in C4.
//! - **G8** C2 and C3 come after C1, with no part locked.
//!
//! # Orders that could go wrong, and why they do not
//!
//! - *A change comes as the stream begins to wait.* C1 and C2 are the two steps of a change. S3 and
//!   S4 are those of a look, and S5 has both of them. `time::next_look` proves that one of the two
//!   sees the other.
//! - *A change finds that another one has told an earlier tick.* That other one is at C1 or later.
//!   If the stream has to be called, it calls the stream in its C3, for both.
//! - *What was found ahead by a fraction of a tick becomes due between S4 and S5.* The stream looks
//!   again. If it waited for a timer that is set to a tick of the past, a call could set that timer
//!   anew before it fires (C4), while the stream seems to look by itself, and nobody would call it.
//! - *A call finds what another one has told, and the stream has no timer.* It calls the stream in
//!   its C4. The other one may find in its C2 that the stream waits until then, and call nobody.
//! - *The earliest item goes, on the system's clock.* Nobody moves the timer. The stream looks once
//!   too early, and waits again.
//! - *The map is closed, or its last handle is dropped, as the stream begins to wait.* The call
//!   says so and then takes the waker. The stream puts its waker into `lookout` and then looks
//!   (S4). The lock in `lookout` orders the two, so the stream sees it or is woken.

use std::sync::{MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Closed, Inner, LockedPart};
use crate::keyed::delay_map::part::Setting;
use crate::keyed::delay_map::stream_timer::{Moved, StreamTimer};
use crate::shard::{NotArmed, Polled};
use crate::time::due::Due;
use crate::time::tick::{Moment, NEVER};
use crate::waking::wake;
use crate::wheel::Key;

/// What the stream does next.
enum Waits {
    /// Something has become due since the stream looked, and it looks again.
    LooksNow,
    /// Nothing will be due, unless a call changes that.
    ForCalls,
    /// For its timer, or a call. `None` if no timer is armed.
    ForTimer(Option<Key>),
}

/// For whoever changes the map.
impl<K, V> Inner<K, V> {
    /// C2 to C4, to be called after something was set. Unlocks the part, and makes the stream look
    /// in time.
    pub(in crate::keyed::delay_map) fn plan_for(
        &self,
        locked: LockedPart<'_, K, V>,
        setting: Setting,
    ) {
        if self.clock().is_pausable() {
            return self.plan_again(locked);
        }
        let LockedPart { part, number } = locked;
        let mut is_earlier = self.states.tell_due(number, &part);
        if let Some(tick) = setting.tick {
            is_earlier |= self.states.tell_waiting(number, tick);
        }
        // Before C2 (G8).
        drop(part);
        // If it is not earlier, the call that told the earlier one calls the stream in its own C3,
        // and so for this one too.
        if is_earlier {
            self.call_for(setting.tick.unwrap_or(0));
        }
    }

    /// To be called after something was taken out. Unlocks the part. On the system's clock there is
    /// nothing to call the stream for.
    pub(in crate::keyed::delay_map) fn plan_without(&self, locked: LockedPart<'_, K, V>) {
        if self.clock().is_pausable() {
            return self.plan_again(locked);
        }
        self.states.tell_due(locked.number, &locked.part);
    }

    /// C2 to C4, to be called after a part was changed in whatever way. Unlocks the part, and makes
    /// the stream look in time. On a clock that can be paused, it does not look too early either.
    pub(in crate::keyed::delay_map) fn plan_again(
        &self,
        LockedPart { part, number }: LockedPart<'_, K, V>,
    ) {
        self.states.tell(number, &part);
        let (first, earliest) = (self.states.first_due(number), part.earliest());
        drop(part);
        // Something may be due now. The stream finds out whether it is.
        let tick = if first == NEVER {
            earliest.unwrap_or(NEVER)
        } else {
            0
        };
        self.call_for(tick);
        self.set_stream_timer_anew();
    }

    /// C2 and C3, for what is due at `tick`.
    fn call_for(&self, tick: u64) {
        if self.lookout.is_called_for(tick) {
            self.call_stream();
        }
    }

    /// C3: wakes the task that waits for the stream, if it waits. To be called under no lock.
    pub(in crate::keyed::delay_map) fn call_stream(&self) {
        if let Some(waker) = self.lookout.call() {
            wake(waker);
        }
    }

    /// C4: on a clock that can be paused, sets the stream's timer to the earliest.
    ///
    /// A stream that waits with no timer is called, to arm one. While something is due, the timer
    /// is set for no time at all, and this calls the stream. A
    /// search may find an item before its deadline, and the timer was to tell the stream when the
    /// deadline passes. It may have passed by now.
    ///
    /// This is not left to the stream, because perhaps nobody polls it now. On the system's clock
    /// one look too early is cheaper.
    pub(super) fn set_stream_timer_anew(&self) {
        if !self.clock().is_pausable() {
            return;
        }
        let mut stream_timer = self.stream_timer();
        let waits = self.lookout.put_off_look();
        let looked_for = self.looked_for();
        let (earliest, moved) = match looked_for {
            NEVER => (NEVER, stream_timer.unset()),
            // It stays armed for what the next call may leave.
            0 => (NEVER, stream_timer.move_to(&self.shard, NEVER)),
            tick => (tick, stream_timer.move_to(&self.shard, tick)),
        };
        if waits {
            self.lookout.waits_on_until(earliest);
        }
        drop(stream_timer);
        let is_armed = self.finish(moved).is_some();
        // Only the stream arms its timer. The call that has made this change may find that the
        // stream waits until then, and not call it.
        if waits && looked_for != NEVER && (looked_for == 0 || !is_armed) {
            self.call_stream();
        }
    }

    /// The tick at which there is something to look for, or zero if there is something now.
    fn looked_for(&self) -> u64 {
        let earliest = self.states.earliest_of_all();
        let first = self.states.first_dues().min().unwrap_or(NEVER);
        if earliest == NEVER && first == NEVER {
            return NEVER;
        }
        // The clock is read after the states, so it is no earlier than the reading of a call that
        // has made something due.
        let (now, tick) = (self.clock().now(), self.clock().tick());
        // What was found may lie ahead by a fraction of a tick.
        let found = (first != NEVER).then(|| Moment::from_bits(first));
        if earliest <= tick.current(now) || found.is_some_and(|found| found <= now) {
            0
        } else {
            earliest.min(found.map_or(NEVER, |found| tick.due(found)))
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
    /// S1: the stream is polled, and nobody needs to call it.
    pub(in crate::keyed::delay_map) fn stop_waiting(&self) {
        self.lookout.stops_waiting();
    }

    /// S3: the stream is going to wait, with this waker.
    pub(in crate::keyed::delay_map) fn start_waiting(&self, waker: &Waker) {
        if !self.lookout.has(waker) {
            // Cloned and dropped under no lock (G6).
            let replaced = self.lookout.leave(waker.clone());
            drop(replaced);
        }
        self.lookout.begins_to_wait();
    }

    /// S5 and S6: sets the stream's timer to the earliest and polls it. Ready if that tick has
    /// come. To be called after `start_waiting`.
    pub(in crate::keyed::delay_map) fn poll_stream_timer(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Closed>> {
        loop {
            let key = match self.set_stream_timer_to_earliest() {
                Waits::LooksNow => return Poll::Ready(Ok(())),
                Waits::ForCalls => return Poll::Pending,
                Waits::ForTimer(Some(key)) => key,
                Waits::ForTimer(None) => {
                    // Armed for no time at first. Then the next pass sets it, after a new look, and
                    // overlooks no removal that comes in between.
                    match self.shard.arm_for_never(cx.waker().clone()) {
                        Ok(key) => self.stream_timer().armed(key, NEVER),
                        Err(NotArmed::Fired) => {}
                        Err(NotArmed::Closed) => return Poll::Ready(Err(Closed)),
                    }
                    continue;
                }
            };
            // A waker is cloned and dropped here, so the stream's timer is not locked (G6).
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

    /// S5.
    fn set_stream_timer_to_earliest(&self) -> Waits {
        // Locked until the stream has said until when it waits (G2).
        let mut stream_timer = self.stream_timer();
        self.lookout.begins_to_wait();
        let earliest = self.looked_for();
        if earliest == 0 {
            self.lookout.stops_waiting();
            return Waits::LooksNow;
        }
        let moved = if earliest == NEVER {
            stream_timer.unset()
        } else {
            stream_timer.move_to(&self.shard, earliest)
        };
        self.lookout.waits_until(earliest);
        drop(stream_timer);
        let key = self.finish(moved);
        if earliest == NEVER {
            Waits::ForCalls
        } else {
            Waits::ForTimer(key)
        }
    }

    /// Does what is left to do, with the stream's timer unlocked. Returns the key of the timer if
    /// it is armed.
    fn finish(&self, moved: Moved) -> Option<Key> {
        match moved {
            Moved::Armed(key, afterwards) => {
                afterwards.wake();
                Some(key)
            }
            Moved::Unset(key) => {
                self.shard.disarm(key);
                None
            }
            Moved::NotArmed => None,
        }
    }

    /// S4: whether there is something to look for now. To be asked after `start_waiting`.
    pub(in crate::keyed::delay_map) fn is_looked_for_now(&self) -> bool {
        self.looked_for() == 0
    }

    /// The stream has ended. Its timer is disarmed, and its waker is dropped.
    pub(in crate::keyed::delay_map) fn stop_stream_timer(&self) {
        let armed = self.stream_timer().take();
        if let Some(key) = armed {
            self.shard.disarm(key);
        }
        drop(self.lookout.call());
    }
}
