//! How a row is measured: a [`Race`] lets operations take turns, a [`load()`] whole servers and
//! clients, and a [`Record`] is what comes out of each.

use std::array;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use serde::{Deserialize, Serialize, Serializer};
use tokio::runtime;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, unconstrained, yield_now};

use crate::settings::Settings;

// A row's contenders, and their rounds.

/// A runtime of the kind that programs use, with this many workers; with 0 it is on the current
/// thread.
pub fn runtime(workers: usize) -> Runtime {
    let mut builder = match workers {
        0 => runtime::Builder::new_current_thread(),
        _ => runtime::Builder::new_multi_thread(),
    };
    let builder = builder.worker_threads(workers.max(1)).enable_all();
    builder.build().expect("the runtime starts")
}

/// A row's contenders, which run alternately: in each round each of them has one sample.
pub struct Race {
    pub row: String,
    threads: usize,
    pace: Pace,
    runtime: Rc<Runtime>,
    pub names: Vec<&'static str>,
    contenders: Vec<Contender>,
}

struct Contender {
    runtime: Rc<Runtime>,
    make: Box<dyn FnMut() -> Hand>,
    /// One operation for each thread, between the samples.
    hands: Vec<Hand>,
}

/// An operation of any contender.
pub type Hand = Box<dyn Operation>;

impl Race {
    /// A race in this many tasks at once, on a runtime with a worker for each, and two at least.
    /// With 0 it is one task on a runtime of the current thread.
    pub fn new(row: impl Into<String>, threads: usize) -> Race {
        let workers = if threads == 0 { 0 } else { threads.max(2) };
        Race {
            row: row.into(),
            threads: threads.max(1),
            pace: Pace::Continuous,
            runtime: Rc::new(runtime(workers)),
            names: Vec::new(),
            contenders: Vec::new(),
        }
    }

    pub fn paced(self, pace: Pace) -> Race {
        Race { pace, ..self }
    }

    /// Adds a contender. `make` is called once for each thread, within the runtime.
    pub fn enter(&mut self, name: &'static str, make: impl FnMut() -> Hand + 'static) {
        self.enter_on(self.runtime.clone(), name, make);
    }

    /// As `enter`, on another runtime than the others are on.
    pub fn enter_on(
        &mut self,
        runtime: Rc<Runtime>,
        name: &'static str,
        make: impl FnMut() -> Hand + 'static,
    ) {
        self.names.push(name);
        self.contenders.push(Contender {
            runtime,
            make: Box::new(make),
            hands: Vec::new(),
        });
    }

    /// An operation of one contender, and its runtime.
    pub fn alone(mut self, contender: &str) -> (Rc<Runtime>, Hand) {
        let index = self.names.iter().position(|name| *name == contender);
        let contender = &mut self.contenders[index.expect("it was entered")];
        let _within = contender.runtime.enter();
        (contender.runtime.clone(), (contender.make)())
    }

    pub fn run(mut self, settings: &Settings) -> Vec<Record> {
        in_turn(&[&self.row], &self.names, settings.rounds, |index| {
            let contender = &mut self.contenders[index];
            if contender.hands.is_empty() {
                let _within = contender.runtime.enter();
                let hands = (0..self.threads).map(|_| (contender.make)());
                contender.hands.extend(hands);
            }
            let hands = &mut contender.hands;
            [at_once(&contender.runtime, hands, self.pace, settings)]
        })
    }
}

/// Lets contenders take turns, in an order that is shuffled anew in each round. `turn` runs the
/// contender of that index, and returns its figure in each of the rows.
pub fn in_turn<const ROWS: usize>(
    rows: &[impl AsRef<str>; ROWS],
    contenders: &[&str],
    rounds: usize,
    mut turn: impl FnMut(usize) -> [f64; ROWS],
) -> Vec<Record> {
    let of_each = |who: &&str| {
        let rows = rows.each_ref();
        rows.map(|row| Record::new(row.as_ref(), who, Vec::new()))
    };
    let mut records: Vec<_> = contenders.iter().map(of_each).collect();
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for _ in 0..rounds {
        fastrand::shuffle(&mut order);
        for &index in &order {
            for (record, figure) in records[index].iter_mut().zip(turn(index)) {
                record.samples.push(figure);
            }
        }
    }
    records.into_iter().flatten().collect()
}

/// A sample of each of these in a task of its own, all at once: nanoseconds for each operation.
pub fn at_once(runtime: &Runtime, hands: &mut Vec<Hand>, pace: Pace, settings: &Settings) -> f64 {
    let line = Arc::new(StartingLine::new(hands.len()));
    let run = |mut hand: Hand| {
        let (line, settings) = (line.clone(), settings.clone());
        // It is spawned from outside, so it goes to a worker that is free.
        runtime.spawn(unconstrained(async move {
            let took = sample(&mut *hand, pace, &settings, &line).await;
            (hand, took)
        }))
    };
    let tasks: Vec<_> = hands.drain(..).map(run).collect();
    let mut took = Vec::new();
    for task in tasks {
        let (hand, one) = runtime.block_on(task).expect("no operation panics");
        hands.push(hand);
        took.push(one);
    }
    core_time(&took)
}

/// Nanoseconds of a core for each operation. With at most as many threads as cores, this is what an
/// operation takes on its thread.
pub fn core_time(took: &[Took]) -> f64 {
    let cores = available_parallelism().map_or(1, usize::from);
    let time: f64 = took.iter().map(|(time, _)| time.as_secs_f64()).sum();
    let operations: usize = took.iter().map(|(_, operations)| operations).sum();
    let busy = cores.min(took.len()) as f64 / took.len() as f64;
    time * busy * 1e9 / operations as f64
}

// Contenders that stand in a server, a client or a proxy: how many requests a second they let
// through, and what a request costs on the thread whose timers are compared.
//
// A contender is set up anew for each of its turns. So no timer of another contender is armed
// meanwhile, and the luck of a set-up, in ports and in the heap, stays with nobody.

/// Sends requests, one after the other.
pub trait Client: Send + 'static {
    /// Sends a request and waits for its answer.
    fn request(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// What a contender needs for one turn. Fields are dropped in this order.
pub struct Scene<C> {
    /// They all have a request under way during the turn.
    pub clients: Vec<C>,
    /// Runs the clients, and whatever else is not measured.
    pub other: Runtime,
    /// Has the timers that are compared, and one worker. The CPU of that thread counts.
    pub measured: Runtime,
}

/// Lets contenders take turns, and records for each the rows `<part>-rate` and `<part>-cpu`.
pub fn load<C: Client>(
    part: &str,
    contenders: &[&'static str],
    settings: &Settings,
    mut set_up: impl FnMut(&'static str) -> Scene<C>,
) -> Vec<Record> {
    let rounds = settings.either(25, 3);
    let [warm_up, sample] = settings
        .either([30, 90], [20, 40])
        .map(Duration::from_millis);
    let rows = ["rate", "cpu"].map(|row| format!("{part}-{row}"));
    in_turn(&rows, contenders, rounds, |index| {
        set_up(contenders[index]).turn(warm_up, sample)
    })
}

impl<C: Client> Scene<C> {
    /// Requests a second, and nanoseconds of the measured thread for each.
    fn turn(self, warm_up: Duration, sample: Duration) -> [f64; 2] {
        let requests = Arc::new(AtomicU64::new(0));
        let send = |mut client: C| {
            let requests = requests.clone();
            self.other.spawn(async move {
                loop {
                    client.request().await.expect("the request is answered");
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let tasks: Vec<JoinHandle<()>> = self.clients.into_iter().map(send).collect();
        // From a task: that is on the one worker, so the time of its thread is the worker's.
        let look = || {
            let requests = requests.clone();
            let look = self.measured.spawn(async move {
                let cpu = ThreadTime::now().as_duration();
                (Instant::now(), requests.load(Ordering::Relaxed), cpu)
            });
            self.measured.block_on(look).expect("a look does not panic")
        };
        sleep(warm_up);
        let before = look();
        sleep(sample);
        let after = look();
        assert!(
            tasks.iter().all(|task| !task.is_finished()),
            "a client failed"
        );
        let requests = (after.1 - before.1) as f64;
        [
            requests / (after.0 - before.0).as_secs_f64(),
            (after.2 - before.2).as_nanos() as f64 / requests,
        ]
    }
}

// One sample of one contender: warm up, then take the time of as many operations as fit.
//
// The loop runs in tasks, one for each thread, that begin together. It yields to the runtime every
// `BATCH`, like a well-behaved task, and what the runtime does then counts. Operations are not
// timed one by one, because a reading of the clock costs more than most of them.

/// How long a task runs before it yields.
const BATCH: Duration = Duration::from_micros(200);

/// How operations are spread over a sample.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// One after the other.
    Continuous,
    /// Passes of `size` operations. A pass begins at least `every` after the one before. Only the
    /// passes are timed.
    Passes { size: usize, every: Duration },
}

/// How long one task took in one sample, and for how many operations.
pub type Took = (Duration, usize);

/// Runs one sample in the current task.
pub async fn sample(
    hand: &mut dyn Operation,
    pace: Pace,
    settings: &Settings,
    start: &StartingLine,
) -> Took {
    poll_fn(|cx| {
        hand.prepare(cx);
        Poll::Ready(())
    })
    .await;
    start.all_here().await;
    match pace {
        Pace::Continuous => continuous(hand, settings).await,
        Pace::Passes { size, every } => passes(hand, size, every, settings).await,
    }
}

async fn continuous(hand: &mut dyn Operation, settings: &Settings) -> Took {
    let mut size = 64;
    let begin = Instant::now();
    while begin.elapsed() < settings.warm_up {
        if batch(hand, size).await < BATCH {
            size *= 2;
        }
        yield_now().await;
    }

    let mut operations = 0;
    let begin = Instant::now();
    while begin.elapsed() < settings.sample {
        batch(hand, size).await;
        operations += size;
        yield_now().await;
    }
    (begin.elapsed(), operations)
}

async fn passes(
    hand: &mut dyn Operation,
    size: usize,
    every: Duration,
    settings: &Settings,
) -> Took {
    let (mut time, mut operations) = (Duration::ZERO, 0);
    let begin = Instant::now();
    while begin.elapsed() < settings.warm_up + settings.sample {
        let pass = Instant::now();
        let took = batch(hand, size).await;
        if begin.elapsed() >= settings.warm_up {
            time += took;
            operations += size;
        }
        while pass.elapsed() < every {
            yield_now().await;
        }
    }
    (time, operations)
}

/// The time of a number of operations, all in one poll of the task.
pub async fn batch(hand: &mut dyn Operation, size: usize) -> Duration {
    poll_fn(|cx| {
        let begin = Instant::now();
        hand.run(cx, size);
        Poll::Ready(begin.elapsed())
    })
    .await
}

/// Where the tasks of a sample wait for one another: how many are missing. They keep yielding, so
/// the wait needs no more workers than there are.
pub struct StartingLine(AtomicUsize);

impl StartingLine {
    pub fn new(tasks: usize) -> StartingLine {
        StartingLine(AtomicUsize::new(tasks))
    }

    async fn all_here(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) > 0 {
            yield_now().await;
        }
    }
}

// What a contender does.

/// What a contender does, over and over, in one task.
pub trait Operation: Send + 'static {
    /// Makes ready, before the time is taken. It runs in the task that will run the operation.
    fn prepare(&mut self, _cx: &mut Context<'_>) {}

    /// Does the operation `times` times. `cx` is the context of the task.
    fn run(&mut self, cx: &mut Context<'_>, times: usize);
}

impl<F: FnMut(&mut Context<'_>, usize) + Send + 'static> Operation for F {
    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        self(cx, times);
    }
}

/// An operation from a closure, which does it as often as its argument says.
pub fn operation(run: impl FnMut(&mut Context<'_>, usize) + Send + 'static) -> Hand {
    Box::new(run)
}

/// Makes a future with a duration, polls it once and drops it. All futures must be ready, or none.
pub fn polled_once<F: Future>(
    ready: bool,
    mut make: impl FnMut(Duration) -> F + Send + 'static,
) -> Hand {
    let durations = Durations::of_timeouts();
    operation(move |cx, times| {
        let mut were_ready = 0;
        for index in 0..times {
            let future = pin!(make(durations.get(index)));
            were_ready += usize::from(future.poll(cx).is_ready());
        }
        let expected = if ready { times } else { 0 };
        assert_eq!(were_ready, expected, "measured something else");
    })
}

// Durations that differ, at the price of one load.

const LEN: usize = 1024;

/// A table of random durations, read round and round.
pub struct Durations(Box<[Duration; LEN]>);

impl Durations {
    /// Durations within this range of seconds.
    pub fn seconds(range: Range<u64>) -> Durations {
        let micros = range.start * 1_000_000..range.end * 1_000_000;
        let random = || Duration::from_micros(fastrand::u64(micros.clone()));
        Durations(Box::new(array::from_fn(|_| random())))
    }

    /// What timeouts commonly are: 5 to 60 seconds.
    pub fn of_timeouts() -> Durations {
        Durations::seconds(5..60)
    }

    pub fn get(&self, index: usize) -> Duration {
        self.0[index % LEN]
    }
}

/// An inner future for timeouts: ready at the first poll, or never. The compiler cannot know which.
pub struct Inner<const READY: bool>;

impl<const READY: bool> Future for Inner<READY> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match black_box(READY) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

// Medians and quartiles. A few samples that a neighbour on the machine disturbed do not move them.

/// The median and the quartiles of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    pub lower: f64,
    pub median: f64,
    pub upper: f64,
}

impl Quartiles {
    /// Of ratios: in some rounds the one was ahead, and in others the other.
    pub fn is_equal(&self) -> bool {
        self.lower <= 1.0 && self.upper >= 1.0
    }

    /// `None` if there are no samples. Between two samples it interpolates.
    pub fn of(samples: &[f64]) -> Option<Quartiles> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)? as f64;
        let at = |part: f64| {
            let place = part * last;
            let [below, above] = [place.floor(), place.ceil()].map(|at| sorted[at as usize]);
            below + (above - below) * place.fract()
        };
        let [lower, median, upper] = [0.25, 0.5, 0.75].map(at);
        Some(Quartiles {
            lower,
            median,
            upper,
        })
    }
}

// What a measured process tells the process that started it: one line of JSON for each contender
// in a row.

/// The samples of one contender in one row, in the order of the rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub row: String,
    pub contender: String,
    #[serde(serialize_with = "to_four_digits")]
    pub samples: Vec<f64>,
}

/// No measurement here tells more.
fn to_four_digits<S: Serializer>(samples: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let rounded = |sample: &f64| format!("{sample:.3e}").parse().unwrap_or(*sample);
    serializer.collect_seq(samples.iter().map(rounded))
}

impl Record {
    pub fn new(row: &str, contender: &str, samples: Vec<f64>) -> Record {
        Record {
            row: row.to_owned(),
            contender: contender.to_owned(),
            samples,
        }
    }

    /// `None` where nothing could be measured.
    pub fn quartiles(&self) -> Option<Quartiles> {
        Quartiles::of(&self.samples)
    }

    /// Adds the samples of another process to those of the same contender in the same row.
    pub fn gather(all: &mut Vec<Record>, one: Record) {
        let mut known = all.iter_mut();
        match known.find(|known| known.is_of(&one.row, &one.contender)) {
            Some(known) => known.samples.extend(one.samples),
            None => all.push(one),
        }
    }

    pub fn is_of(&self, row: &str, contender: &str) -> bool {
        self.row == row && self.contender == contender
    }
}

#[cfg(test)]
mod tests {
    use tickwheel::Timer;
    use tokio::runtime::Handle;

    use super::*;

    const WORK: Duration = Duration::from_millis(1);

    /// A request takes that much time of a thread of this runtime.
    struct Works(Handle);

    impl Client for Works {
        async fn request(&mut self) -> io::Result<()> {
            let work = self.0.spawn(async {
                let begin = ThreadTime::now().as_duration();
                while ThreadTime::now().as_duration() - begin < WORK {}
            });
            Ok(work.await?)
        }
    }

    #[test]
    fn the_time_of_the_measured_thread_counts_alone() {
        for is_measured in [true, false] {
            let (measured, other) = (runtime(1), runtime(1));
            let at_work = if is_measured { &measured } else { &other };
            let clients = vec![Works(at_work.handle().clone())];
            let scene = Scene {
                clients,
                other,
                measured,
            };
            let [rate, cpu] = scene.turn(Duration::from_millis(10), Duration::from_millis(300));
            assert!(rate > 0.0);
            let half = WORK.as_nanos() as f64 / 2.0;
            assert_eq!(cpu > half, is_measured, "{cpu} ns");
        }
    }

    #[test]
    fn quartiles_of_few_and_of_none() {
        assert_eq!(Quartiles::of(&[]), None);
        let two = Quartiles::of(&[3.0, 1.0]).unwrap();
        assert_eq!([two.lower, two.median, two.upper], [1.5, 2.0, 2.5]);
    }

    /// A row of timeouts arms what it says, and no less because of tokio's cooperative budget.
    #[test]
    fn arms_as_often_as_it_says() {
        runtime(2).block_on(async {
            let timer = Timer::builder().build().unwrap();
            for (ready, armed) in [(true, 0), (false, 5_000)] {
                let of = timer.clone();
                let mut hand = match ready {
                    true => polled_once(ready, move |after| of.timeout(after, Inner::<true>)),
                    false => polled_once(ready, move |after| of.timeout(after, Inner::<false>)),
                };
                unconstrained(batch(&mut *hand, 5_000)).await;
                let metrics = timer.metrics();
                assert_eq!((metrics.armed, metrics.disarmed), (armed, armed));
            }
        });
    }
}
