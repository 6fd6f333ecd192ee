//! What the progress line tells: counts over all programs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub struct Totals {
    pub programs: AtomicU64,
    pub fired: AtomicU64,
    pub calls: AtomicU64,
    /// How many programs each kind of child has run.
    beside: Mutex<BTreeMap<&'static str, u64>>,
}

impl Default for Totals {
    fn default() -> Totals {
        Totals {
            programs: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            beside: Mutex::default(),
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
}
