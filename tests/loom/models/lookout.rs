//! The lookout of a map's stream: every interleaving of changes with a stream that begins to wait
//! or is put off.

use loom::sync::{Arc, Mutex};
use loom::thread;

use super::with_few_preemptions;
use crate::keyed::lookout::Lookout;
use crate::sync::{AtomicU64, Ordering};
use crate::time::tick::NEVER;

/// A map with two parts of which only the ticks are left, at which something is due in them.
struct Watched {
    lookout: Lookout,
    parts: [AtomicU64; 2],
    /// The tick at which the stream is woken; `NEVER` where it has no timer, which it alone arms.
    alarm: Mutex<u64>,
}

/// Counts how often it is woken; loom need not know of it.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Watched {
    fn new() -> Arc<Watched> {
        Arc::new(Watched {
            lookout: Lookout::new(),
            parts: [AtomicU64::new(NEVER), AtomicU64::new(NEVER)],
            alarm: Mutex::new(NEVER),
        })
    }

    fn earliest(&self) -> u64 {
        let ticks = self.parts.iter().map(|part| part.load(Ordering::Acquire));
        ticks.min().unwrap()
    }

    /// Sets something for a tick.
    fn set(&self, part: usize, tick: u64) {
        self.parts[part].store(tick, Ordering::Release);
        if self.lookout.is_called_for(tick) {
            if let Some(waker) = self.lookout.call() {
                waker.wake();
            }
        }
    }

    /// The earliest has gone: the stream is put off to what is left.
    fn take_out(&self, part: usize) {
        self.parts[part].store(NEVER, Ordering::Release);
        let mut alarm = self.alarm.lock().unwrap();
        let waits = self.lookout.put_off_look();
        let earliest = self.earliest();
        let is_armed = *alarm != NEVER;
        if is_armed {
            *alarm = earliest;
        }
        if waits {
            self.lookout.waits_on_until(earliest);
        }
        drop(alarm);
        if waits && earliest != NEVER && !is_armed {
            if let Some(waker) = self.lookout.call() {
                waker.wake();
            }
        }
    }

    /// The stream is polled, and gives the tick until which it waits.
    fn poll(&self, waker: &std::task::Waker) -> u64 {
        self.lookout.stops_waiting();
        drop(self.lookout.leave(waker.clone()));
        let mut alarm = self.alarm.lock().unwrap();
        self.lookout.begins_to_wait();
        *alarm = self.earliest();
        self.lookout.waits_until(*alarm);
        *alarm
    }
}

/// Fails when `NextLook` has no fence between its two steps, on either side.
#[test]
fn a_stream_that_waits_too_long_is_called() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(woken.clone());
        let sets = [(0, 0), (1, 5)].map(|(part, tick)| {
            let watched = watched.clone();
            thread::spawn(move || watched.set(part, tick))
        });
        let waits_until = watched.poll(&waker);
        for set in sets {
            set.join().unwrap();
        }
        let was_called = woken.0.load(std::sync::atomic::Ordering::Relaxed) > 0;
        assert!(
            was_called || waits_until == 0,
            "it waits until {waits_until}"
        );
    });
}

/// Fails when `NextLook::begin_for_another` leaves the tick as it was.
#[test]
fn a_stream_that_was_put_off_is_called_for_what_comes_in_between() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(woken.clone());
        watched.set(0, 3);
        assert_eq!(watched.poll(&waker), 3);
        let set = {
            let watched = watched.clone();
            thread::spawn(move || watched.set(1, 5))
        };
        watched.take_out(0);
        set.join().unwrap();
        let was_called = woken.0.load(std::sync::atomic::Ordering::Relaxed) > 0;
        assert!(was_called || *watched.alarm.lock().unwrap() <= 5);
    });
}

/// Fails when a call that puts a stream off which has no timer does not call it.
#[test]
fn a_stream_without_a_timer_is_called_by_one_of_two_calls() {
    with_few_preemptions(|| {
        let watched = Watched::new();
        let woken = std::sync::Arc::new(Woken::default());
        let waker = std::task::Waker::from(woken.clone());
        assert_eq!(watched.poll(&waker), NEVER);
        let set = {
            let watched = watched.clone();
            thread::spawn(move || watched.set(0, 5))
        };
        watched.take_out(1);
        set.join().unwrap();
        assert!(woken.0.load(std::sync::atomic::Ordering::Relaxed) > 0);
    });
}
