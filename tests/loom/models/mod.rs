//! One file for each part that is modelled. Each model names the mutation under which it was seen
//! to fail.

mod alarm;
mod earliest;
mod stalls;
mod stream_waker;
mod turned_to;
mod waiters;
mod waits;
mod word;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// Counts how often it is woken; loom need not know of it.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counting() -> (Arc<Woken>, Waker) {
    let woken = Arc::new(Woken::default());
    (woken.clone(), Waker::from(woken))
}

fn count(woken: &Woken) -> usize {
    woken.0.load(Ordering::SeqCst)
}

/// Runs the interleavings with at most two preemptions. Many models have too many for all of them,
/// and a lost change shows with few.
fn with_few_preemptions(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}
