//! Lateness is an outcome too: loads that keep a runtime's driver from its work, or give it much of
//! it at once, beside the same loads on tokio's timers in the same process.
//!
//! A program runs one load, ours and tokio's in turn. It is a finding where ours is worse in each
//! of three repetitions. A repetition in which others used the machine says nothing, and the whole
//! load is void then.

use std::collections::BTreeMap;
use std::future::{pending, poll_fn, ready};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use futures::task::AtomicWaker;
use hdrhistogram::Histogram;
use tickwheel::Timer;
use tokio::runtime::Runtime;
use tokio::time::{Duration, Instant};

use crate::faults::spin;
use crate::finding::Kind;
use crate::neighbours::Neighbours;
use crate::program::Setting;
use crate::world::{Flavour, build};

const REPETITIONS: usize = 3;
/// A load says nothing if others took more of the machine than this.
const OTHERS: f64 = 0.1;

/// From when on ours is worse than tokio's.
fn is_worse(ours: Duration, tokios: Duration) -> bool {
    ours > tokios * 3 / 2 + Duration::from_millis(4)
}

#[derive(Clone, Copy, Debug)]
enum Load {
    /// All workers are in polls of this length, which make timeouts without a pause. What is
    /// measured is armed then, and due after it.
    LongPolls(Duration),
    /// Very many timeouts, and then one task of each worker blocks it for this long.
    Block(Duration),
    /// Very many sleeps that are due at one instant, beside tasks that are always ready.
    Burst,
    /// Short sleeps, while very many others go from one level of the wheel to the next.
    Cascade,
}

const FLAVOURS: [Flavour; 3] = [Flavour::Current, Flavour::Multi(1), Flavour::Multi(2)];
const LOADS: [Load; 6] = [
    Load::Burst,
    Load::LongPolls(Duration::from_millis(5)),
    Load::Block(Duration::from_millis(500)),
    Load::Cascade,
    Load::LongPolls(Duration::from_millis(2)),
    Load::LongPolls(Duration::from_millis(10)),
];

/// Whose timers.
#[derive(Clone)]
enum Timers {
    Ours(Timer),
    Tokios,
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Timers {
    fn sleep(&self, length: Duration) -> Waiting {
        match self {
            Timers::Ours(timer) => Box::pin(timer.sleep(length)),
            Timers::Tokios => Box::pin(tokio::time::sleep(length)),
        }
    }

    fn sleep_until(&self, due: Instant) -> Waiting {
        match self {
            Timers::Ours(timer) => Box::pin(timer.sleep_until(due)),
            Timers::Tokios => Box::pin(tokio::time::sleep_until(due)),
        }
    }

    fn timeout(&self, length: Duration) -> Waiting {
        match self {
            Timers::Ours(timer) => {
                let timeout = timer.timeout(length, pending::<()>());
                Box::pin(async { drop(timeout.await) })
            }
            Timers::Tokios => {
                let timeout = tokio::time::timeout(length, pending::<()>());
                Box::pin(async { drop(timeout.await) })
            }
        }
    }

    /// Tokio has none, and a sleep takes its place there.
    fn deadline(&self, length: Duration) -> Waiting {
        match self {
            Timers::Ours(timer) => {
                let deadline = timer.deadline(length);
                Box::pin(async { deadline.await.unwrap_or_default() })
            }
            Timers::Tokios => self.sleep(length),
        }
    }

    /// Makes timeouts without a pause.
    async fn hurry(&self, length: Duration) {
        const FAR: Duration = Duration::from_secs(30);
        let start = Instant::now();
        while start.elapsed() < length {
            for _ in 0..64 {
                match self {
                    Timers::Ours(timer) => drop(timer.timeout(FAR, ready(())).await),
                    Timers::Tokios => drop(tokio::time::timeout(FAR, ready(())).await),
                }
            }
        }
    }
}

/// How late each kind of timer was, in microseconds.
#[derive(Clone, Default)]
struct Lateness(Arc<Mutex<BTreeMap<&'static str, Histogram<u64>>>>);

impl Lateness {
    fn keep(&self, kind: &'static str, due: Instant) {
        let late = due.elapsed().as_micros() as u64;
        let mut kinds = self.0.lock().unwrap();
        let new = || Histogram::new_with_bounds(1, 60_000_000, 3).unwrap();
        kinds
            .entry(kind)
            .or_insert_with(new)
            .saturating_record(late.max(1));
    }

    fn of(&self) -> BTreeMap<&'static str, [Duration; 3]> {
        let kinds = self.0.lock().unwrap();
        let quantiles = |histogram: &Histogram<u64>| {
            [0.5, 0.99, 1.0].map(|at| Duration::from_micros(histogram.value_at_quantile(at)))
        };
        kinds
            .iter()
            .map(|(kind, histogram)| (*kind, quantiles(histogram)))
            .collect()
    }
}

/// Runs a program. It does not hang.
pub fn run(setting: Setting) -> bool {
    let totals = &setting.totals;
    let number = setting.seed as usize;
    let load = LOADS[number % LOADS.len()];
    let flavour = FLAVOURS[number / LOADS.len() % FLAVOURS.len()];
    // For each kind and quantile, in how many repetitions ours was worse.
    let mut worse = BTreeMap::<&str, [usize; 3]>::new();
    let mut told = String::new();
    for repetition in 1..=REPETITIONS {
        let before = Neighbours::now();
        let ours = measure(flavour, load, true);
        let tokios = measure(flavour, load, false);
        let others = before.zip(Neighbours::now());
        let others = others.map_or(0.0, |(before, now)| now.share_since(&before));
        if others > OTHERS {
            println!("void: others took {others:.2} of the machine in {load:?}, {flavour:?}");
            totals.void_loads.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let mut is_any_worse = false;
        for (kind, ours) in ours.of() {
            let tokios = tokios.of()[kind];
            let row = format!("{load:?}, {flavour:?}, {kind}: {ours:?}, tokio's {tokios:?}");
            println!("late p50, p99, max: {row}");
            let counts = worse.entry(kind).or_default();
            for (at, count) in counts.iter_mut().enumerate() {
                *count += usize::from(is_worse(ours[at], tokios[at]));
                is_any_worse |= *count == repetition;
            }
            if counts.contains(&REPETITIONS) {
                told += &format!("{row}; ");
            }
        }
        if !is_any_worse {
            break;
        }
    }
    totals.loads.fetch_add(1, Ordering::Relaxed);
    if told.is_empty() {
        return true;
    }
    let again = format!("--only lateness --seed {}", setting.seed);
    setting
        .findings
        .report(Kind::Lateness, setting.name, &again, &told);
    true
}

fn measure(flavour: Flavour, load: Load, is_ours: bool) -> Lateness {
    let runtime = build(flavour);
    let timers = match is_ours {
        true => Timers::Ours(Timer::builder().build_on(runtime.handle()).unwrap()),
        false => Timers::Tokios,
    };
    let lateness = Lateness::default();
    match load {
        Load::LongPolls(length) => stalled(&runtime, &timers, &lateness, length, length),
        Load::Block(length) => stalled(&runtime, &timers, &lateness, Duration::ZERO, length),
        Load::Burst => burst(&runtime, &timers, &lateness),
        Load::Cascade => cascade(&runtime, &timers, &lateness),
    }
    lateness
}

/// Tasks make timeouts without a pause. Then each poll of them is long for half a second, or there
/// is one that is. Everything of two seconds that is armed in these polls is due long after them.
fn stalled(
    runtime: &Runtime,
    timers: &Timers,
    lateness: &Lateness,
    hurried: Duration,
    length: Duration,
) {
    const LENGTH: Duration = Duration::from_secs(2);
    let (warm, stall) = (Duration::from_millis(250), Duration::from_millis(600));
    let start = Instant::now();
    let stalling = if hurried.is_zero() {
        runtime.metrics().num_workers()
    } else {
        8
    };
    let polls = (0..8).map(|number| {
        let (timers, lateness) = (timers.clone(), lateness.clone());
        runtime.spawn(async move {
            while start.elapsed() < warm {
                timers.hurry(Duration::from_micros(100)).await;
                tokio::task::yield_now().await;
            }
            if number >= stalling {
                return;
            }
            let (mut measured, stalled) = (Vec::new(), Instant::now());
            while stalled.elapsed() < stall {
                let until = Instant::now() + length;
                let mut left = 10;
                while Instant::now() < until {
                    if left > 0 {
                        left -= 1;
                        let due = Instant::now() + LENGTH;
                        let armed = [
                            ("sleep", timers.sleep(LENGTH)),
                            ("timeout", timers.timeout(LENGTH)),
                            ("deadline", timers.deadline(LENGTH)),
                        ];
                        measured.extend(armed.map(|(kind, waiting)| {
                            let lateness = lateness.clone();
                            tokio::spawn(async move {
                                waiting.await;
                                lateness.keep(kind, due);
                            })
                        }));
                    }
                    if hurried.is_zero() {
                        spin(length / 10);
                    } else {
                        timers.hurry(length / 10).await;
                    }
                }
                tokio::task::yield_now().await;
            }
            for waiting in measured {
                waiting.await.unwrap();
            }
        })
    });
    let polls: Vec<_> = polls.collect();
    runtime.block_on(async {
        for poll in polls {
            poll.await.unwrap();
        }
    });
}

/// Tasks that are always ready, and do a little each time.
fn spawn_ready_tasks(runtime: &Runtime) {
    for _ in 0..200 {
        runtime.spawn(async {
            loop {
                spin(Duration::from_micros(10));
                tokio::task::yield_now().await;
            }
        });
    }
}

/// A waker that notes how late it is woken, whenever its task runs after that.
struct Note {
    kind: &'static str,
    due: Instant,
    lateness: Lateness,
    inner: AtomicWaker,
}

impl Wake for Note {
    fn wake(self: Arc<Note>) {
        self.lateness.keep(self.kind, self.due);
        self.inner.wake();
    }
}

async fn noted(mut sleep: Waiting, kind: &'static str, due: Instant, lateness: Lateness) {
    let inner = AtomicWaker::new();
    let note = Arc::new(Note {
        kind,
        due,
        lateness,
        inner,
    });
    let waker = Waker::from(note.clone());
    poll_fn(|cx| {
        note.inner.register(cx.waker());
        sleep.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await;
}

fn burst(runtime: &Runtime, timers: &Timers, lateness: &Lateness) {
    let due = Instant::now() + Duration::from_millis(1_500);
    let _context = runtime.enter();
    let sleeps = (0..20_000).map(|_| {
        let sleep = timers.sleep_until(due);
        runtime.spawn(noted(sleep, "sleep", due, lateness.clone()))
    });
    let sleeps: Vec<_> = sleeps.collect();
    spawn_ready_tasks(runtime);
    runtime.block_on(async {
        for sleep in sleeps {
            sleep.await.unwrap();
        }
    });
}

/// A slot of the third level holds the sleeps of 4,096 ms. When its time comes, all of them go to
/// the second level at once. What is short is measured around that moment.
fn cascade(runtime: &Runtime, timers: &Timers, lateness: &Lateness) {
    let (timers, lateness) = (timers.clone(), lateness.clone());
    spawn_ready_tasks(runtime);
    let task = runtime.spawn(async move {
        let start = Instant::now();
        let mut far: Vec<_> = (0..200_000)
            .map(|at| timers.sleep(Duration::from_millis(6_000 + at % 1_000)))
            .collect();
        for sleep in &mut far {
            assert!(futures::poll!(tokio::task::unconstrained(sleep)).is_pending());
        }
        let short = (0..64).map(|_| {
            let (timers, lateness) = (timers.clone(), lateness.clone());
            tokio::spawn(async move {
                tokio::time::sleep_until(start + Duration::from_millis(4_000)).await;
                while start.elapsed() < Duration::from_millis(4_500) {
                    let length = Duration::from_millis(5);
                    let due = Instant::now() + length;
                    noted(timers.sleep(length), "short sleep", due, lateness.clone()).await;
                }
            })
        });
        let short: Vec<_> = short.collect();
        for sleep in short {
            sleep.await.unwrap();
        }
    });
    runtime.block_on(task).unwrap();
}
