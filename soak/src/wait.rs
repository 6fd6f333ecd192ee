//! Which tasks wait now, and from when on they should not: nothing that is due sleeps.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{AbortHandle, Abortable};
use tokio::time::{Duration, Instant};

/// A moment that several threads push later, never earlier.
#[derive(Clone)]
pub struct Latest {
    start: Instant,
    nanos: Arc<AtomicU64>,
}

impl Latest {
    pub fn new(first: Instant) -> Latest {
        Latest {
            start: first,
            nanos: Arc::default(),
        }
    }

    pub fn push(&self, to: Instant) {
        let nanos = to.saturating_duration_since(self.start).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.nanos.fetch_max(nanos, Ordering::SeqCst);
    }

    pub fn get(&self) -> Instant {
        let nanos = Duration::from_nanos(self.nanos.load(Ordering::SeqCst));
        self.start + nanos
    }
}

/// What a task waits for.
pub struct Wait {
    pub what: &'static str,
    /// From when on it is wrong that the wait still goes on, if that is known.
    pub due: Box<dyn Fn() -> Option<Instant> + Send>,
    /// What the crate shows of it.
    pub state: Box<dyn Fn() -> String + Send>,
}

struct Waiting {
    wait: Wait,
    abort: AbortHandle,
    /// For so many beats of the watch it has been due, on a machine that was not starved.
    beats: u32,
}

/// All waits of one program.
#[derive(Default)]
pub struct Waits {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiting>>,
}

/// Takes its wait out when it ends, however it ends.
struct Guard {
    waits: Arc<Waits>,
    id: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let waiting = self.waits.waiting.lock().unwrap().remove(&self.id);
        drop(waiting);
    }
}

impl Waits {
    /// Waits, and is watched meanwhile. `None` if the wait was found to sleep for ever.
    pub fn wait<F: Future>(
        self: &Arc<Waits>,
        wait: Wait,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + use<F> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (abort, registration) = AbortHandle::new_pair();
        let waiting = Waiting {
            wait,
            abort,
            beats: 0,
        };
        self.waiting.lock().unwrap().insert(id, waiting);
        let guard = Guard {
            waits: self.clone(),
            id,
        };
        async move {
            let result = Abortable::new(future, registration).await;
            drop(guard);
            result.ok()
        }
    }

    /// The latest due of those that wait and whose due is known.
    pub fn latest(&self) -> Option<Instant> {
        let waiting = self.waiting.lock().unwrap();
        waiting.values().filter_map(|one| (one.wait.due)()).max()
    }

    /// Counts a beat of the watch for each that sleeps though it is due. Ends and reports those
    /// that have slept for so many.
    pub fn overslept(&self, beats: u32) -> Vec<String> {
        let now = Instant::now();
        let mut waiting = self.waiting.lock().unwrap();
        let mut overslept = Vec::new();
        for one in waiting.values_mut() {
            match (one.wait.due)() {
                Some(due) if due < now => {
                    one.beats += 1;
                    if one.beats == beats {
                        let since = now - due;
                        let state = (one.wait.state)();
                        overslept.push((one.abort.clone(), one.wait.what, since, state));
                    }
                }
                _ => one.beats = 0,
            }
        }
        drop(waiting);
        let texts = overslept.into_iter().map(|(abort, what, since, state)| {
            abort.abort();
            format!("{what} sleeps, and was due {since:?} ago: {state}")
        });
        texts.collect()
    }

    /// Ends all waits, without a word.
    pub fn abort(&self) {
        let waiting = self.waiting.lock().unwrap();
        let aborts: Vec<_> = waiting.values().map(|one| one.abort.clone()).collect();
        drop(waiting);
        aborts.iter().for_each(AbortHandle::abort);
    }

    pub fn texts(&self) -> Vec<String> {
        let waiting = self.waiting.lock().unwrap();
        let texts = waiting
            .values()
            .map(|one| format!("{}, {:?}", one.wait.what, (one.wait.due)()));
        texts.collect()
    }
}
