//! A real [`Timer`] under a load, and the thread on which it runs.
//!
//! Only the public API looks at it: `metrics()` and `snapshot()`. The runtime has one thread,
//! because only such a runtime can pause tokio's clock. So a picture that is paused is the timer
//! itself, standing still, and a step advances that clock by one tick.
//!
//! Invariant: while the clock is paused, the runtime is entered for a step and for nothing else.
//! An idle runtime would advance a paused clock by itself.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use fastrand::Rng;
use tickwheel::{Deadline, Instant, ResetHandle, Timer};
use tokio::runtime::{self, Runtime};
use tokio::sync::Notify;

use crate::load::{Load, PRESETS};
use crate::model::{self, Counts, Moment, Own};

/// How many values of the lateness are kept.
const HISTORY: usize = 200;
/// How long the picture stands, while the clock runs.
const FRAME: Duration = Duration::from_millis(100);
/// How long a timer that has fired, and was added by a key, is shown.
const SHOWN_AFTER: Duration = Duration::from_secs(3);

impl Added {
    fn reset(&mut self, now: Instant) {
        if self.handle.reset() {
            self.ends = now.checked_add(self.timeout);
        }
    }
}

/// What the driver wakes when a deadline fires.
#[derive(Default)]
struct HasFired(AtomicBool);

impl Wake for HasFired {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What the driver wakes when a sleep fires.
struct Fires(Arc<Notify>);

impl Wake for Fires {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// How the timer and its load are made.
#[derive(Clone, Debug)]
pub struct Setting {
    pub preset: usize,
    pub tick: Duration,
    pub slots: usize,
    pub seed: u64,
    pub add: Vec<Duration>,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins anew, with a fresh timer and this load.
    Preset(usize),
    Faster,
    Slower,
    PauseOrGoOn,
    Step,
    StepTurn,
    /// Adds a timer of this duration, or one by chance.
    Add(Option<Duration>),
    Next,
    ResetOne,
    ResetAll,
    CancelOne,
    CancelAll,
}

/// A timer, its load, and the timers that keys have added.
pub struct Running {
    setting: Setting,
    runtime: Runtime,
    timer: Timer,
    load: Load,
    rng: Rng,
    own: Vec<Added>,
    added: usize,
    selected: usize,
    is_paused: bool,
    /// When the next tick ends, as far as the wake-ups before tell.
    expected: Instant,
    /// How many sleeps have waited for the end of a tick.
    probes: u64,
    /// When the load last did its part.
    worked: Instant,
    /// The worst since the last look.
    late: Duration,
    lateness: Vec<Duration>,
    before: Option<Moment>,
}

struct Added {
    number: usize,
    timeout: Duration,
    // Cancelled when it is dropped.
    _deadline: Deadline,
    handle: ResetHandle,
    /// When it is due. `None` if that is later than an `Instant` can be. A look must not ask the
    /// deadline itself: it would settle one that has passed and whose tick is not over.
    ends: Option<Instant>,
    has_fired: Arc<HasFired>,
    fired: Option<Instant>,
}

impl Running {
    /// A new timer, on a clock that runs or stands still.
    pub fn new(setting: Setting, is_paused: bool) -> io::Result<Running> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(is_paused)
            .build()?;
        let timer = Timer::builder()
            .tick(setting.tick)
            .slots(setting.slots)
            .shards(1)
            .build_on(runtime.handle())
            .map_err(io::Error::other)?;
        let now = {
            let _context = runtime.enter();
            Instant::now()
        };
        let mut running = Running {
            load: Load::new(&PRESETS[setting.preset], 1.0, setting.seed),
            rng: Rng::with_seed(setting.seed),
            runtime,
            timer,
            own: Vec::new(),
            added: 0,
            selected: 0,
            is_paused,
            expected: now + 2 * setting.tick,
            probes: 0,
            worked: now,
            late: Duration::ZERO,
            lateness: Vec::new(),
            before: None,
            setting,
        };
        for timeout in running.setting.add.clone() {
            running.add(timeout);
        }
        Ok(running)
    }

    pub fn obey(&mut self, command: Command) -> io::Result<()> {
        match command {
            Command::Preset(preset) => {
                let setting = Setting {
                    preset,
                    add: Vec::new(),
                    ..self.setting.clone()
                };
                *self = Running::new(setting, false)?;
            }
            Command::Faster => self.load.change_rate(2.0),
            Command::Slower => self.load.change_rate(0.5),
            Command::PauseOrGoOn => self.pause_or_go_on(),
            Command::Step if self.is_paused => self.step(),
            Command::StepTurn if self.is_paused => {
                for _ in 0..self.slots() {
                    self.step();
                }
            }
            Command::Step | Command::StepTurn => {}
            Command::Add(timeout) => {
                let timeout = timeout.unwrap_or_else(|| self.any_duration());
                self.add(timeout);
            }
            Command::Next => self.selected = (self.selected + 1) % self.own.len().max(1),
            Command::ResetOne => {
                let now = self.now();
                if let Some(own) = self.own.get_mut(self.selected) {
                    own.reset(now);
                }
            }
            Command::ResetAll => {
                let now = self.now();
                self.own.iter_mut().for_each(|own| own.reset(now));
                self.load.reset_all();
            }
            Command::CancelOne => {
                if self.selected < self.own.len() {
                    self.own.remove(self.selected);
                    self.selected = self.selected.min(self.own.len().saturating_sub(1));
                }
            }
            Command::CancelAll => {
                self.own.clear();
                self.selected = 0;
                self.load = Load::new(&PRESETS[0], self.load.rate(), self.setting.seed);
            }
        }
        Ok(())
    }

    /// Moves a paused clock by one tick. What is due fires, and then the load does its part.
    pub fn step(&mut self) {
        let tick = self.setting.tick;
        self.runtime.block_on(tokio::time::advance(tick));
        self.load.step(&self.timer, tick);
    }

    /// Waits for the next tick of a clock that runs, and then the load does its part.
    fn run_for_a_tick(&mut self) {
        let tick = self.setting.tick;
        // In the middle of a tick. So it is due at that tick's end, wherever ticks begin.
        let mut sleep = pin!(self.timer.sleep_until(self.expected - tick / 2));
        let fired = Arc::new(Notify::new());
        let waker = Waker::from(Arc::new(Fires(fired.clone())));
        let first = sleep.as_mut().poll(&mut Context::from_waker(&waker));
        // A sleep that has passed when it is polled is not armed. One that is armed is left to the
        // driver: a poll that found it passed would take it out, and it would not count as fired.
        if first.is_pending() {
            self.runtime.block_on(fired.notified());
            self.probes += 1;
        }
        let now = self.now();
        // The earliest wake-up tells best where a tick ends.
        self.expected = self.expected.min(now);
        let late = now - self.expected;
        self.late = self.late.max(late);
        let passed = u32::try_from(late.as_nanos() / tick.as_nanos()).unwrap_or(u32::MAX);
        self.expected += tick * passed + tick;
        // A program that was stopped has no work of that time to make up for.
        let elapsed = (now - self.worked).min(FRAME.max(tick));
        self.worked = now;
        self.load.step(&self.timer, elapsed);
    }

    /// What is to be shown now.
    pub fn look(&mut self) -> Moment {
        let _context = self.runtime.enter();
        let snapshot = self.timer.snapshot();
        let metrics = self.timer.metrics();
        let now = Instant::now();
        let (levels, overdue) = model::levels(&snapshot, self.before.as_ref());
        for own in &mut self.own {
            if own.fired.is_none() && own.has_fired.0.load(Ordering::Relaxed) {
                own.fired = Some(now);
            }
        }
        self.own
            .retain(|own| own.fired.is_none_or(|fired| now < fired + SHOWN_AFTER));
        self.selected = self.selected.min(self.own.len().saturating_sub(1));
        self.lateness.push(std::mem::take(&mut self.late));
        if self.lateness.len() > HISTORY {
            self.lateness.remove(0);
        }
        let own = self.own.iter().enumerate().map(|(place, own)| Own {
            number: own.number,
            timeout: own.timeout,
            remaining: match own.fired {
                Some(_) => None,
                None => Some(own.ends.map_or(own.timeout, |ends| ends - now)),
            },
            is_selected: place == self.selected,
        });
        let moment = Moment {
            now: snapshot.now,
            tick: snapshot.tick,
            levels,
            overdue,
            counts: Counts {
                // Of the same moment as the slots.
                pending: snapshot.pending() as u64,
                // Not the sleeps that only wait for the next tick. None is pending now.
                armed: metrics.armed - self.probes,
                pushed_back: self.load.pushed_back(),
                cancelled: metrics.disarmed,
                fired: metrics.fired - self.probes,
            },
            is_paused: self.is_paused,
            lateness: self.lateness.clone(),
            worst_lateness: metrics.lateness,
            load: self.load.rates(),
            own: own.collect(),
            moves: Vec::new(),
        };
        self.before = Some(moment.clone());
        moment
    }

    fn pause_or_go_on(&mut self) {
        self.is_paused = !self.is_paused;
        let is_paused = self.is_paused;
        self.runtime.block_on(async {
            if is_paused {
                tokio::time::pause();
            } else {
                tokio::time::resume();
            }
        });
    }

    fn add(&mut self, timeout: Duration) {
        let ends = self.now().checked_add(timeout);
        let mut deadline = self.timer.deadline(timeout);
        let has_fired = Arc::new(HasFired::default());
        let waker = Waker::from(has_fired.clone());
        let first = Pin::new(&mut deadline).poll(&mut Context::from_waker(&waker));
        if first.is_ready() {
            waker.wake();
        }
        self.added += 1;
        self.own.push(Added {
            number: self.added,
            timeout,
            handle: deadline.handle(),
            _deadline: deadline,
            ends,
            has_fired,
            fired: None,
        });
        self.selected = self.own.len() - 1;
    }

    /// From a millisecond to a month. Each order of magnitude is as likely as the others.
    fn any_duration(&mut self) -> Duration {
        let month = Duration::from_secs(30 * 24 * 60 * 60).as_millis() as f64;
        let millis = month.powf(self.rng.f64());
        // To people, whole seconds and minutes are enough.
        let unit = match millis as u64 {
            0..10_000 => 1,
            10_000..600_000 => 1_000,
            600_000..36_000_000 => 60_000,
            _ => 3_600_000,
        };
        Duration::from_millis(millis as u64 / unit * unit)
    }

    fn now(&self) -> Instant {
        let _context = self.runtime.enter();
        Instant::now()
    }

    fn slots(&self) -> usize {
        self.before.as_ref().map_or(64, Moment::slots)
    }
}

/// Runs the timer until the one who sends commands or the one who draws has gone.
pub fn run(
    setting: Setting,
    commands: &Receiver<Command>,
    moments: &Sender<Moment>,
) -> io::Result<()> {
    let mut running = Running::new(setting, false)?;
    if moments.send(running.look()).is_err() {
        return Ok(());
    }
    let mut looked = running.now();
    loop {
        let command = if running.is_paused {
            commands.recv().map_err(|_| TryRecvError::Disconnected)
        } else {
            commands.try_recv()
        };
        match command {
            Ok(command) => running.obey(command)?,
            Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => {
                running.run_for_a_tick();
                if running.now() < looked + FRAME {
                    continue;
                }
            }
        }
        looked = running.now();
        if moments.send(running.look()).is_err() {
            return Ok(());
        }
    }
}
