//! The stand-in for tokio and tokio itself: one random program of sleeps and tasks runs on both,
//! and every answer, every wake-up and every instant is compared. tokio's clock is paused. And that
//! another thread may come before each call of the stand-in's.
//!
//! `ORACLE_SEED` says where the seeds begin, and `ORACLE_PROGRAMS` how many programs run.
//!
//! These differences are legitimate, and the comparison leaves them out:
//!
//! - **What one round of the time driver fires is woken in any order.** tokio promises none.
//! - **Why a poll panics** once the runtime is shut down.
//! - **A waker that is called while tokio's driver still has others to wake.** It wakes 32 at a
//!   time, and no program here has so many.

use std::future::Future;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use fastrand::Rng;

/// From now, in microseconds, negative for the past.
type Offset = i64;

/// One step. `Nth` counts round among the sleeps that there are.
#[derive(Clone, Debug)]
enum Op {
    Make(Offset),
    Poll(Nth, usize),
    Reset(Nth, Offset),
    /// Resets it twice, with nothing in between.
    ResetTwice(Nth, Offset, Offset),
    Drop(Nth),
    /// A task that sleeps so often, each time for so long, and then ends.
    Spawn(u8, Offset),
    /// The clock moves, and the driver comes round.
    Advance(u64),
    /// The clock moves, and the driver does not see it yet.
    AdvanceUnseen(u64),
    /// Time runs from one timer to the next.
    RunFor(u64),
    /// The driver comes round.
    Settle,
    /// The runtime ends. It comes last but for operations without time.
    End,
}

type Nth = usize;

/// What has happened: what, when, and how often.
type Log = Arc<Mutex<Vec<(String, Duration)>>>;

/// So many rounds let everything happen that can.
const ROUNDS: usize = 8;

/// Far from any timer of the programs that run by themselves.
const DAY: u64 = 24 * 60 * 60 * 1_000_000;

fn random(seed: u64) -> Vec<Op> {
    let mut random = Rng::with_seed(seed);
    let is_whole = random.bool();
    let count = random.usize(10..80);
    let mut ops: Vec<_> = (0..count).map(|_| op(&mut random, is_whole)).collect();
    if random.u8(..3) == 0 {
        ops.push(Op::End);
        let ops_after = (0..random.usize(..12)).map(|_| op(&mut random, is_whole));
        ops.extend(ops_after.filter(|op| !takes_time(op)));
    }
    ops
}

fn takes_time(op: &Op) -> bool {
    matches!(
        op,
        Op::Advance(_) | Op::AdvanceUnseen(_) | Op::RunFor(_) | Op::Settle
    )
}

fn op(random: &mut Rng, is_whole: bool) -> Op {
    let nth = random.usize(..1_000);
    match random.u8(..32) {
        0..6 => Op::Make(offset(random, is_whole)),
        6..12 => Op::Poll(nth, random.usize(..2)),
        12..17 => Op::Reset(nth, offset(random, is_whole)),
        17..19 => {
            let to = [offset(random, is_whole), offset(random, is_whole)];
            Op::ResetTwice(nth, to[0], to[1])
        }
        19 | 20 => Op::Drop(nth),
        21 | 22 => Op::Spawn(random.u8(..3), offset(random, is_whole)),
        23..26 => Op::Advance(step(random, is_whole)),
        26 | 27 => Op::AdvanceUnseen(step(random, is_whole)),
        28..31 => Op::RunFor(step(random, is_whole).min(10_000_000)),
        _ => Op::Settle,
    }
}

fn step(random: &mut Rng, is_whole: bool) -> u64 {
    let micros = match random.u8(..12) {
        0..3 => random.u64(..1_500),
        3..8 => random.u64(..20_000),
        8 => 64_000 + random.u64(..3_000) - 1_500,
        9 | 10 => random.u64(..300_000),
        _ => random.u64(..2 * DAY),
    };
    if is_whole {
        micros / 1_000 * 1_000
    } else {
        micros
    }
}

fn offset(random: &mut Rng, is_whole: bool) -> Offset {
    let micros = step(random, is_whole) as Offset;
    match random.u8(..10) {
        0 => -micros.min(50_000),
        1 => 0,
        // Beyond all slots of tokio's wheel, and by less.
        2 => (DAY * random.u64(1..2_000)) as Offset,
        _ => micros,
    }
}

/// Notes when it is woken.
struct Noting<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Noting<F> {
    fn wake(self: Arc<Self>) {
        self.0();
    }
}

fn noting(note: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Noting(note)))
}

/// `None` if it panics.
fn quietly<R>(call: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// The interpreter, once for each of the two. `driver` is what differs.
macro_rules! interpreter {
    ($name:ident, $tokio:ident) => {
        mod $name {
            use $tokio::runtime::Handle;
            use $tokio::task::JoinHandle;
            use $tokio::time::{Instant, Sleep, sleep, sleep_until};

            use super::*;

            pub(super) struct Machine {
                start: Instant,
                handle: Handle,
                sleeps: Vec<(usize, Pin<Box<Sleep>>)>,
                tasks: Vec<JoinHandle<usize>>,
                made: usize,
                log: Log,
            }

            /// Tells that a task's future was dropped, and before which wake-ups.
            struct Dropped(usize, Log, Instant);

            impl Drop for Dropped {
                fn drop(&mut self) {
                    note(&self.1, self.2, format!("task {} is dropped", self.0));
                }
            }

            fn note(log: &Log, start: Instant, what: String) {
                let when = Instant::now().saturating_duration_since(start);
                log.lock().unwrap().push((what, when));
            }

            fn from_now(micros: Offset) -> Instant {
                let distance = Duration::from_micros(micros.unsigned_abs());
                let now = Instant::now();
                if micros < 0 {
                    now.checked_sub(distance).unwrap()
                } else {
                    now + distance
                }
            }

            impl Machine {
                /// Call this in the runtime's context.
                pub(super) fn new() -> Machine {
                    Machine {
                        start: Instant::now(),
                        handle: Handle::current(),
                        sleeps: Vec::new(),
                        tasks: Vec::new(),
                        made: 0,
                        log: Log::default(),
                    }
                }

                pub(super) fn act(&mut self, op: &Op) -> String {
                    let count = self.sleeps.len();
                    match *op {
                        Op::Make(at) => {
                            self.made += 1;
                            let sleep = Box::pin(sleep_until(from_now(at)));
                            self.sleeps.push((self.made, sleep));
                        }
                        Op::Spawn(times, micros) => {
                            self.made += 1;
                            let dropped = Dropped(self.made, self.log.clone(), self.start);
                            let length = Duration::from_micros(micros.unsigned_abs());
                            let task = async move {
                                let Dropped(number, log, start) = &dropped;
                                for _ in 0..times {
                                    sleep(length).await;
                                    note(log, *start, format!("task {number} has slept"));
                                }
                                *number
                            };
                            self.tasks.push(self.handle.spawn(task));
                        }
                        Op::Poll(nth, which) if count > 0 => {
                            let (number, sleep) = &mut self.sleeps[nth % count];
                            let (log, start, number) = (self.log.clone(), self.start, *number);
                            let what = format!("waker {which} of {number} is woken");
                            let waker = noting(move || note(&log, start, what.clone()));
                            let mut cx = Context::from_waker(&waker);
                            let polled = quietly(|| {
                                let sleep = $tokio::task::coop::unconstrained(sleep.as_mut());
                                pin!(sleep).poll(&mut cx)
                            });
                            return format!("{polled:?}");
                        }
                        Op::Reset(nth, at) if count > 0 => {
                            self.sleeps[nth % count].1.as_mut().reset(from_now(at));
                        }
                        Op::ResetTwice(nth, first, then) if count > 0 => {
                            let sleep = &mut self.sleeps[nth % count].1;
                            sleep.as_mut().reset(from_now(first));
                            let is_elapsed = sleep.is_elapsed();
                            sleep.as_mut().reset(from_now(then));
                            return format!("{is_elapsed}");
                        }
                        Op::Drop(nth) if count > 0 => drop(self.sleeps.swap_remove(nth % count)),
                        _ => {}
                    }
                    String::new()
                }

                /// Which sleeps have elapsed, which tasks have ended, all that has happened, and to
                /// which instants time has run by itself.
                pub(super) fn state(&mut self, instants: &Mutex<Vec<Instant>>) -> String {
                    let elapsed = |(number, sleep): &(usize, Pin<Box<Sleep>>)| {
                        sleep.is_elapsed().then_some(*number)
                    };
                    let elapsed: Vec<_> = self.sleeps.iter().filter_map(elapsed).collect();
                    let mut ended = Vec::new();
                    self.tasks.retain_mut(|task| {
                        let is_finished = task.is_finished();
                        if is_finished {
                            let mut cx = Context::from_waker(Waker::noop());
                            let polled = Pin::new(task).poll(&mut cx);
                            ended.push(polled.map(|output| output.map_err(drop)));
                        }
                        !is_finished
                    });
                    let mut log = take(&mut *self.log.lock().unwrap());
                    // Tasks are dropped before anything is woken, where both come at once.
                    let is_drop = |(what, _): &(String, Duration)| what.contains("dropped");
                    let woken_before = log
                        .iter()
                        .rposition(is_drop)
                        .map(|last| log[..last].iter().filter(|one| !is_drop(one)).count());
                    let woken_before = woken_before.filter(|_| self.has_ended());
                    log.sort_by_key(|(what, when)| (*when, what.clone()));
                    let since_start = |at: Instant| at.saturating_duration_since(self.start);
                    let now = since_start(Instant::now());
                    let mut ran_to = take(&mut *instants.lock().unwrap());
                    ran_to.dedup();
                    let ran_to: Vec<_> = ran_to.into_iter().map(since_start).collect();
                    let happened = format!("{woken_before:?} {log:?}");
                    format!("{now:?}: {elapsed:?} {ended:?} {happened} {ran_to:?}")
                }

                fn has_ended(&self) -> bool {
                    self.handle.spawn(async {}).is_finished()
                }
            }

            /// Up to the end of the runtime, or of the program.
            pub(super) fn until_the_end(ops: &[Op]) -> [&[Op]; 2] {
                let is_end = |op: &Op| matches!(op, Op::End);
                let end = ops.iter().position(is_end).unwrap_or(ops.len());
                let (before, after) = ops.split_at(end);
                [before, after]
            }
        }
    };
}

interpreter!(on_tokio, tokio);
interpreter!(on_the_stand_in, under_tokio);

/// A line for each operation.
type Trace = Vec<String>;

fn run_on_tokio(ops: &[Op]) -> Trace {
    use tokio::runtime::Builder;
    use tokio::time::{Instant, advance, sleep};

    let mut trace = Vec::new();
    // Those at which the driver has waited.
    let instants = Arc::new(Mutex::new(Vec::new()));
    let to = instants.clone();
    let runtime = Builder::new_current_thread()
        .on_thread_unpark(move || to.lock().unwrap().push(Instant::now()))
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let [before, after] = on_tokio::until_the_end(ops);
    let mut machine = runtime.block_on(async {
        let mut machine = on_tokio::Machine::new();
        for op in before {
            let said = machine.act(op);
            match *op {
                Op::Advance(by) => advance(Duration::from_micros(by)).await,
                Op::AdvanceUnseen(by) => {
                    // The first poll moves the clock, and the next would let the driver see it.
                    let moves = pin!(advance(Duration::from_micros(by)));
                    let _ = moves.poll(&mut Context::from_waker(Waker::noop()));
                }
                Op::RunFor(by) => {
                    instants.lock().unwrap().push(Instant::now());
                    sleep(Duration::from_micros(by)).await;
                }
                _ => {}
            }
            if matches!(op, Op::Advance(_) | Op::RunFor(_) | Op::Settle) {
                for _ in 0..ROUNDS {
                    tokio::task::yield_now().await;
                }
            }
            trace.push(format!("{op:?} {said} {}", machine.state(&instants)));
        }
        machine
    });
    if !after.is_empty() {
        let handle = runtime.handle().clone();
        let _context = handle.enter();
        drop(runtime);
        for op in after {
            let said = machine.act(op);
            trace.push(format!("{op:?} {said} {}", machine.state(&instants)));
        }
    }
    trace
}

/// Call this under shuttle.
fn run_on_the_stand_in(ops: &[Op]) -> Trace {
    use under_std::time::pass;
    use under_tokio::runtime::{Kind, Runtime};
    use under_tokio::time::{Instant, sleep};

    under_std::time::begin();
    let mut trace = Vec::new();
    let instants = Mutex::new(Vec::new());
    let runtime = Runtime::new(Kind::Paused, 1);
    let _context = runtime.handle().enter();
    let [before, after] = on_the_stand_in::until_the_end(ops);
    let mut machine = on_the_stand_in::Machine::new();
    for op in before {
        let said = machine.act(op);
        match *op {
            Op::Advance(by) | Op::AdvanceUnseen(by) => pass(Duration::from_micros(by)),
            Op::RunFor(by) => {
                let mut sleep = pin!(sleep(Duration::from_micros(by)));
                let mut cx = Context::from_waker(Waker::noop());
                let note = || instants.lock().unwrap().push(Instant::now());
                note();
                while sleep.as_mut().poll(&mut cx).is_pending() {
                    let goes_on = runtime.turn(|next| {
                        pass(next);
                        note();
                    });
                    assert!(goes_on, "nothing ends it");
                }
            }
            _ => {}
        }
        if matches!(op, Op::Advance(_) | Op::RunFor(_) | Op::Settle) {
            for _ in 0..ROUNDS {
                runtime.round();
            }
        }
        trace.push(format!("{op:?} {said} {}", machine.state(&instants)));
    }
    for op in after {
        if matches!(op, Op::End) {
            runtime.shut_down();
        }
        let said = machine.act(op);
        trace.push(format!("{op:?} {said} {}", machine.state(&instants)));
    }
    trace
}

fn under_shuttle(ops: Vec<Op>) -> Trace {
    let trace = Arc::new(Mutex::new(Trace::new()));
    let to = trace.clone();
    shuttle::check_random(move || *to.lock().unwrap() = run_on_the_stand_in(&ops), 1);
    take(&mut *trace.lock().unwrap())
}

/// How the two differ, if they do.
fn compare(ops: &[Op]) -> Result<(), String> {
    let expected = run_on_tokio(ops);
    let actual = under_shuttle(ops.to_vec());
    let mut both = expected.iter().zip(&actual);
    match both.find(|(expected, actual)| expected != actual) {
        Some((expected, actual)) => Err(format!("tokio:    {expected}\nstand-in: {actual}")),
        None if expected.len() != actual.len() => Err("one of the two ends early".to_owned()),
        None => Ok(()),
    }
}

/// Leaves out of a program that fails what it fails without.
fn shrink(mut ops: Vec<Op>, mut message: String) -> (Vec<Op>, String) {
    let mut length = ops.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < ops.len() {
            let mut less = ops.clone();
            less.drain(at..ops.len().min(at + length));
            match compare(&less) {
                Err(shorter) => (ops, message) = (less, shorter),
                Ok(()) => at += length,
            }
        }
        length /= 2;
    }
    (ops, message)
}

/// One test changes the panic hook of the process, which shuttle has too. So they take turns.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn the_stand_in_does_what_tokio_does() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = variable("ORACLE_SEED").unwrap_or(0);
    let programs = variable("ORACLE_PROGRAMS").unwrap_or(2_000);
    std::panic::set_hook(Box::new(|_| ()));
    let seeds = (first..first + programs).chain([fastrand::u64(..)]);
    let failed = seeds
        .map(|seed| (seed, random(seed)))
        .find_map(|(seed, ops)| Some((seed, compare(&ops).err()?, ops)));
    drop(std::panic::take_hook());
    if let Some((seed, message, ops)) = failed {
        let (ops, message) = shrink(ops, message);
        panic!("seed {seed}: {ops:#?}\n{message}");
    }
}

/// Between any two calls of tokio that a thread makes, another thread may run.
#[test]
fn another_thread_may_run_before_each_call() {
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    use under_tokio::runtime::{Kind, Runtime};
    use under_tokio::time::{Instant, Sleep, sleep_until};

    type Call = (&'static str, fn(&Runtime, &mut Option<Pin<Box<Sleep>>>));
    fn sleep(of: &mut Option<Pin<Box<Sleep>>>) -> Pin<&mut Sleep> {
        of.as_mut().unwrap().as_mut()
    }
    const CALLS: [Call; 11] = [
        ("now", |_, _| _ = Instant::now()),
        ("make", |runtime, made| {
            let _context = runtime.handle().enter();
            let ahead = Instant::from_std(under_std::time::Instant::now_standing());
            *made = Some(Box::pin(sleep_until(ahead + Duration::from_secs(1))));
        }),
        ("is_elapsed of one not set", |_, made| {
            assert!(!sleep(made).is_elapsed());
        }),
        ("poll", |_, made| {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(sleep(made).poll(&mut cx).is_pending());
        }),
        ("is_elapsed", |_, made| assert!(!sleep(made).is_elapsed())),
        ("reset to later", |_, made| {
            let start = Instant::from_std(under_std::time::Instant::now_standing());
            sleep(made).reset(start + Duration::from_secs(2));
        }),
        ("reset to the past", |_, made| {
            let now = Instant::from_std(under_std::time::Instant::now_standing());
            sleep(made).reset(now.checked_sub(Duration::from_secs(1)).unwrap());
        }),
        ("is_elapsed of one that is", |_, made| {
            assert!(sleep(made).is_elapsed());
        }),
        ("spawn", |runtime, _| drop(runtime.handle().spawn(async {}))),
        ("round", |runtime, _| runtime.round()),
        ("drop", |_, made| *made = None),
    ];
    let happened = Arc::new(Mutex::new([false; CALLS.len()]));
    let to = happened.clone();
    let program = move || {
        under_std::time::begin();
        let runtime = Runtime::new(Kind::CurrentThread, 1);
        // No point at which shuttle switches threads.
        let steps = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counting = steps.clone();
        let other = shuttle::thread::spawn(move || {
            for _ in 0..10 * CALLS.len() {
                counting.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                shuttle::thread::sleep(Duration::ZERO);
            }
        });
        let mut made = None;
        for (number, (_, call)) in CALLS.iter().enumerate() {
            let before = steps.load(std::sync::atomic::Ordering::Relaxed);
            call(&runtime, &mut made);
            if steps.load(std::sync::atomic::Ordering::Relaxed) > before {
                to.lock().unwrap()[number] = true;
            }
        }
        other.join().unwrap();
    };
    shuttle::check_random(program, 2_000);
    let happened = happened.lock().unwrap();
    let missed = CALLS
        .iter()
        .zip(&*happened)
        .filter(|(_, has_happened)| !**has_happened);
    let missed: Vec<_> = missed.map(|((name, _), _)| name).collect();
    assert!(missed.is_empty(), "nothing comes before {missed:?}");
}
