//! The [`Builder`]: a timer's settings, and how a timer is built of them.
//!
//! Invariant: the settings are checked first, so an invalid one leaves nothing behind.

use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::time::Instant;

use crate::runtime::{Handle, try_id};

use super::Timer;
use super::handle::Inner;
use super::thread_shard::Spread;
use crate::clock::tick::TickLength;
use crate::clock::{Clock, grid};
use crate::driver::{Driver, Life, on_a_plain_thread};
use crate::error::BuildError;
use crate::report::Reporter;
use crate::shard::Shard;

const MAX_TICK: Duration = Duration::from_secs(60 * 60);
const MAX_SHARDS: usize = 1024;

/// The fewest shards of the process's timer. A container with one or two processors has more
/// threads than those, and threads that share a shard meet at its lock.
const FEWEST_OF_PROCESS: usize = 8;

/// Builds a [`Timer`] with settings of its own.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | [`tick`](Builder::tick) | 1 ms | the resolution: a timer fires up to one tick after its deadline, never before |
/// | [`shards`](Builder::shards) | one for each thread of the runtime | wheels, each with its own lock |
/// | [`stall_grace`](Builder::stall_grace) | `true` | whether tasks run before timers fire after a stall, and deadlines get a grace; switch it off for leases |
/// | [`name`](Builder::name) | none | its name in metrics and events |
///
/// ```
/// # use tickwheel::{Duration, Timer};
/// # tokio_test::block_on(async {
/// let keepalives = Timer::builder().tick(Duration::from_millis(100)).name("keepalives").build()?;
/// # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build` or `build_on` is called"]
pub struct Builder {
    tick: Duration,
    shards: Option<usize>,
    stall_grace: bool,
    name: Option<Arc<str>>,
}

impl Default for Builder {
    /// The defaults of the table above.
    fn default() -> Builder {
        Builder {
            tick: Duration::from_millis(1),
            shards: None,
            stall_grace: true,
            name: None,
        }
    }
}

impl Builder {
    /// Sets the length of a tick, from 1 ms, which is the grid of tokio's own timers, to an hour.
    ///
    /// A longer tick fires more timers in each wake-up, and so costs the driver less CPU.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async { tokio::time::pause();
    /// let timer = Timer::builder().tick(Duration::from_secs(1)).build()?;
    /// let idle = (1..=100).map(|n| timer.deadline(Duration::from_millis(60_000 + n)));
    /// for deadline in idle.collect::<Vec<_>>() {
    ///     deadline.await.unwrap();
    /// }
    /// let metrics = timer.metrics();
    /// assert!(metrics.wake_ups() < metrics.fired() / 10, "a hundred in a few wake-ups");
    /// # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
    /// ```
    pub fn tick(mut self, tick: Duration) -> Builder {
        self.tick = tick;
        self
    }

    /// Sets the number of shards, from 1 to 1,024, rounded up to a power of two.
    ///
    /// The default is one on a current-thread runtime. Otherwise it is one for each worker and one
    /// for the thread of `block_on`, rounded up too. Fewer take less memory. With fewer shards than
    /// threads, the threads meet at their locks.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// # tokio_test::block_on(async {
    /// // For many threads outside of the runtime, which would meet on its few shards.
    /// let timer = Timer::builder().shards(6).build()?;
    /// assert_eq!(timer.metrics().shards(), 8);
    /// # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
    /// ```
    pub fn shards(mut self, shards: usize) -> Builder {
        self.shards = Some(shards);
        self
    }

    /// Sets what follows a [stall](crate::guarantees#what-a-stall-is), in which heartbeats lay
    /// unread. By default the tasks run before any timer of this one fires, and deadlines get a
    /// grace.
    ///
    /// With `false` timers fire at once, and a deadline that is due has expired, as a lease
    /// requires: a late reset must return `false`. A deadline is rounded up to a tick, so a reset
    /// may be in time for up to a tick longer.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// runtime.block_on(async {
    ///     let connections = Timer::current();
    ///     let leases = Timer::builder().stall_grace(false).build()?;
    ///     let connection = connections.deadline(Duration::from_millis(50));
    ///     let lease = leases.deadline(Duration::from_millis(50));
    ///
    ///     std::thread::sleep(Duration::from_millis(200)); // the runtime is blocked
    ///     assert!(connection.handle().reset(), "its heartbeat may lie unread");
    ///     assert!(!lease.handle().reset(), "somebody else may hold it by now");
    /// #   Ok::<(), tickwheel::error::BuildError>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stall_grace(mut self, grace: bool) -> Builder {
        self.stall_grace = grace;
        self
    }

    /// Names the timer in its [`Metrics`](crate::metrics::Metrics) and its `tracing` events.
    ///
    /// A runtime's own timer has the name of the runtime.
    ///
    /// ```
    /// # use tickwheel::Timer;
    /// # tokio_test::block_on(async {
    /// let timer = Timer::builder().name("connections").build()?;
    /// assert_eq!(timer.metrics().name(), Some("connections"));
    /// # Ok::<(), tickwheel::error::BuildError>(()) }).unwrap();
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into().into());
        self
    }

    /// Builds the timer on the current runtime.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if a setting is out of range, outside a tokio runtime, and in a runtime
    /// without a time driver. Only a panic of tokio's reveals the last one, so a panic hook sees
    /// it, and a program with `panic = "abort"` ends.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer, error::BuildError};
    /// # tokio_test::block_on(async {
    /// let nanosecond = Duration::from_nanos(1);
    /// let refused = Timer::builder().tick(nanosecond).build().unwrap_err();
    /// assert_eq!(refused, BuildError::TickTooShort { tick: nanosecond });
    /// # });
    /// let outside = Timer::builder().build();
    /// assert_eq!(outside.unwrap_err(), BuildError::NoRuntime);
    /// ```
    pub fn build(self) -> Result<Timer, BuildError> {
        match Handle::try_current() {
            Ok(handle) => self.build_on(&handle),
            Err(_) => self.checked().and(Err(BuildError::NoRuntime)),
        }
    }

    /// Builds the timer on the runtime of `handle`, from any thread.
    ///
    /// If that runtime has shut down, the timer has ended too.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if a setting is out of range, and if the runtime has no time driver, as for
    /// [`build`](Builder::build).
    ///
    /// # Panics
    ///
    /// In a thread-local's destructor, once tokio's own thread-local is gone, because
    /// [`Handle::enter`] panics there.
    ///
    /// ```
    /// # use tickwheel::{Duration, Timer};
    /// // A `main` that makes the runtime itself, and its timer beside it.
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let timer = Timer::builder().name("keepalives").build_on(runtime.handle())?;
    /// let idle = timer.deadline(Duration::from_millis(5));
    /// assert_eq!(runtime.block_on(idle), Ok(()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_on(self, handle: &Handle) -> Result<Timer, BuildError> {
        let is_driven_here = grid::is_driven_here(handle);
        let for_task = try_id().is_some();
        let build = || {
            let (tick, shards) = self.checked()?;
            let spread = Spread::on(handle);
            let count = shards.unwrap_or_else(|| spread.threads().min(MAX_SHARDS));
            let _context = handle.enter();
            catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO)))
                .map_err(|_| BuildError::NoTimeDriver)?;
            let life = Life::of(handle, for_task);
            let epoch = match life {
                Life::Alive => grid::epoch(handle, is_driven_here),
                Life::Ends | Life::Ended => Instant::now(),
            };
            let clock = Clock::new(Some(handle), tick, epoch, self.stall_grace);
            let timer = self.assemble(clock, count, spread);
            let Inner { driver, shards, .. } = &*timer.inner;
            driver.begin(shards, handle, life);
            Ok(timer)
        };
        // A runtime is sure to stay alive only for its own worker.
        if is_driven_here {
            build()
        } else {
            on_a_plain_thread(handle, build)
        }
    }

    pub(super) fn named_as(self, runtime: &Handle) -> Builder {
        match runtime.name() {
            Some(name) => self.name(name),
            None => self,
        }
    }

    pub(super) fn build_on_thread(name: &str) -> io::Result<Timer> {
        let builder = Builder::default().name(name);
        let (tick, _) = builder.checked().map_err(io::Error::other)?;
        let cores = available_parallelism().map_or(1, |cores| cores.get());
        let shards = cores.clamp(FEWEST_OF_PROCESS, MAX_SHARDS);
        let clock = Clock::of_system(tick, true);
        let timer = builder.assemble(clock, shards, Spread::Threads);
        let Inner { driver, shards, .. } = &*timer.inner;
        driver.begin_on_thread(shards, name)?;
        Ok(timer)
    }

    /// A timer with at least this many shards, whose driver has not begun.
    fn assemble(self, clock: Clock, shards: usize, spread: Spread) -> Timer {
        let clock = Arc::new(clock);
        let driver = Arc::new(Driver::new(clock.clone(), Reporter::new(self.name)));
        let shard = |index| Shard::new(clock.clone(), driver.clone(), index);
        let indices = 0..shards.next_power_of_two();
        let inner = Inner {
            shards: indices.map(|index| Arc::new(shard(index))).collect(),
            spread,
            clock,
            driver,
        };
        Timer {
            inner: Arc::new(inner),
        }
    }

    fn checked(&self) -> Result<(TickLength, Option<usize>), BuildError> {
        let tick = self.tick;
        if tick.is_zero() {
            return Err(BuildError::ZeroTick);
        }
        if tick > MAX_TICK {
            return Err(BuildError::TickTooLong { tick });
        }
        let tick = TickLength::new(tick).ok_or(BuildError::TickTooShort { tick })?;
        match self.shards {
            Some(0) => Err(BuildError::ZeroShards),
            Some(shards) if shards > MAX_SHARDS => Err(BuildError::TooManyShards { shards }),
            shards => Ok((tick, shards)),
        }
    }
}
