//! The world of a schedule: a runtime, the thread of its time driver, which lets time pass, and a
//! timer.

use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{self, JoinHandle};
use tickwheel::{Instant, Timer};
use under_std::time::{fall_behind_here, is_coarse, pass, passed};
use under_tokio::runtime::{Handle, Kind, Runtime, RuntimeFlavor, be_worker};

use crate::record::{self, trace};

pub const MS: Duration = Duration::from_millis(1);

/// The lengths of a tick, in microseconds. Those that are no whole milliseconds begin between the
/// lines of tokio's grid.
const TICKS: [u64; 6] = [1_000, 1_500, 2_500, 7_300, 16_667, 50_000];

pub struct World {
    pub timer: Timer,
    pub tick: Duration,
    /// Time passes only as the driver comes to its timers, each in its time.
    pub is_punctual: bool,
    /// The runtime may end at any moment.
    pub ends_early: bool,
    runtime: Arc<Runtime>,
    kind: Kind,
    driver: JoinHandle<()>,
    /// When the schedule began.
    pub origin: Instant,
}

/// What a thread needs.
#[derive(Clone)]
pub struct ThreadContext {
    handle: Handle,
    timer: Timer,
    is_inside: bool,
    is_punctual: bool,
}

impl World {
    pub fn begin() -> World {
        let kinds = [
            Kind::MultiThread,
            Kind::MultiThread,
            Kind::CurrentThread,
            #[cfg(feature = "test-util")]
            Kind::Paused,
        ];
        World::begin_with(&kinds, 5, Duration::ZERO)
    }

    /// With a runtime of one of these kinds, of which one in so many ends early, or none. The clock
    /// of the driver's thread is that far behind.
    pub fn begin_with(kinds: &[Kind], early_ends: u64, drivers_clock: Duration) -> World {
        under_std::time::begin();
        record::begin();
        let kind = pick(kinds);
        // Nothing is punctual on a coarse clock.
        let is_punctual = one_in(2) && !is_coarse();
        let ends_early = early_ends > 0 && one_in(early_ends);
        let tick = Duration::from_micros(if one_in(2) { TICKS[0] } else { pick(&TICKS) });
        trace(|| {
            let world = format!("punctual: {is_punctual}, ends early: {ends_early}");
            format!("{kind:?}, a tick of {tick:?}, {world}")
        });
        let workers = if kind == Kind::MultiThread {
            below(2) + 1
        } else {
            1
        };
        // The timer is not made at a whole millisecond.
        let runtime = Arc::new(Runtime::new(kind, workers as usize));
        pass(Duration::from_micros(below(4) * 300));
        let timer = Timer::builder().tick(tick);
        let timer = timer.build_on(runtime.handle()).unwrap();
        number_thread(runtime.handle(), &timer);
        let context = runtime.handle().enter();
        let origin = Instant::now() - passed();
        if kind == Kind::Paused {
            // This thread stays inside.
            std::mem::forget(context);
        } else {
            drop(context);
        }
        let turns = if ends_early { below(8) } else { u64::MAX };
        let driver = {
            let runtime = runtime.clone();
            thread::spawn(move || {
                fall_behind_here(drivers_clock);
                drive(&runtime, turns, is_punctual);
            })
        };
        World {
            timer,
            tick,
            is_punctual,
            ends_early,
            runtime,
            kind,
            driver,
            origin,
        }
    }

    /// For the next thread.
    pub fn context(&self) -> ThreadContext {
        ThreadContext {
            handle: self.runtime.handle().clone(),
            timer: self.timer.clone(),
            // Outside it would read another clock than the paused one.
            is_inside: self.kind == Kind::Paused || !one_in(4),
            is_punctual: self.is_punctual,
        }
    }

    /// The threads have made their calls. A task that still waits may wait for the runtime's end.
    pub fn calls_are_over(&self) {
        if self.ends_early {
            self.runtime.end();
        }
    }

    /// Lets time pass until no timer waits for it.
    pub fn wait_until_idle(&self) {
        self.runtime.wait_until_idle();
    }

    /// How long timers may wait for tasks, if a thread was held up for so long that this is a
    /// stall. There are four rounds, and one more for each timer that a round disarms. By this
    /// driver's clock each takes 2 ms.
    pub fn wait_after_a_stall(&self) -> Duration {
        if self.timer.metrics().stalls() > 0 {
            20 * MS
        } else {
            Duration::ZERO
        }
    }

    fn may_be_paused(&self) -> bool {
        cfg!(feature = "test-util") && self.kind != Kind::MultiThread
    }

    /// All that waited has ended. If the clock can be paused, nothing that is gone has pulled it
    /// along: time has not passed on beyond `last`, at which something was due or called.
    pub fn end(self, last: Duration) {
        let is_checked = self.is_punctual && !self.ends_early && self.may_be_paused();
        let now = passed();
        // A reading takes a nanosecond.
        let slack = self.tick + MS + Duration::from_nanos(100);
        assert!(
            !is_checked || now <= last.saturating_add(slack),
            "time was pulled along from {last:?} to {now:?}"
        );
        self.runtime.end();
        self.driver.join().unwrap();
    }
}

impl ThreadContext {
    /// Runs a thread of the schedule here.
    pub fn spawn<R: Send + 'static>(
        self,
        run: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        thread::spawn(move || {
            number_thread(&self.handle, &self.timer);
            let _context = self.is_inside.then(|| self.handle.enter());
            run()
        })
    }

    /// Some time may pass between two calls.
    pub fn rest(&self) {
        if !self.is_punctual && one_in(4) {
            pass(Duration::from_micros(below(4) * 500));
        }
    }
}

/// Makes the thread a worker, by whose index the crate chooses its shard. The crate itself counts
/// threads over all schedules. With a current-thread runtime there is one shard, and a worker would
/// be taken for that runtime's own.
fn number_thread(handle: &Handle, timer: &Timer) {
    if handle.runtime_flavor() == RuntimeFlavor::MultiThread {
        be_worker(usize::from(thread::current().id()));
        // It learns of which runtime.
        let _context = handle.enter();
        drop(timer.sleep(Duration::ZERO));
    }
}

fn drive(runtime: &Runtime, turns: u64, is_punctual: bool) {
    be_worker(0);
    let _context = runtime.handle().enter();
    for _ in 0..turns {
        // So that a scheduler by priorities lets others run.
        thread::yield_now();
        let goes_on = runtime.turn(|next| {
            trace(|| format!("the next timer is {next:?} ahead"));
            pass(match if is_punctual { 0 } else { below(10) } {
                0..6 => next,
                6 | 7 => next + Duration::from_micros(below(8) * 250),
                8 => next / 2,
                _ => next + MS * 60 + MS * below(100) as u32,
            });
        });
        if !goes_on {
            break;
        }
    }
    trace(|| "the runtime ends".to_owned());
    runtime.shut_down();
}

/// The longest delay. It is as long as a stall.
pub const LONGEST: Duration = Duration::from_millis(50);

/// How much longer a deadline may live at `now`, in a world that is punctual. A thread that is held
/// up while it does the driver's work can make a stall of it. The grace lasts for at most the
/// timeout, from when the driver comes round next: a tick after that thread went on.
pub fn grace(tick: Duration, now: Duration) -> Duration {
    if now < LONGEST {
        Duration::ZERO
    } else {
        tick + LONGEST
    }
}

/// A delay: often short, sometimes zero, seldom long.
pub fn delay() -> Duration {
    match below(12) {
        0 | 1 => Duration::ZERO,
        2 => LONGEST,
        _ => Duration::from_micros(250 + below(16) * 250),
    }
}

pub fn below(end: u64) -> u64 {
    thread_rng().gen_range(0..end)
}

pub fn one_in(number: u64) -> bool {
    below(number) == 0
}

pub fn pick<T: Copy>(from: &[T]) -> T {
    from[below(from.len() as u64) as usize]
}
