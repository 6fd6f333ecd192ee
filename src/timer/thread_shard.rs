//! Which shard of a timer a thread takes: the number that spreads threads over shards.
//!
//! | the timer was built on | the thread | its number |
//! |---|---|---|
//! | a multi-thread runtime | is a worker of that runtime | the worker's index, which no other worker has |
//! | a multi-thread runtime | is any other | a number of its own, beyond the workers' |
//! | a current-thread runtime, or none | is any | a number of its own |
//!
//! An index belongs to a worker, not to a thread: `block_in_place` moves a worker to another
//! thread. So it is read each time. Each runtime counts its workers from zero, so the index does
//! not distinguish threads of several runtimes that share a timer.
//!
//! The first number beyond the workers' is for the thread of `block_on`, in most programs. It has a
//! shard by default.
//!
//! A thread's own number is the smallest that no living thread has. So the threads of a program lie
//! in different shards, whatever short-lived ones come and go.
//!
//! Invariant: only the cost of a lock depends on the number. A thread's knowledge of its runtime
//! may be out of date: it is set where the thread first is a worker, and where it looks up the
//! current runtime's timer.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::runtime::{self, Handle, RuntimeFlavor};

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

    /// `usize::MAX` until it is chosen. Without a destructor, so that a look is one read of a word.
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };

    static RELEASES: Releases = const { Releases(Cell::new(None)) };
}

struct Releases(Cell<Option<usize>>);

impl Drop for Releases {
    fn drop(&mut self) {
        if let Some(number) = self.0.get() {
            release(number);
        }
    }
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

pub(super) fn note_driven(runtime: runtime::Id) {
    DRIVEN.with(|driven| driven.set(Some(runtime)));
}

/// Whether the calling thread, a worker of some runtime, drives that runtime.
#[inline]
fn drives(runtime: runtime::Id) -> bool {
    #[cold]
    fn find_out() -> Option<runtime::Id> {
        let current = Handle::try_current().ok()?.id();
        note_driven(current);
        Some(current)
    }
    DRIVEN.with(Cell::get).or_else(find_out) == Some(runtime)
}

#[inline]
fn own_number() -> usize {
    match NUMBER.with(Cell::get) {
        usize::MAX => choose(),
        number => number,
    }
}

#[cold]
fn choose() -> usize {
    let number = acquire();
    NUMBER.with(|chosen| chosen.set(number));
    // A thread that is ending keeps its number for ever.
    let _ = RELEASES.try_with(|releases| releases.0.set(Some(number)));
    number
}

/// A bit for each number that a thread has. Relaxed throughout: nothing else depends on a number.
static TAKEN: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// The smallest free number; above a thousand, simply the next one.
fn acquire() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(TAKEN.len() * u64::BITS as usize);
    for (word, taken) in TAKEN.iter().enumerate() {
        let mut bits = taken.load(Ordering::Relaxed);
        while bits != u64::MAX {
            let free = (!bits).trailing_zeros();
            let with = bits | 1 << free;
            match taken.compare_exchange(bits, with, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return word * u64::BITS as usize + free as usize,
                Err(changed) => bits = changed,
            }
        }
    }
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn release(number: usize) {
    if let Some(taken) = TAKEN.get(number / u64::BITS as usize) {
        taken.fetch_and(!(1 << (number % u64::BITS as usize)), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::runtime::{Builder, Runtime};
    use tokio::task::block_in_place;

    use super::*;
    use crate::future::sleep::FindShard;
    use crate::timer::{Timer, local};

    const THREADS: usize = 4;

    fn current_thread() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn workers(number: usize) -> Runtime {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(number).enable_time();
        builder.build().unwrap()
    }

    /// Whether this release of tokio reports worker indices.
    fn tells_workers(runtime: &Runtime) -> bool {
        let index = runtime.spawn(async { runtime::worker_index() });
        runtime.block_on(index).unwrap().is_some()
    }

    type Look = Box<dyn FnOnce() -> usize + Send>;

    /// The shards of a timer that several threads take, while all of them live.
    fn shards_of(timer: &Timer, run: fn(Look) -> usize) -> Vec<usize> {
        let are_done = Arc::new(Barrier::new(THREADS));
        let threads = (0..THREADS).map(|_| {
            let (timer, are_done) = (timer.clone(), are_done.clone());
            thread::spawn(move || {
                let workers = match timer.inner.spread {
                    Spread::Workers { workers, .. } => workers,
                    Spread::Threads => 0,
                };
                run(Box::new(move || {
                    let shard = timer.shard().index();
                    // The shards before it are the workers'.
                    assert_eq!(shard, workers + own_number());
                    are_done.wait();
                    shard
                }))
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    }

    fn on_a_worker(run: Look) -> usize {
        let runtime = workers(1);
        let task = runtime.spawn(async move { run() });
        runtime.block_on(task).unwrap()
    }

    #[test]
    fn threads_of_several_runtimes_share_no_shard() {
        // So many that no two numbers of these tests share a shard.
        let settings = || Timer::builder().shards(1_024);
        let runtimes = [current_thread(), workers(1), workers(2)];
        let timers = runtimes
            .each_ref()
            .map(|it| settings().build_on(it.handle()).unwrap());
        for (number, timer) in timers.iter().enumerate() {
            for (place, shards) in [
                ("plain", shards_of(timer, |run| run())),
                (
                    "a current-thread runtime each",
                    shards_of(timer, |run| current_thread().block_on(async { run() })),
                ),
                ("a worker each", shards_of(timer, on_a_worker)),
            ] {
                let apart: BTreeSet<_> = shards.iter().collect();
                assert_eq!(apart.len(), THREADS, "timer {number}, {place}: {shards:?}");
            }
        }
    }

    #[test]
    fn a_number_is_free_again_once_its_thread_has_ended() {
        // Other tests take numbers too, so this checks one of its own.
        let number = acquire();
        let is_taken = || TAKEN[number / 64].load(Ordering::Relaxed) >> (number % 64) & 1 == 1;
        assert!(number < 1_024 && is_taken());
        assert_ne!(acquire(), number);
        thread::spawn(move || RELEASES.with(|releases| releases.0.set(Some(number))))
            .join()
            .unwrap();
        let is_free_again = !is_taken() || acquire() != number;
        assert!(is_free_again);
        let numbers = [0; 3].map(|_| thread::spawn(own_number).join().unwrap());
        assert!(numbers.iter().all(|&number| number < 1_024));
    }

    #[test]
    fn by_default_the_thread_of_block_on_has_a_shard_of_its_own() {
        for number in 1..=THREADS {
            let runtime = workers(number);
            let timer = runtime.block_on(async { Timer::current() });
            let shards = timer.inner.shards.len();
            assert_eq!(shards, (number + 1).next_power_of_two());
        }
        let timer = current_thread().block_on(async { Timer::current() });
        assert_eq!(timer.inner.shards.len(), 1);
    }

    /// A thread that has blocked in place may later be another worker.
    #[test]
    fn a_worker_keeps_its_shard_when_it_is_handed_over() {
        let runtime = workers(THREADS);
        if !tells_workers(&runtime) {
            return;
        }
        let built = Timer::builder().build_on(runtime.handle()).unwrap();
        let look = async |are_busy: Arc<Barrier>, built: Timer, find: FindShard| {
            are_busy.wait();
            let index = runtime::worker_index().unwrap();
            // First, because the others make the thread remember another shard.
            let found = find().index();
            let shards = [built.shard().index(), Timer::current().shard().index()];
            (index, found, shards)
        };
        let block = async || {
            drop(local::shard());
            block_in_place(|| thread::sleep(Duration::from_micros(fastrand::u64(..500))));
            drop(local::shard());
        };
        let finds: [FindShard; 2] = [local::shard, local::shard_of_poller];
        for find in finds.repeat(20) {
            // Each worker is busy with one of these.
            let are_busy = Arc::new(Barrier::new(THREADS));
            let look = || look(are_busy.clone(), built.clone(), find);
            let looks = (0..THREADS).map(|_| runtime.spawn(look()));
            for seen in runtime.block_on(join_all(looks)) {
                let (index, found, shards) = seen.unwrap();
                assert_eq!((found, shards), (index, [index; 2]));
            }
            let blocks = (0..50).map(|_| runtime.spawn(block()));
            runtime.block_on(join_all(blocks));
        }
    }

    #[test]
    fn a_thread_that_first_drives_another_runtime_is_a_worker_later() {
        let workers = workers(2);
        if !tells_workers(&workers) {
            return;
        }
        let many = Timer::builder().shards(1_024);
        let built = many.build_on(workers.handle()).unwrap();
        let (tells, told) = mpsc::channel();
        // A thread of the pool for blocking tasks becomes a worker when one blocks in place.
        workers.spawn_blocking(move || {
            let first = current_thread().block_on(async { built.shard().index() });
            assert_eq!(first, 2 + own_number());
            tells.send(thread::current().id()).unwrap();
        });
        let thread = told.recv().unwrap();
        let look = move || async move {
            block_in_place(|| thread::sleep(Duration::from_micros(100)));
            tokio::task::yield_now().await;
            let (index, shard) = (runtime::worker_index(), local::shard().index());
            assert_eq!(index, Some(shard));
            index.filter(|_| thread::current().id() == thread)
        };
        // Until that thread was each worker.
        let mut was = BTreeSet::new();
        while was.len() < 2 {
            let looks = (0..50).map(|_| workers.spawn(look()));
            let seen = workers.block_on(join_all(looks));
            was.extend(seen.into_iter().filter_map(Result::unwrap));
        }
    }
}
