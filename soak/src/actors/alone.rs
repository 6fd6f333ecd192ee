//! [`Sleep`], [`Timeout`](tickwheel::Timeout), [`Interval`](tickwheel::Interval) and
//! [`Scope`](tickwheel::Scope), each of one owner, who judges it right there.

use std::future::{pending, ready};
use std::sync::Arc;
use std::task::{Context, Waker};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tickwheel::{MissedTickBehavior, Sleep, global, remaining};
use tokio::time::{Duration, Instant};

use super::{Lengths, Pace, yield_now};
use crate::finding::Kind;
use crate::life::timed;
use crate::program::{Clock, Program};
use crate::wait::Wait;

const FAR: Duration = Duration::from_secs(3600);

/// What is asked of a future while it waits: when it is due.
pub fn waits(what: &'static str, due: Instant, clock: &Clock) -> Wait {
    let timer = clock.timer.clone();
    Wait {
        what,
        due: Box::new(move || Some(due)),
        state: Box::new(move || format!("{:?}", timer.metrics())),
    }
}

pub async fn run(program: Arc<Program>, mut random: fastrand::Rng) {
    let (lengths, pace) = (Lengths::random(&mut random), Pace::random(&mut random));
    let mut rounds = 0;
    while program.is_busy() && rounds < 2_000 {
        rounds += 1;
        let clock = program.clocks[random.usize(..program.clocks.len())].clone();
        match random.u8(..10) {
            0..4 => sleep(&program, &mut random, &clock, lengths).await,
            4..7 => timeout(&program, &mut random, &clock, lengths).await,
            7 | 8 => scope(&program, &mut random, &clock, lengths).await,
            _ => interval(&program, &mut random, &clock, lengths).await,
        }
        pace.rest(&mut random).await;
    }
}

/// Several at once, under an executor within the place, which polls what was woken.
pub async fn run_together(program: Arc<Program>, mut random: fastrand::Rng) {
    let actors = (0..random.u8(2..8)).map(|_| run(program.clone(), random.fork()));
    let mut actors: FuturesUnordered<_> = actors.collect();
    while actors.next().await.is_some() {}
}

fn accuse_early(program: &Program, what: &str, now: Instant, due: Instant) {
    if now < due {
        let text = format!("a {what} was ready {:?} before its time", due - now);
        program.accuse(Kind::Early, &text);
    }
}

async fn sleep(
    program: &Arc<Program>,
    random: &mut fastrand::Rng,
    clock: &Clock,
    lengths: Lengths,
) {
    let length = lengths.draw(random);
    let (mut nap, mut due, mut latest) = if random.bool() {
        let (nap, call) = timed(|| match clock.runtime {
            None => global::sleep(length),
            Some(_) => clock.timer.sleep(length),
        });
        (nap, call.before + length, call.after + length)
    } else {
        let due = Instant::now() + length;
        (clock.timer.sleep_until(due), due, due)
    };
    for _ in 0..random.u8(..4) {
        let length = if random.u8(..4) == 0 {
            FAR
        } else {
            lengths.draw(random)
        };
        let (now, is_ready) = match random.u8(..4) {
            0 => (Instant::now(), poll_once(&mut nap)),
            1 => {
                let ((), call) = timed(|| nap.reset_after(length));
                (due, latest) = (call.before + length, call.after + length);
                continue;
            }
            2 => {
                due = Instant::now() + length;
                latest = due;
                nap.reset_at(due);
                continue;
            }
            _ => {
                let told = nap.deadline();
                if !has_stopped(program, clock) && (told < due || told != nap.deadline()) {
                    let text = format!("deadline() is {told:?}, where {due:?} is due");
                    program.accuse(Kind::WrongAnswer, &text);
                }
                (Instant::now(), nap.is_elapsed())
            }
        };
        if is_ready {
            accuse_early(program, "sleep", Instant::now().max(now), due);
        }
    }
    if latest > program.until + FAR / 2 || random.u8(..8) == 0 {
        return;
    }
    let wait = waits("a sleep", latest, clock);
    let napping = async move {
        (&mut nap).await;
        (Instant::now(), nap.is_elapsed())
    };
    if let Some((now, has_elapsed)) = program.wait(random, clock, wait, Box::pin(napping)).await {
        accuse_early(program, "sleep", now, due);
        if !has_elapsed {
            program.accuse(Kind::WrongAnswer, "a sleep that was ready has not elapsed");
        }
    }
}

/// The clock of a runtime that has ended stands still.
fn has_stopped(program: &Program, clock: &Clock) -> bool {
    program.told(clock.runtime).is_some()
}

fn poll_once(nap: &mut Sleep) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    std::pin::Pin::new(nap).poll(&mut context).is_ready()
}

async fn timeout(
    program: &Arc<Program>,
    random: &mut fastrand::Rng,
    clock: &Clock,
    lengths: Lengths,
) {
    let length = lengths.draw(random);
    let inner: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match random.u8(..4) {
        0 => {
            if clock.timer.timeout(length, ready(())).await.is_err() {
                program.accuse(
                    Kind::WrongAnswer,
                    "a timeout elapsed before a future that is ready",
                );
            }
            return;
        }
        1 => Box::pin(pending()),
        2 => Box::pin(async {
            for _ in 0..20 {
                yield_now().await;
            }
        }),
        _ => Box::pin(clock.timer.sleep(lengths.draw(random))),
    };
    let (timeout, due, latest) = if random.bool() {
        let (timeout, call) = timed(|| match clock.runtime {
            None => global::timeout(length, inner),
            Some(_) => clock.timer.timeout(length, inner),
        });
        (timeout, call.before + length, call.after + length)
    } else {
        let due = Instant::now() + length;
        (clock.timer.timeout_at(due, inner), due, due)
    };
    if random.u8(..8) == 0 {
        return;
    }
    let wait = waits("a timeout", latest, clock);
    let waiting = async move { (timeout.await, Instant::now()) };
    if let Some((result, now)) = program.wait(random, clock, wait, Box::pin(waiting)).await {
        if result.is_err() {
            accuse_early(program, "timeout", now, due);
        }
    }
}

/// A scope, with timeouts and another scope within.
async fn scope(
    program: &Arc<Program>,
    random: &mut fastrand::Rng,
    clock: &Clock,
    lengths: Lengths,
) {
    let due = Instant::now() + lengths.draw(random);
    let inner_due = Instant::now() + lengths.draw(random);
    let (length, timeouts) = (lengths.draw(random), random.u8(..3));
    let (within, inner) = ((program.clone(), clock.clone()), clock.timer.clone());
    let future = async move {
        let (program, clock) = within;
        for _ in 0..timeouts {
            judge_remaining(&program, &clock, due);
            let bounded = due.min(Instant::now() + length);
            let _ = inner.timeout(length, pending::<()>()).await;
            accuse_early(&program, "timeout in a scope", Instant::now(), bounded);
        }
        let bounded = due.min(inner_due);
        let nap = inner.sleep(length);
        let nested = inner.scope(inner_due, async {
            judge_remaining(&program, &clock, bounded);
            nap.await;
            judge_remaining(&program, &clock, bounded);
        });
        if nested.deadline() != bounded {
            let text = "a scope ends later than the one around it";
            program.accuse(Kind::WrongAnswer, text);
        }
        if nested.await.is_err() {
            accuse_early(&program, "scope in a scope", Instant::now(), bounded);
        }
        judge_remaining(&program, &clock, due);
    };
    let scope = match clock.runtime {
        None => global::scope(due, future),
        Some(_) => clock.timer.scope(due, future),
    };
    let wait = waits("a scope", due, clock);
    let waiting = async move { (scope.await, remaining(), Instant::now()) };
    if let Some((result, left, now)) = program.wait(random, clock, wait, Box::pin(waiting)).await {
        if result.is_err() {
            accuse_early(program, "scope", now, due);
        }
        if left.is_some() {
            program.accuse(Kind::WrongAnswer, "a scope is open after its end");
        }
    }
}

/// What is left of a scope lies between what was left before the question and after it.
fn judge_remaining(program: &Program, clock: &Clock, due: Instant) {
    let (left, call) = timed(remaining);
    let [most, least] = [call.before, call.after].map(|at| due.saturating_duration_since(at));
    if !has_stopped(program, clock) && !left.is_some_and(|left| (least..=most).contains(&left)) {
        let text = format!("{left:?} remain of a scope, where {least:?} to {most:?} do");
        program.accuse(Kind::WrongAnswer, &text);
    }
}

async fn interval(
    program: &Arc<Program>,
    random: &mut fastrand::Rng,
    clock: &Clock,
    lengths: Lengths,
) {
    let period = lengths.draw(random) + Duration::from_micros(10);
    let start = Instant::now() + lengths.draw(random);
    let mut beat = clock.timer.interval_at(start, period);
    let behaviors = [
        MissedTickBehavior::Burst,
        MissedTickBehavior::Delay,
        MissedTickBehavior::Skip,
    ];
    let behavior = *random.choice(&behaviors).unwrap();
    beat.set_missed_tick_behavior(behavior);
    // The last one, and whether the next tick is known to be exactly then.
    let (mut due, mut is_exact) = (start, true);
    for _ in 0..random.u8(..6) {
        let latest = due.max(Instant::now()) + 2 * period;
        let beating = async move {
            let told = beat.tick().await;
            (beat, told, Instant::now())
        };
        let wait = waits("an interval", latest, clock);
        let Some((back, told, now)) = program.wait(random, clock, wait, Box::pin(beating)).await
        else {
            return;
        };
        beat = back;
        accuse_early(program, "interval", now, told);
        if !has_stopped(program, clock) && (told < due || is_exact && told != due) {
            let text = format!("an interval ({behavior:?}) told {told:?} for a tick of {due:?}");
            program.accuse(Kind::WrongAnswer, &text);
        }
        // From 5 ms on a tick counts as missed.
        let is_late = now > told + Duration::from_millis(5);
        is_exact = behavior == MissedTickBehavior::Burst || !is_late;
        due = told + period;
        let (length, before) = (lengths.draw(random), Instant::now());
        match random.u8(..8) {
            0 => {
                beat.reset_after(length);
                (due, is_exact) = (before + length, false);
            }
            1 => {
                due += length;
                beat.reset_at(due);
                is_exact = true;
            }
            2 => {
                beat.reset_immediately();
                (due, is_exact) = (before, false);
            }
            3 => {
                beat.reset();
                (due, is_exact) = (before + period, false);
            }
            _ => {}
        }
    }
}
