//! One program: its runtimes and timers, its actors, what they have recorded, and its end, at which
//! all of it is checked.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use futures::channel::oneshot;
use tickwheel::Timer;
use tokio::time::{Duration, Instant};

use crate::checker::{self, Rules};
use crate::finding::{Findings, Kind};
use crate::record::{ALL_KEYS, Gathered, Record, Subject};
use crate::wait::{Wait, Waits};
use crate::world::{End, Executor, Flavour, Hosted, catch};

/// What tokio's timers say, and ours too, once their runtime has ended.
const SHUT_DOWN: &str = "A Tokio 1.x context was found, but it is being shutdown.";

/// A task that is due may sleep for so long, on a machine that lets the program run.
pub const BOUND: Duration = Duration::from_secs(3);
const BEAT: Duration = Duration::from_millis(20);

/// A timer, and what is known of it.
#[derive(Clone)]
pub struct Clock {
    pub timer: Timer,
    pub tick: Duration,
    /// The runtime that drives it. The process's timer has none.
    pub runtime: Option<usize>,
}

/// What the progress line shows: counts over all programs.
#[derive(Debug, Default)]
pub struct Totals {
    pub programs: AtomicU64,
    pub fired: AtomicU64,
    pub calls: AtomicU64,
}

/// The rules of a map, with the runtime and the tick of its timer.
type MapRules = (Rules, Option<usize>, Duration);

pub struct Program {
    pub name: &'static str,
    pub seed: u64,
    /// How it looks, to find out what went wrong.
    pub shape: String,
    pub findings: Arc<Findings>,
    pub totals: Arc<Totals>,
    pub runtimes: Vec<Hosted>,
    pub clocks: Vec<Clock>,
    /// How long actors begin something new.
    pub until: Instant,
    pub waits: Arc<Waits>,
    gathered: Gathered,
    rules: Mutex<HashMap<u32, MapRules>>,
    actors: Arc<AtomicUsize>,
    next_map: AtomicU32,
    next_interval: AtomicU64,
}

/// Counts an actor until it is dropped.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a program is made with.
pub struct Setting {
    pub name: &'static str,
    pub seed: u64,
    pub findings: Arc<Findings>,
    pub totals: Arc<Totals>,
}

impl Program {
    pub fn new(
        setting: Setting,
        flavours: &[Flavour],
        busy: Duration,
        make_clocks: impl FnOnce(&[Hosted]) -> Vec<Clock>,
    ) -> Arc<Program> {
        let runtimes: Vec<_> = flavours
            .iter()
            .map(|flavour| Hosted::new(*flavour))
            .collect();
        Arc::new(Program {
            name: setting.name,
            seed: setting.seed,
            shape: format!("{flavours:?}, {busy:?}"),
            findings: setting.findings,
            totals: setting.totals,
            clocks: make_clocks(&runtimes),
            runtimes,
            until: Instant::now() + busy,
            waits: Arc::default(),
            gathered: Gathered::default(),
            rules: Mutex::default(),
            actors: Arc::default(),
            next_map: AtomicU32::new(0),
            next_interval: AtomicU64::new(1),
        })
    }

    pub fn report(&self, kind: Kind, text: &str) {
        let again = format!("--only {} --seed {}", self.name, self.seed);
        let program = format!("{again}; {}", self.shape);
        self.findings.report(kind, &program, text);
    }

    pub fn is_busy(&self) -> bool {
        Instant::now() < self.until
    }

    pub fn record(&self) -> Record {
        Record::new(&self.gathered)
    }

    /// A number for a map whose record is to be checked.
    pub fn new_map(&self, rules: Rules, clock: &Clock) -> u32 {
        let map = self.next_map.fetch_add(1, Ordering::Relaxed);
        self.rules
            .lock()
            .unwrap()
            .insert(map, (rules, clock.runtime, clock.tick));
        map
    }

    pub fn new_interval(&self) -> u64 {
        self.next_interval.fetch_add(1, Ordering::Relaxed)
    }

    /// When the end of a clock's runtime began.
    pub fn end_began(&self, runtime: Option<usize>) -> Option<Instant> {
        self.runtimes[runtime?].end_began.get().copied()
    }

    /// Starts an actor.
    pub fn start(
        self: &Arc<Program>,
        executor: Executor,
        actor: impl Future<Output = ()> + Send + 'static,
    ) {
        self.actors.fetch_add(1, Ordering::SeqCst);
        let (program, running) = (self.clone(), Running(self.actors.clone()));
        let actor = async move {
            let _running = running;
            if let Err(message) = catch(actor).await {
                let has_ended = program
                    .runtimes
                    .iter()
                    .any(|one| one.end_began.get().is_some());
                let is_expected = has_ended && message.contains(SHUT_DOWN)
                    || message.contains("runtime has been shut");
                if !is_expected {
                    program.report(Kind::Panic, &format!("an actor, {executor:?}: {message}"));
                }
            }
        };
        executor.start(&self.runtimes, Box::pin(actor));
    }

    /// Waits under the watch, here or on another executor. `None` if the wait was ended from
    /// outside.
    pub async fn wait<F>(
        self: &Arc<Program>,
        random: &mut fastrand::Rng,
        clock: &Clock,
        mut wait: Wait,
        mut future: F,
    ) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + Unpin + 'static,
    {
        let (program, runtime, due) = (self.clone(), clock.runtime, wait.due);
        wait.due = Box::new(move || {
            let runtime = runtime.map(|at| &program.runtimes[at]);
            match runtime.and_then(|runtime| runtime.ended.at()) {
                None if runtime.is_some_and(|runtime| runtime.end_began.get().is_some()) => None,
                None => due(),
                Some(ended) => Some(due().map_or(ended, |due| due.min(ended))),
            }
        });
        let elsewhere = match random.u8(..8) {
            0 => Some(Executor::random(random, self.runtimes.len())),
            _ => None,
        };
        if elsewhere.is_some() && random.bool() {
            // Armed here, awaited there.
            if let std::task::Poll::Ready(ready) = futures::poll!(&mut future) {
                return Some(ready);
            }
        }
        let waiting = self.waits.wait(wait, future);
        let Some(executor) = elsewhere else {
            return waiting.await;
        };
        let (sender, receiver) = oneshot::channel();
        self.start(executor, async move {
            if let Some(output) = waiting.await {
                let _ = sender.send(output);
            }
        });
        receiver.await.ok()
    }

    /// Waits until all actors have gone. Reports each that sleeps though it is due. `false` if
    /// some did not go even after that.
    pub fn settle(&self) -> bool {
        let beats = (BOUND.as_millis() / BEAT.as_millis()) as u32;
        let mut last_change = (Instant::now(), usize::MAX);
        let mut is_aborted = false;
        loop {
            let actors = self.actors.load(Ordering::SeqCst);
            if actors == 0 {
                return true;
            }
            if actors != last_change.1 || self.waits.latest() > Some(Instant::now()) {
                last_change = (Instant::now(), actors);
            }
            // Short at first, so that short programs are.
            let since = last_change.0.elapsed();
            if since > 10 * BOUND {
                return false;
            }
            if since > 2 * BOUND && self.runtimes.iter().any(Hosted::is_ending) {
                if !std::mem::replace(&mut is_aborted, true) {
                    let states: Vec<_> = self.runtimes.iter().map(Hosted::state).collect();
                    println!(
                        "tokio's own timers do not learn of the end: seed {}, {states:?}",
                        self.seed
                    );
                }
                self.waits.abort();
            }
            thread::sleep(BEAT.min(since / 4 + Duration::from_micros(200)));
            if since >= BEAT && self.runtimes.iter().all(Hosted::is_fresh) {
                for text in self.waits.overslept(beats) {
                    let states: Vec<_> = self.runtimes.iter().map(Hosted::state).collect();
                    self.report(Kind::LostWakeUp, &format!("{text}; {states:?}"));
                }
            }
        }
    }

    pub fn stuck(&self) -> String {
        let actors = self.actors.load(Ordering::SeqCst);
        format!(
            "{actors} actors do not end; waiting: {:?}",
            self.waits.texts()
        )
    }

    /// Looks whether the timers have everything back, and checks the record. To be called when all
    /// actors have gone.
    pub fn check(&self) {
        for clock in &self.clocks {
            if self.end_began(clock.runtime).is_some() {
                continue;
            }
            // What an actor has left behind in another place is dropped a little later.
            let mut metrics = clock.timer.metrics();
            for _ in 0..100 {
                if metrics.pending() == 0 {
                    break;
                }
                thread::sleep(BEAT);
                metrics = clock.timer.metrics();
            }
            if metrics.pending() > 0 {
                self.report(Kind::Counts, &format!("timers are left: {metrics:?}"));
            }
            let sum = metrics.fired() + metrics.disarmed() + metrics.pending() as u64;
            if sum != metrics.armed() {
                self.report(Kind::Counts, &format!("the sum is wrong: {metrics:?}"));
            }
            self.totals
                .fired
                .fetch_add(metrics.fired(), Ordering::Relaxed);
        }
        let mut by_map = BTreeMap::<u32, BTreeMap<u32, Vec<_>>>::new();
        for (Subject { map, key }, event) in self.gathered.lock().unwrap().drain(..) {
            by_map
                .entry(map)
                .or_default()
                .entry(key)
                .or_default()
                .push(event);
        }
        let rules = self.rules.lock().unwrap();
        let report = |kind, text: String| self.report(kind, &text);
        for (map, mut keys) in by_map {
            let (rules, runtime, tick) = rules[&map];
            let on_all = keys.remove(&ALL_KEYS).unwrap_or_default();
            let mut intervals = Vec::new();
            for mut events in keys.into_values() {
                events.extend(on_all.iter().copied());
                let calls = events.len() as u64;
                self.totals.calls.fetch_add(calls, Ordering::Relaxed);
                intervals.extend(checker::check(
                    &mut events,
                    rules,
                    self.end_began(runtime),
                    report,
                ));
            }
            checker::check_order(intervals, tick, report);
        }
    }

    /// Ends what runtimes are left.
    pub fn end(&self) {
        for runtime in &self.runtimes {
            runtime.end(End::Drop);
        }
        for runtime in &self.runtimes {
            runtime.join();
        }
    }
}
