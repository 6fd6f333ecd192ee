//! [`Sleep`], [`Timeout`](tickwheel::Timeout) and [`Interval`](tickwheel::Interval), each of one
//! owner, who judges it right there.

use std::future::{pending, ready};
use std::sync::Arc;
use std::task::{Context, Waker};

use tickwheel::{MissedTickBehavior, Sleep};
use tokio::time::{Duration, Instant};

use super::{Lengths, Pace, yield_now};
use crate::finding::Kind;
use crate::life::timed;
use crate::program::{Clock, Program};
use crate::wait::Wait;

const FAR: Duration = Duration::from_secs(3600);

/// What is asked of a future while it waits: when it is due.
fn waits(what: &'static str, due: Instant, clock: &Clock) -> Wait {
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
        match random.u8(..8) {
            0..4 => sleep(&program, &mut random, &clock, lengths).await,
            4..7 => timeout(&program, &mut random, &clock, lengths).await,
            _ => interval(&program, &mut random, &clock, lengths).await,
        }
        pace.rest(&mut random).await;
    }
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
        let (nap, call) = timed(|| clock.timer.sleep(length));
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
        let faults = program.faults;
        if !(faults.stop || faults.busy_cores || faults.busy_workers || faults.wakers) {
            program.totals.add_lateness(latest + clock.tick);
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
        let (timeout, call) = timed(|| clock.timer.timeout(length, inner));
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
