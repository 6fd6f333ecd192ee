//! What the progress line tells: counts over all programs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use tokio::time::{Duration, Instant};

#[derive(Debug)]
pub struct Totals {
    pub programs: AtomicU64,
    pub fired: AtomicU64,
    pub calls: AtomicU64,
    /// Beyond a tick, in microseconds, of sleeps in programs without faults that make them late.
    lateness: Mutex<Histogram<u64>>,
}

impl Totals {
    pub fn new() -> Totals {
        Totals {
            programs: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            lateness: Mutex::new(Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap()),
        }
    }

    pub fn add_fired(&self, fired: u64) {
        self.fired.fetch_add(fired, Ordering::Relaxed);
    }

    pub fn add_calls(&self, calls: usize) {
        self.calls.fetch_add(calls as u64, Ordering::Relaxed);
    }

    pub fn add_lateness(&self, due: Instant) {
        let late = due.elapsed().as_micros() as u64;
        self.lateness.lock().unwrap().saturating_record(late.max(1));
    }

    /// Of the given quantile.
    pub fn lateness(&self, quantile: f64) -> Duration {
        let lateness = self.lateness.lock().unwrap();
        Duration::from_micros(lateness.value_at_quantile(quantile))
    }
}
