//! The waker of a map's stream: every interleaving of changes with a stream that begins to wait, or
//! whose timer is taken away.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::{count, counting, with_few_preemptions};
use crate::clock::tick::Tick;
use crate::keyed::stream_waker::StreamWaker;
use crate::sync::{AtomicU64, Ordering};

const NEVER: u64 = Tick::NEVER.get();

/// A map with two parts of which only the ticks are left, at which something is due in them.
struct Watched {
    waker: StreamWaker,
    parts: [AtomicU64; 2],
    /// The tick at which the stream is woken; `NEVER` where it has no timer.
    timer: Mutex<u64>,
}

impl Watched {
    fn new() -> Arc<Watched> {
        Arc::new(Watched {
            waker: StreamWaker::new(),
            parts: [AtomicU64::new(NEVER), AtomicU64::new(NEVER)],
            timer: Mutex::new(NEVER),
        })
    }

    fn earliest(&self) -> u64 {
        let ticks = self.parts.iter().map(|part| part.load(Ordering::Acquire));
        ticks.min().unwrap()
    }

    /// Sets something for a tick: C1 to C3.
    fn set(&self, part: usize, tick: u64) {
        self.parts[part].store(tick, Ordering::Release);
        if self.waker.is_needed_for(Tick::new(tick)) {
            self.wake();
        }
    }

    /// The earliest has gone, where time may jump.
    fn take_out(&self, part: usize) {
        let before = self.parts[part].swap(NEVER, Ordering::AcqRel);
        let needs_wake_for = |tick| self.waker.is_needed_for(tick);
        if !needs_wake_for(Tick::new(before - 1)) && needs_wake_for(Tick::FIRST) {
            return;
        }
        *self.timer.lock().unwrap() = NEVER;
        if needs_wake_for(Tick::FIRST) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The stream is polled, and returns the tick until which it waits.
    fn poll(&self, waker: &std::task::Waker) -> u64 {
        self.waker.next_check.at(Tick::FIRST);
        self.waker.register(waker);
        let earliest = self.waker.next_check.begin(|| self.earliest());
        *self.timer.lock().unwrap() = earliest;
        self.waker.next_check.at(Tick::new(earliest));
        earliest
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
        watched.set(0, 3);
        assert_eq!(watched.poll(&waker), 3);
        let set = {
            let watched = watched.clone();
            thread::spawn(move || watched.set(1, 5))
        };
        watched.take_out(0);
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
        watched.set(0, 3);
        watched.set(1, 5);
        watched.poll(&waker);
        let taking = {
            let watched = watched.clone();
            thread::spawn(move || watched.take_out(0))
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
