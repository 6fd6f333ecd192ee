//! How a row is measured: a [`Race`] lets operations take turns, a [`load()`] whole servers and
//! clients, and a [`Record`] is what comes out of each.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::io;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use serde::{Deserialize, Serialize, Serializer};
use tokio::runtime;
use tokio::runtime::{Handle, Runtime};
use tokio::task::{unconstrained, yield_now};

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

/// A row's contenders, which run alternately. In each round each of them has one sample, in an
/// order that is shuffled anew.
pub struct Race {
    row: String,
    threads: usize,
    pace: Pace,
    runtime: Rc<Runtime>,
    contenders: Vec<Contender>,
}

struct Contender {
    name: &'static str,
    runtime: Rc<Runtime>,
    make: Box<dyn FnMut() -> Box<dyn Operation>>,
    /// One operation for each thread, between the samples.
    hands: Vec<Box<dyn Operation>>,
    samples: Vec<f64>,
}

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
            contenders: Vec::new(),
        }
    }

    pub fn paced(self, pace: Pace) -> Race {
        Race { pace, ..self }
    }

    /// Adds a contender. `make` is called once for each thread, within the runtime.
    pub fn enter<O: Operation>(&mut self, name: &'static str, make: impl FnMut() -> O + 'static) {
        self.enter_on(self.runtime.clone(), name, make);
    }

    /// As `enter`, on another runtime than the others are on.
    pub fn enter_on<O: Operation>(
        &mut self,
        runtime: Rc<Runtime>,
        name: &'static str,
        mut make: impl FnMut() -> O + 'static,
    ) {
        self.contenders.push(Contender {
            name,
            runtime,
            make: Box::new(move || Box::new(make())),
            hands: Vec::new(),
            samples: Vec::new(),
        });
    }

    pub fn run(mut self, settings: &Settings) -> Vec<Record> {
        let mut order: Vec<usize> = (0..self.contenders.len()).collect();
        for _ in 0..settings.rounds {
            fastrand::shuffle(&mut order);
            for &index in &order {
                let (pace, threads) = (self.pace, self.threads);
                self.contenders[index].turn(pace, threads, settings);
            }
        }
        self.contenders
            .into_iter()
            .map(|contender| Record::new(&self.row, contender.name, contender.samples))
            .collect()
    }
}

impl Contender {
    fn turn(&mut self, pace: Pace, threads: usize, settings: &Settings) {
        let line = StartingLine::new(threads);
        let mut hands = std::mem::take(&mut self.hands);
        if hands.is_empty() {
            let _within = self.runtime.enter();
            hands.extend((0..threads).map(|_| (self.make)()));
        }
        // These are spawned from outside, so each goes to a worker that is free.
        let tasks: Vec<_> = hands
            .into_iter()
            .map(|mut hand| {
                let (line, settings) = (line.clone(), settings.clone());
                self.runtime.spawn(unconstrained(async move {
                    let took = sample(&mut *hand, pace, &settings, &line).await;
                    (hand, took)
                }))
            })
            .collect();
        let mut took = Vec::new();
        for task in tasks {
            let (hand, one) = self
                .runtime
                .block_on(task)
                .expect("the operation does not panic");
            self.hands.push(hand);
            took.push(one);
        }
        self.samples.push(core_time(&took));
    }
}

/// Nanoseconds of a core for each operation. With at most as many threads as cores, this is what an
/// operation takes on its thread.
pub fn core_time(took: &[Took]) -> f64 {
    let cores = available_parallelism().map_or(1, usize::from);
    let time: f64 = took.iter().map(|took| took.time.as_secs_f64()).sum();
    let operations: usize = took.iter().map(|took| took.operations).sum();
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
    /// The runtime of the clients: one of the two below.
    pub clients_on: Handle,
    /// The other side of the sockets, if it has a thread of its own.
    pub other: Option<Runtime>,
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
    let warm_up = settings.either(Duration::from_millis(30), Duration::from_millis(20));
    let sample = settings.either(Duration::from_millis(90), Duration::from_millis(40));
    let mut samples = vec![[const { Vec::new() }; 2]; contenders.len()];
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    for _ in 0..rounds {
        fastrand::shuffle(&mut order);
        for &index in &order {
            let [rate, cpu] = set_up(contenders[index]).turn(warm_up, sample);
            samples[index][0].push(rate);
            samples[index][1].push(cpu);
        }
    }
    let each = contenders.iter().zip(samples);
    each.flat_map(|(contender, [rate, cpu])| {
        [
            Record::new(&format!("{part}-rate"), contender, rate),
            Record::new(&format!("{part}-cpu"), contender, cpu),
        ]
    })
    .collect()
}

#[derive(Default)]
struct Turn {
    is_over: AtomicBool,
    requests: AtomicU64,
}

/// What the measured thread has done up to a moment.
struct Look {
    at: Instant,
    requests: u64,
    cpu: Duration,
}

impl<C: Client> Scene<C> {
    /// Requests a second, and nanoseconds of the measured thread for each.
    fn turn(mut self, warm_up: Duration, sample: Duration) -> [f64; 2] {
        let turn = Arc::new(Turn::default());
        let tasks: Vec<_> = std::mem::take(&mut self.clients)
            .into_iter()
            .map(|client| self.clients_on.spawn(requests(client, turn.clone())))
            .collect();
        sleep(warm_up);
        let before = self.look(&turn);
        sleep(sample);
        let after = self.look(&turn);
        turn.is_over.store(true, Ordering::Relaxed);
        for task in tasks {
            let client = self.clients_on.block_on(task);
            self.clients.push(client.expect("no client panics"));
        }
        let requests = (after.requests - before.requests) as f64;
        [
            requests / (after.at - before.at).as_secs_f64(),
            (after.cpu - before.cpu).as_nanos() as f64 / requests,
        ]
    }

    /// Looks from a task: that is on the one worker, so the time of its thread is the worker's.
    fn look(&self, turn: &Arc<Turn>) -> Look {
        let turn = turn.clone();
        let look = self.measured.spawn(async move {
            Look {
                at: Instant::now(),
                requests: turn.requests.load(Ordering::Relaxed),
                cpu: ThreadTime::now().as_duration(),
            }
        });
        self.measured.block_on(look).expect("a look does not panic")
    }
}

async fn requests<C: Client>(mut client: C, turn: Arc<Turn>) -> C {
    while !turn.is_over.load(Ordering::Relaxed) {
        client.request().await.expect("the request is answered");
        turn.requests.fetch_add(1, Ordering::Relaxed);
    }
    client
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

/// What one task did in one sample.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    pub time: Duration,
    pub operations: usize,
}

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
    Took {
        time: begin.elapsed(),
        operations,
    }
}

async fn passes(
    hand: &mut dyn Operation,
    size: usize,
    every: Duration,
    settings: &Settings,
) -> Took {
    let mut took = Took {
        time: Duration::ZERO,
        operations: 0,
    };
    let begin = Instant::now();
    while begin.elapsed() < settings.warm_up + settings.sample {
        let pass = Instant::now();
        let time = batch(hand, size).await;
        if begin.elapsed() >= settings.warm_up {
            took.time += time;
            took.operations += size;
        }
        while pass.elapsed() < every {
            yield_now().await;
        }
    }
    took
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

/// Where the tasks of a sample wait for one another. They keep yielding, so the wait needs no more
/// workers than there are.
#[derive(Clone)]
pub struct StartingLine {
    missing: Arc<AtomicUsize>,
}

impl StartingLine {
    pub fn new(tasks: usize) -> StartingLine {
        StartingLine {
            missing: Arc::new(AtomicUsize::new(tasks)),
        }
    }

    async fn all_here(&self) {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        while self.missing.load(Ordering::Acquire) > 0 {
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
pub fn operation(run: impl FnMut(&mut Context<'_>, usize) + Send + 'static) -> impl Operation {
    run
}

/// Makes a future with a duration, polls it once and drops it. All futures must be ready, or none.
pub fn polled_once<F: Future>(
    ready: bool,
    mut make: impl FnMut(Duration) -> F + Send + 'static,
) -> impl Operation {
    let durations = Durations::of_timeouts();
    operation(move |cx, times| {
        let mut were_ready = 0;
        for index in 0..times {
            let future = pin!(make(durations.get(index)));
            were_ready += usize::from(future.poll(cx).is_ready());
        }
        assert_eq!(
            were_ready,
            if ready { times } else { 0 },
            "measured something else"
        );
    })
}

// Durations that differ, at the price of one load.

const LEN: usize = 1024;

/// A table of random durations, read round and round.
pub struct Durations {
    table: Box<[Duration; LEN]>,
}

impl Durations {
    /// Durations within this range of seconds.
    pub fn seconds(range: Range<u64>) -> Durations {
        let micros = range.start * 1_000_000..range.end * 1_000_000;
        let table = (0..LEN)
            .map(|_| Duration::from_micros(fastrand::u64(micros.clone())))
            .collect::<Box<[_]>>();
        Durations {
            table: table.try_into().expect("it has that length"),
        }
    }

    /// What timeouts commonly are: 5 to 60 seconds.
    pub fn of_timeouts() -> Durations {
        Durations::seconds(5..60)
    }

    pub fn get(&self, index: usize) -> Duration {
        self.table[index % LEN]
    }
}

// Inner futures for timeouts. The compiler cannot know what they will answer.

/// Ready at the first poll.
pub struct Once;

impl Future for Once {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if black_box(true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Never ready.
pub struct Never;

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if black_box(false) {
            Poll::Ready(())
        } else {
            Poll::Pending
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
            let (below, above) = (
                sorted[place.floor() as usize],
                sorted[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Some(Quartiles {
            lower: at(0.25),
            median: at(0.5),
            upper: at(0.75),
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
    serializer.collect_seq(samples.iter().map(|sample| {
        let rounded = format!("{sample:.3e}").parse();
        rounded.unwrap_or(*sample)
    }))
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
        match all
            .iter_mut()
            .find(|known| known.is_of(&one.row, &one.contender))
        {
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

    use super::*;

    const WORK: Duration = Duration::from_millis(1);

    /// Takes that much of its thread's time for a request.
    struct Works;

    impl Client for Works {
        async fn request(&mut self) -> io::Result<()> {
            let begin = ThreadTime::now().as_duration();
            while ThreadTime::now().as_duration() - begin < WORK {}
            yield_now().await;
            Ok(())
        }
    }

    #[test]
    fn the_time_of_the_measured_thread_counts_alone() {
        for is_measured in [true, false] {
            let (measured, other) = (runtime(1), runtime(1));
            let scene = Scene {
                clients: vec![Works],
                clients_on: if is_measured { &measured } else { &other }
                    .handle()
                    .clone(),
                other: Some(other),
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
        let one = Quartiles::of(&[3.0]).unwrap();
        assert_eq!((one.lower, one.median, one.upper), (3.0, 3.0, 3.0));
        let five = Quartiles::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((five.lower, five.median, five.upper), (2.0, 3.0, 4.0));
        assert_eq!(Quartiles::of(&[1.0, 2.0]).unwrap().median, 1.5);
    }

    /// A row of timeouts arms what it says, and no less because of tokio's cooperative budget.
    #[test]
    fn arms_as_often_as_it_says() {
        runtime(2).block_on(async {
            let timer = Timer::builder().build().unwrap();
            for (ready, armed) in [(true, 0), (false, 5_000)] {
                let mut hand: Box<dyn Operation> = if ready {
                    let timer = timer.clone();
                    Box::new(polled_once(ready, move |after| timer.timeout(after, Once)))
                } else {
                    let timer = timer.clone();
                    Box::new(polled_once(ready, move |after| timer.timeout(after, Never)))
                };
                unconstrained(batch(&mut *hand, 5_000)).await;
                let metrics = timer.metrics();
                assert_eq!((metrics.armed, metrics.disarmed), (armed, armed));
            }
        });
    }
}
