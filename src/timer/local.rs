//! The runtime's own timer: one for each runtime, made on first use. A thread that has used it
//! lately finds it again without a global lock. And the process's timer, on a thread of its own,
//! under no runtime.
//!
//! A thread remembers the timers that it used last. The hot path looks at the very last one, then
//! the thread searches the others, and then the registry of all runtimes, under a lock.
//!
//! Invariant: a runtime has one timer of its own until it shuts down. The registry keeps it, since
//! sleeps may wait on it. It drops those that have ended once it has doubled, so that a new runtime
//! does not look at all living ones.
//!
//! Orders that could go wrong, and why they do not:
//!
//! - *An id is used again*, which tokio does not do so far. The old runtime's timer is marked as
//!   ended, soon after with tokio's alternative timer, and is never found after that.
//! - *Two threads make the timer at once.* Each makes one outside the lock. The first to come is
//!   registered, and the other thread takes that one. An unused timer does nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};

use super::thread_shard::{note_worker, was_worker};
use super::{Builder, Timer};
use crate::runtime::{self, Handle, TryCurrentError};
use crate::shard::Shard;
use crate::sync::lock;

thread_local! {
    static REMEMBERED: RefCell<Timers> = const {
        RefCell::new(Timers {
            latest: None,
            others: Vec::new(),
        })
    };
}

/// The timers that a thread has used.
#[derive(Default)]
struct Timers {
    /// The last one, which the hot path finds without a load from the vector.
    latest: Option<Remembered>,
    /// The ones before it, the oldest first.
    others: Vec<Remembered>,
}

struct Remembered {
    runtime: runtime::Id,
    timer: Timer,
    /// Of this thread, at that use.
    shard: Arc<Shard>,
}

const MOST_REMEMBERED: usize = 8;

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Registry {
    timers: HashMap<runtime::Id, Timer>,
    /// With so many timers, the next new one looks which of them have ended.
    full: usize,
}

impl Registry {
    /// Registers a runtime's timer, unless another thread was first. Returns the registered one,
    /// and those that have ended, to be dropped after the lock.
    fn add(&mut self, id: runtime::Id, timer: Timer) -> (Timer, Vec<Timer>) {
        let mut ended = Vec::new();
        // One with the same id that has ended is of an earlier runtime, or of this one after its
        // shutdown.
        ended.extend(self.take_if_ended(id));
        if self.timers.len() >= self.full {
            let ids: Vec<_> = self.timers.keys().copied().collect();
            ended.extend(ids.into_iter().filter_map(|id| self.take_if_ended(id)));
            self.full = 2 * self.timers.len().max(1);
        }
        let registered = self.timers.entry(id).or_insert(timer).clone();
        (registered, ended)
    }

    fn take_if_ended(&mut self, id: runtime::Id) -> Option<Timer> {
        if self.timers.get(&id)?.has_ended() {
            self.timers.remove(&id)
        } else {
            None
        }
    }
}

#[track_caller]
pub(crate) fn timer() -> Timer {
    look_up(&current_runtime())
}

#[track_caller]
#[inline]
pub(crate) fn shard() -> Arc<Shard> {
    let runtime = current_runtime();
    if was_worker(runtime::worker_index()) {
        shard_on(&runtime)
    } else {
        look_up(&runtime).shard().clone()
    }
}

/// The shard on which the calling thread arms: of the current runtime's own timer, or of the
/// process's timer outside of a runtime. It follows `ensure_worker_timer`, which has looked whether
/// the thread is still the same worker.
pub(crate) fn shard_of_poller() -> Arc<Shard> {
    match Handle::try_current() {
        Ok(runtime) => shard_on(&runtime),
        Err(_) => global_shard(),
    }
}

#[inline(always)] // A call of its own makes each free function 4 % dearer.
#[track_caller]
fn shard_on(runtime: &Handle) -> Arc<Shard> {
    match latest(runtime.id()) {
        Some(shard) => shard,
        None => look_up(runtime).shard().clone(),
    }
}

/// Whether this thread drives a runtime. Its first look-up as this worker is here, so that the call
/// panics where the runtime has no time driver, and so that a sleep which arms need not ask which
/// worker the thread is. On another runtime later, the poll panics.
#[inline]
#[track_caller]
pub(crate) fn ensure_worker_timer() -> bool {
    let index = runtime::worker_index();
    index.is_some() && (was_worker(index) || find_first())
}

#[cold]
#[track_caller]
fn find_first() -> bool {
    drop(look_up(&current_runtime()));
    true
}

/// Cloning and dropping it write a count that all threads share, but tokio offers the runtime's id
/// in no other way.
#[inline]
#[track_caller]
fn current_runtime() -> Handle {
    match Handle::try_current() {
        Ok(runtime) => runtime,
        Err(error) => panic_outside(&error),
    }
}

/// This thread's last shard, if the runtime is still the same.
#[inline(always)] // As `shard_on`.
fn latest(runtime: runtime::Id) -> Option<Arc<Shard>> {
    let find = |remembered: &RefCell<Timers>| {
        let timers = remembered.borrow();
        let found = timers
            .latest
            .as_ref()
            .filter(|latest| latest.runtime == runtime && !latest.shard.clock().has_ended());
        found.map(|latest| latest.shard.clone())
    };
    REMEMBERED.try_with(find).ok().flatten()
}

#[cold]
#[inline(never)]
#[track_caller]
fn look_up(runtime: &Handle) -> Timer {
    let id = runtime.id();
    let timer = match remembered(id).or_else(|| registered(id)) {
        Some(timer) => timer,
        None => make(runtime),
    };
    note_worker(id);
    remember(id, &timer);
    timer
}

fn remembered(id: runtime::Id) -> Option<Timer> {
    let find = |remembered: &RefCell<Timers>| {
        let timers = remembered.borrow();
        let mut all = timers.latest.iter().chain(&timers.others);
        let found = all.find(|one| one.runtime == id);
        found.map(|one| one.timer.clone())
    };
    let timer = REMEMBERED.try_with(find).ok().flatten();
    timer.filter(|timer| !timer.has_ended())
}

fn remember(id: runtime::Id, timer: &Timer) {
    let latest = Remembered {
        runtime: id,
        timer: timer.clone(),
        shard: timer.shard().clone(),
    };
    let take_its_place = |remembered: &RefCell<Timers>| {
        let is_kept = |one: &Remembered| one.runtime != id && !one.timer.has_ended();
        let former = remembered.take();
        let all = former.others.into_iter().chain(former.latest);
        let (mut others, mut forgotten): (Vec<_>, Vec<_>) = all.partition(is_kept);
        if others.len() + 1 > MOST_REMEMBERED {
            forgotten.push(others.remove(0));
        }
        remembered.replace(Timers {
            latest: Some(latest),
            others,
        });
        // Dropped after the borrow ends.
        forgotten
    };
    drop(REMEMBERED.try_with(take_its_place));
}

#[cold]
#[track_caller]
fn panic_outside(error: &TryCurrentError) -> ! {
    panic!(
        "{}. Call this from within a tokio runtime, \
         or make a timer with `Timer::builder().build_on(&handle)` and use its methods",
        error.to_string().trim_end_matches('.')
    )
}

fn registered(id: runtime::Id) -> Option<Timer> {
    let timer = registry().timers.get(&id).cloned();
    timer.filter(|timer| !timer.has_ended())
}

#[track_caller]
fn make(handle: &Handle) -> Timer {
    let id = handle.id();
    let timer = match Timer::builder().named_as(handle).build_on(handle) {
        Ok(timer) => timer,
        Err(error) => panic!("{error}"),
    };
    let (registered, ended) = registry().add(id, timer.clone());
    // Dropped under no lock, as is the timer itself if another thread was first.
    drop((timer, ended));
    registered
}

fn registry() -> MutexGuard<'static, Registry> {
    lock(&REGISTRY)
}

/// At most 15 bytes, as Linux shows. The timer is named after its thread.
const THREAD: &str = "tickwheel-timer";

static GLOBAL: OnceLock<Timer> = OnceLock::new();

#[inline]
#[track_caller]
pub(crate) fn global_timer() -> &'static Timer {
    match GLOBAL.get() {
        Some(timer) => timer,
        None => match started() {
            Ok(timer) => timer,
            Err(error) => panic_without_thread(&error),
        },
    }
}

#[inline(never)]
#[track_caller]
pub(crate) fn global_shard() -> Arc<Shard> {
    global_timer().shard().clone()
}

#[cold]
fn started() -> io::Result<&'static Timer> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = lock(&STARTING);
    if let Some(timer) = GLOBAL.get() {
        return Ok(timer);
    }
    let timer = Builder::build_on_thread(THREAD)?;
    Ok(GLOBAL.get_or_init(|| timer))
}

#[cold]
#[track_caller]
fn panic_without_thread(error: &io::Error) -> ! {
    panic!(
        "tickwheel's global timer cannot start its thread: {error}. Call \
         `Timer::global()` early, before the process uses up its threads"
    )
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Runtime;

    use super::*;

    fn current_thread() -> Runtime {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap()
    }

    #[test]
    fn the_timers_of_runtimes_that_have_shut_down_are_forgotten() {
        let remembered = || REMEMBERED.with(|timers| timers.borrow().others.len());
        for make in [|| runtime::workers(1), current_thread].repeat(50) {
            let runtime = make();
            runtime.block_on(async { drop(Timer::current()) });
            drop(runtime);
            assert_eq!(remembered(), 0, "beside the latest, by this thread");
        }
        // Other tests have runtimes too.
        assert!(registry().timers.len() < 80, "by the registry");
    }

    #[test]
    fn a_thread_remembers_only_the_timers_that_it_used_last() {
        let runtimes: Vec<_> = (0..2 * MOST_REMEMBERED).map(|_| current_thread()).collect();
        let timer = |runtime: &Runtime| {
            let _context = runtime.enter();
            Arc::downgrade(&Timer::current().inner)
        };
        let timers: Vec<_> = runtimes.iter().map(timer).collect();
        assert!(timers.iter().all(|it| it.strong_count() > 0));
        let Timers { latest, others } = REMEMBERED.take();
        let ids: Vec<_> = others.iter().chain(&latest).map(|it| it.runtime).collect();
        let last = runtimes[MOST_REMEMBERED..].iter();
        assert_eq!(ids, last.map(|it| it.handle().id()).collect::<Vec<_>>());
    }

    /// Otherwise thousands of living runtimes would each look at all others.
    #[test]
    fn a_registry_looks_for_the_ended_only_once_it_has_doubled() {
        let (mut registry, mut looks) = (Registry::default(), 0);
        let runtimes: Vec<_> = (0..64).map(|_| current_thread()).collect();
        for runtime in &runtimes {
            let timer = Timer::builder().build_on(runtime.handle()).unwrap();
            let full = registry.full;
            registry.add(runtime.handle().id(), timer);
            looks += usize::from(registry.full != full);
        }
        assert_eq!((registry.timers.len(), looks), (64, 6));
        drop(runtimes);
        let last = current_thread();
        let timer = Timer::builder().build_on(last.handle()).unwrap();
        let (_, ended) = registry.add(last.handle().id(), timer);
        assert_eq!((registry.timers.len(), ended.len()), (1, 64));
    }
}
