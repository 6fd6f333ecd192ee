//! Clocks that systems have and should not: one that steps back a little, one that differs between
//! threads, both by 30 us to 5 ms, and one that jumps ahead by hours. Meanwhile three threads wait
//! for sleeps, deadlines and values, on a runtime that goes on.
//!
//! Checked: nothing is early by the clock of the thread that waits, nor late, by more than the
//! clock has stepped or differs. No timer reports that the runtime has ended.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use tickwheel::{DelayMap, Timer};
use under_std::time::{Instant, fall_behind, fall_behind_here, pass, passed};
use under_tokio::runtime::Kind;

use crate::record::{Noting, Record, Span, last_held_up, trace};
use crate::world::{LONGEST, MS, ThreadContext, World, below, delay, one_in, pick};

/// What is wrong with the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It steps back once.
    StepsBack,
    /// Two processors have different ones, and the threads move from one to the other.
    Alternates,
    /// Each thread has its own.
    DiffersBetweenThreads,
    JumpsAhead,
}

/// Something that was awaited.
#[derive(Debug)]
struct Awaited {
    what: What,
    delay: Duration,
    /// The clock before and after the call that armed it.
    armed: Span,
    woken: Option<(Duration, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Sleep,
    Deadline,
    Value,
}

/// For so long at most a turn waits for tasks after a stall.
const MOST_WAIT: Duration = Duration::from_millis(100);

/// By how much the clock may be wrong, without a jump.
const STEPS: [u64; 5] = [30, 50, 300, 1_000, 5_000];

pub fn run() {
    let fault = pick(&[
        Fault::StepsBack,
        Fault::Alternates,
        Fault::DiffersBetweenThreads,
        Fault::JumpsAhead,
    ]);
    let step = match fault {
        Fault::JumpsAhead => Duration::ZERO,
        _ => Duration::from_micros(pick(&STEPS)),
    };
    let own_clock = move || match fault {
        Fault::DiffersBetweenThreads => step / 4 * below(5) as u32,
        _ => Duration::ZERO,
    };
    // A paused clock is another one, and does none of this.
    let kinds = [Kind::MultiThread, Kind::CurrentThread];
    let world = World::begin_with(&kinds, 0, own_clock());
    trace(|| format!("{fault:?} by {step:?}"));
    // A step between the reading of a thread that arms something and that of one that fires it, and
    // another one until its task looks.
    let early = if fault == Fault::Alternates {
        2 * step
    } else {
        step
    };
    let (far, _) = Span::of(|| world.timer.deadline(Duration::MAX));
    let awaited = Record::new();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (context, timer, awaited) = (world.context(), world.timer.clone(), awaited.clone());
            let (number, behind) = (1 + below(4), own_clock());
            world.context().spawn(move || {
                fall_behind_here(behind);
                for _ in 0..number {
                    awaited.push(wait(&context, &timer, early));
                }
            })
        })
        .collect();
    let steps = shuttle::thread::spawn(move || step_now_and_then(fault, step));
    let jumped = steps.join().unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    world.calls_are_over();
    let over = last_held_up().max(jumped);
    for one in awaited.take() {
        let Some((since, woken)) = one.woken.filter(|_| world.is_punctual) else {
            continue;
        };
        let due = one.armed.ended + one.delay + step;
        // A jump is a stall, after which tasks run first. A deadline has a grace besides.
        let grace = match one.what {
            _ if jumped.max(woken) <= LONGEST => Duration::ZERO,
            What::Deadline => world.tick + MOST_WAIT.max(LONGEST),
            What::Sleep | What::Value => world.tick + MOST_WAIT,
        };
        let in_time = over.max(since).max(due) + world.tick + 3 * MS + grace;
        assert!(woken <= in_time, "late: {one:?}, {fault:?} by {step:?}");
    }
    assert!(far.handle().is_pending(), "it has ended");
    drop(far);
    for _ in (0..1_000).take_while(|_| world.timer.metrics().pending() > 0) {
        shuttle::thread::yield_now();
    }
    assert_eq!(world.timer.metrics().pending(), 0, "nothing is armed");
    world.end(Duration::MAX);
}

/// Returns when the clock has jumped, if it does.
fn step_now_and_then(fault: Fault, step: Duration) -> Duration {
    for _ in 0..below(20) {
        shuttle::thread::yield_now();
    }
    match fault {
        Fault::StepsBack => fall_behind(step),
        Fault::Alternates => {
            for _ in 0..below(20) {
                fall_behind(if one_in(2) { step } else { Duration::ZERO });
                shuttle::thread::yield_now();
            }
        }
        Fault::DiffersBetweenThreads => {}
        Fault::JumpsAhead => {
            pass(Duration::from_secs(60 * 60) * below(48) as u32);
            return passed();
        }
    }
    Duration::ZERO
}

/// Arms something and awaits it, by this thread's clock.
fn wait(context: &ThreadContext, timer: &Timer, early: Duration) -> Awaited {
    context.rest();
    let delay = delay();
    let what = pick(&[What::Sleep, What::Sleep, What::Deadline, What::Value]);
    let before = Instant::now();
    // Each call is a span, because a thread that is held up in one may hold the driver up.
    let (woken, armed) = match what {
        What::Sleep => {
            let (mut sleep, _) = Span::of(|| timer.sleep(delay));
            let awaited = await_it(|cx| sleep.try_poll(cx).map(|ended| ended.is_ok()));
            Span::of(|| drop(sleep));
            awaited
        }
        What::Deadline => {
            let (deadline, made) = Span::of(|| timer.deadline(delay));
            let mut deadline = Box::pin(deadline);
            let (woken, _) = await_it(|cx| deadline.as_mut().poll(cx).map(|ended| ended.is_ok()));
            Span::of(|| drop(deadline));
            (woken, made)
        }
        What::Value => {
            let (map, mut stream) = DelayMap::new(timer);
            let (inserted, made) = Span::of(|| map.insert(0, (), delay));
            inserted.expect("the runtime goes on");
            let (woken, _) =
                await_it(|cx| pin!(stream.recv()).poll(cx).map(|ended| ended.is_some()));
            Span::of(|| drop((map, stream)));
            (woken, made)
        }
    };
    let waited = Instant::now().duration_since(before) + early;
    assert!(
        waited >= delay,
        "early: {what:?} of {delay:?} in {waited:?}, with {early:?}"
    );
    Awaited {
        what,
        delay,
        armed,
        woken,
    }
}

/// Since when it was waited for and when it was woken, if it was not ready at once, and its first
/// poll. `poll` returns whether it is ready because its time has come.
fn await_it(
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<bool>,
) -> (Option<(Duration, Duration)>, Span) {
    let (mut noting, mut first, mut waits_since) = (None, None, None);
    let woken = block_on(poll_fn(|cx: &mut Context<'_>| {
        let noting = noting.get_or_insert_with(|| Noting::new(cx.waker()));
        let woken = waits_since.zip(noting.take());
        let waker = Waker::from(noting.clone());
        let (polled, span) = Span::of(|| poll(&mut Context::from_waker(&waker)));
        first.get_or_insert(span);
        waits_since.get_or_insert(span.ended);
        polled.map(|has_elapsed| {
            assert!(has_elapsed, "it reports an end, and the runtime goes on");
            woken
        })
    }));
    (woken, first.unwrap())
}
