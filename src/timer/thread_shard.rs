//! Which shard of a timer a thread takes: the number that spreads threads over shards.
//!
//! | the timer was built on | the thread | its number |
//! |---|---|---|
//! | a multi-thread runtime | is a worker of that runtime | the worker's index, which no other worker has |
//! | a multi-thread runtime | is any other | a number of its own, beyond the workers' |
//! | a current-thread runtime, or none | is any | a number of its own |
//!
//! Before 1.54 tokio does not tell the index, and a worker counts as any other thread. An index is
//! read each time, because `block_in_place` moves a worker to another thread. A free function reads
//! it when it makes a sleep, and not again when the sleep arms. On another worker by then, the
//! sleep arms on the shard where that worker last made one. An index counts only in the timer's own
//! runtime, because each runtime counts its workers from zero.
//!
//! A thread's own number is the smallest that no living thread has, so short-lived threads push no
//! other one into a shared shard. The first one is that of `block_on` in most programs.
//!
//! Invariant: only the cost of a lock depends on the number. A thread's knowledge of its runtime
//! may be out of date: it is set where the thread first is a worker, and where it looks up the
//! current runtime's timer.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::runtime::{self, Handle, RuntimeFlavor};
use crate::sync::lock;

#[derive(Clone, Copy, Debug)]
pub(super) enum Spread {
    Workers {
        runtime: runtime::Id,
        workers: usize,
    },
    Threads,
}

std::thread_local! {
    /// The runtime that this thread drives, as far as it knows.
    static DRIVEN: Cell<Option<runtime::Id>> = const { Cell::new(None) };

    /// The worker that this thread was when it last looked up the current runtime's timer.
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };

    static OWN: OwnNumber = OwnNumber(acquire());
}

struct OwnNumber(usize);

impl Drop for OwnNumber {
    fn drop(&mut self) {
        lock(&NUMBERS).free.insert(self.0);
    }
}

/// The numbers that no thread has: those that were given back, and all from `next` on.
struct Numbers {
    free: BTreeSet<usize>,
    next: usize,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers {
    free: BTreeSet::new(),
    next: 0,
});

fn acquire() -> usize {
    let Numbers { free, next } = &mut *lock(&NUMBERS);
    free.pop_first().unwrap_or_else(|| {
        *next += 1;
        *next - 1
    })
}

impl Spread {
    pub(super) fn on(handle: &Handle) -> Spread {
        match handle.runtime_flavor() {
            RuntimeFlavor::CurrentThread => Spread::Threads,
            _ => Spread::Workers {
                runtime: handle.id(),
                workers: handle.metrics().num_workers(),
            },
        }
    }

    pub(super) fn threads(self) -> usize {
        match self {
            Spread::Workers { workers, .. } => workers + 1,
            Spread::Threads => 1,
        }
    }

    #[inline]
    pub(super) fn number(self) -> usize {
        match self {
            Spread::Threads => own_number(),
            Spread::Workers { runtime, workers } => match runtime::worker_index() {
                Some(index) if drives(runtime) => index,
                _ => workers + own_number(),
            },
        }
    }
}

/// Notes which worker this thread is, if any, of the current runtime.
pub(super) fn note_worker(runtime: runtime::Id) {
    let index = runtime::worker_index();
    WORKER.with(|worker| worker.set(index));
    if index.is_some() {
        DRIVEN.with(|driven| driven.set(Some(runtime)));
    }
}

/// Whether the thread was this worker, or none, when it last looked up the current runtime's timer.
#[inline]
pub(super) fn was_worker(index: Option<usize>) -> bool {
    WORKER.with(Cell::get) == index
}

/// Whether the calling thread, a worker of some runtime, is a worker of this one.
#[inline]
fn drives(runtime: runtime::Id) -> bool {
    #[cold]
    fn find_out() -> Option<runtime::Id> {
        let current = Handle::try_current().ok()?.id();
        DRIVEN.with(|driven| driven.set(Some(current)));
        Some(current)
    }
    DRIVEN.with(Cell::get).or_else(find_out) == Some(runtime)
}

#[inline]
fn own_number() -> usize {
    // A thread that is ending has given its number back, and shares that of another.
    OWN.try_with(|own| own.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::thread;
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::runtime::{Builder, Runtime};
    use tokio::task::block_in_place;

    use super::*;
    use crate::future::sleep::FindShard;
    use crate::runtime::workers;
    use crate::timer::{Timer, local};

    const THREADS: usize = 4;

    fn current_thread() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn a_thread_of_another_runtime_takes_no_workers_shard() {
        for (runtime, first) in [(current_thread(), 0), (workers(1), 1), (workers(2), 2)] {
            let settings = Timer::builder().shards(1_024);
            let timer = settings.build_on(runtime.handle()).unwrap();
            let check = move || assert_eq!(timer.shard().index(), first + own_number());
            check();
            current_thread().block_on(async { check() });
            let other = workers(1);
            let task = other.spawn(async move { check() });
            other.block_on(task).unwrap();
        }
    }

    #[test]
    fn a_number_is_one_threads_alone_and_free_once_that_has_ended() {
        for _ in 0..300 {
            let all_have = Barrier::new(THREADS);
            let take = || {
                let number = own_number();
                all_have.wait();
                number
            };
            let numbers: BTreeSet<_> = thread::scope(|scope| {
                let threads = [0; THREADS].map(|_| scope.spawn(take));
                threads.map(|thread| thread.join().unwrap()).into()
            });
            assert_eq!(numbers.len(), THREADS);
            // Other tests have threads too.
            assert!(numbers.iter().all(|&number| number < 1_000));
        }
    }

    /// A thread that has blocked in place, or has driven another runtime, may later be any worker.
    #[test]
    fn a_worker_keeps_its_shard_when_it_is_handed_over() {
        let runtime = workers(THREADS);
        let built = Timer::builder().build_on(runtime.handle()).unwrap();
        let look = async |busy: Arc<AtomicUsize>, built: Timer, find: FindShard| {
            // For a while only, since a worker may lie idle though a task waits behind another.
            busy.fetch_add(1, Ordering::SeqCst);
            let begun = std::time::Instant::now();
            while busy.load(Ordering::SeqCst) < THREADS && begun.elapsed().as_millis() < 50 {
                thread::yield_now();
            }
            // First, because the others make the thread remember another shard.
            let found = find().index();
            let shards = [built.shard().index(), Timer::current().shard().index()];
            // Older releases of tokio do not report it.
            let index = runtime::worker_index()?;
            Some(((found, shards), (index, [index; 2])))
        };
        let block = async || {
            drop(local::shard());
            block_in_place(|| thread::sleep(Duration::from_micros(fastrand::u64(..500))));
            drop(local::shard());
        };
        let finds: [FindShard; 2] = [local::shard, || {
            // As a free function does when it makes the sleep.
            local::ensure_worker_timer();
            local::shard_of_poller()
        }];
        for find in finds.repeat(20) {
            // Each worker is busy with one of these, as a rule.
            let busy = Arc::new(AtomicUsize::new(0));
            let look = || look(busy.clone(), built.clone(), find);
            let looks = (0..THREADS).map(|_| runtime.spawn(look()));
            for seen in runtime.block_on(join_all(looks)) {
                if let Some((found, expected)) = seen.unwrap() {
                    assert_eq!(found, expected);
                }
            }
            let drives = (0..5).map(|_| {
                let built = built.clone();
                let drive = async move { drop(built.shard().clone()) };
                runtime.spawn_blocking(|| current_thread().block_on(drive))
            });
            let blocks = (0..50).map(|_| runtime.spawn(block()));
            runtime.block_on(join_all(drives.chain(blocks)));
        }
    }
}
