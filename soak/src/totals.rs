//! What the progress line tells: counts over all programs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use tokio::time::{Duration, Instant};

#[derive(Debug)]
pub struct Totals {
    pub programs: AtomicU64,
    pub fired: AtomicU64,
    pub calls: AtomicU64,
    /// Loads that were judged, and those that were not because others used the machine.
    pub loads: AtomicU64,
    pub void_loads: AtomicU64,
    /// How many programs each kind of child has run.
    beside: Mutex<BTreeMap<&'static str, u64>>,
    /// Beyond a tick, in microseconds, of sleeps in programs without faults that make them late.
    lateness: Mutex<Histogram<u64>>,
}

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            programs: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            void_loads: AtomicU64::new(0),
            beside: Mutex::default(),
            lateness: Mutex::new(Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap()),
        }
    }
}

impl Totals {
    pub fn add_fired(&self, fired: u64) {
        self.fired.fetch_add(fired, Ordering::Relaxed);
    }

    pub fn add_calls(&self, calls: usize) {
        self.calls.fetch_add(calls as u64, Ordering::Relaxed);
    }

    pub fn add_beside(&self, child: &'static str, programs: u64) {
        *self.beside.lock().unwrap().entry(child).or_default() += programs;
    }

    pub fn beside(&self, child: &str) -> u64 {
        let beside = self.beside.lock().unwrap();
        beside.get(child).copied().unwrap_or_default()
    }

    /// All programs, here and in children.
    pub fn all(&self) -> u64 {
        let beside: u64 = self.beside.lock().unwrap().values().sum();
        self.programs.load(Ordering::Relaxed) + beside
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
