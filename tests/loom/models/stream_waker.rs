//! The waker of a map's stream: interleavings of changes with a stream that begins to wait, or
//! whose timer is taken away.

use std::task::Poll;

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{count, counting, with_few_preemptions};
use crate::clock::tick::Tick;
use crate::keyed::stream_waker::StreamWaker;

const NEVER: u64 = Tick::NEVER.get();

/// A map with two parts. Each is only the tick at which something in it is due.
struct Watched {
    waker: StreamWaker,
    /// The tick of each part, and its lock.
    parts: [Mutex<u64>; 2],
    /// The tick at which the stream is woken; `NEVER` where it has no timer.
    timer: Mutex<u64>,
}

impl Watched {
    fn new() -> Arc<Watched> {
        Arc::new(Watched {
            waker: StreamWaker::new(2),
            parts: [Mutex::new(NEVER), Mutex::new(NEVER)],
            timer: Mutex::new(NEVER),
        })
    }

    /// Sets something for a tick, where time cannot jump.
    fn set(&self, part: usize, tick: u64) {
        let mut locked = self.parts[part].lock().unwrap();
        *locked = tick.min(*locked);
        wake(self.waker.lower(part, Tick::new(tick), locked));
    }

    /// Sets the only thing of a part for a tick, or takes it out, where time may jump.
    fn replace(&self, part: usize, tick: u64) {
        let mut locked = self.parts[part].lock().unwrap();
        *locked = tick;
        let take_timer_away = || *self.timer.lock().unwrap() = NEVER;
        wake(
            self.waker
                .replace(part, Tick::new(tick), locked, take_timer_away),
        );
    }

    /// The stream is polled, and returns the tick until which it waits.
    fn poll(&self, waker: &std::task::Waker) -> u64 {
        self.waker.stop_waiting();
        self.waker.register(waker);
        let mut waits_until = NEVER;
        let set = self.waker.wait(|earliest| {
            waits_until = earliest.get();
            *self.timer.lock().unwrap() = waits_until;
            Poll::<()>::Pending
        });
        assert!(set.is_pending());
        waits_until
    }
}

fn wake(waker: Option<std::task::Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Fails when `NextCheck` has no fence between its two steps, on either side.
#[test]
fn a_stream_that_waits_too_long_is_woken() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let (woken, waker) = counting();
        let sets = [(0, 0), (1, 5)].map(|(part, tick)| {
            let watched = watched.clone();
            thread::spawn(move || watched.set(part, tick))
        });
        let waits_until = watched.poll(&waker);
        for set in sets {
            set.join().unwrap();
        }
        let is_woken = count(&woken) > 0;
        assert!(is_woken || waits_until == 0, "it waits until {waits_until}");
    });
}

/// Fails when a call that takes the timer away does not wake the stream.
#[test]
fn a_stream_whose_timer_is_taken_away_is_woken() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let (woken, waker) = counting();
        watched.replace(0, 3);
        assert_eq!(watched.poll(&waker), 3);
        let set = {
            let watched = watched.clone();
            thread::spawn(move || watched.replace(1, 5))
        };
        watched.replace(0, NEVER);
        set.join().unwrap();
        assert!(count(&woken) > 0 || *watched.timer.lock().unwrap() <= 5);
    });
}

/// Fails when the call asks whether the stream waits before it writes the earliest tick, or before
/// it takes the timer away.
#[test]
fn a_stream_whose_timer_is_taken_away_does_not_wait_too_long() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let (woken, waker) = counting();
        watched.replace(0, 3);
        watched.replace(1, 5);
        watched.poll(&waker);
        let taking = {
            let watched = watched.clone();
            thread::spawn(move || watched.replace(0, NEVER))
        };
        let before = count(&woken);
        let waits_until = watched.poll(&waker);
        taking.join().unwrap();
        let timer = *watched.timer.lock().unwrap();
        assert!(
            timer == 5 || count(&woken) > before,
            "{waits_until} {timer}"
        );
    });
}

/// Fails when `lower` releases the lock before it writes the tick.
#[test]
fn of_two_changes_of_one_part_the_earlier_stays() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let sets = [3, 5].map(|tick| {
            let watched = watched.clone();
            thread::spawn(move || watched.set(0, tick))
        });
        for set in sets {
            set.join().unwrap();
        }
        assert_eq!(watched.waker.earliest.of_all(), Tick::new(3));
    });
}

/// Fails when `lies_between` has no fence.
#[test]
fn a_stream_waits_for_nothing_that_is_gone() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let (woken, waker) = counting();
        watched.replace(0, 2);
        watched.replace(1, 5);
        assert_eq!(watched.poll(&waker), 2);
        let taking = {
            let watched = watched.clone();
            thread::spawn(move || watched.replace(1, NEVER))
        };
        watched.replace(0, NEVER);
        let before = count(&woken);
        watched.poll(&waker);
        taking.join().unwrap();
        let timer = *watched.timer.lock().unwrap();
        assert!(timer == NEVER || count(&woken) > before, "{timer}");
    });
}

/// Fails when the stream does not stop waiting, or does not say until when it waits.
#[test]
fn a_change_wakes_no_stream_that_comes_in_time() {
    loom::model(|| {
        let watched = Watched::new();
        let (woken, waker) = counting();
        watched.set(0, 3);
        watched.poll(&waker);
        watched.set(1, 5);
        assert_eq!(count(&woken), 0, "it waits until 3");
        watched.waker.stop_waiting();
        watched.set(1, 2);
        assert_eq!(count(&woken), 0, "it runs");
    });
}
