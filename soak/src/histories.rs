//! Random histories of sleeps as users hold them: in a `select!`, pinned, and reset by messages.
//! They are polled, moved to other tasks, polled by another waker, reset to
//! later and earlier, and dropped, on a runtime whose workers are blocked now and then and which
//! ends while some are pending. Some sleeps are held by tasks that poll them rarely, as `idioms`
//! says.
//!
//! Each history runs on tokio's timers too, with the same seed, in the same runtime and at the same
//! time. So nothing is early by the clock, none is lost, and ours are as late as tokio's. A sleep
//! wakes its task once for each of its deadlines that passes, and never before it. How late they
//! are says something only next to tokio's, and only if it is worse in each of three tries.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use tickwheel::Timer;
use tokio::time::{Duration, Instant};

use crate::finding::Kind;
use crate::idioms::{AnySleep, Idiom, Log, Message, Tasks, Watched};
use crate::world::{Flavour, build, spin};

/// What went wrong.
pub type Fault = (Kind, String);

const TRIES: usize = 3;
/// How long histories begin in one try.
const BUSY: Duration = Duration::from_millis(300);
/// A machine that is busy makes any timer so late.
const SLACK: Duration = Duration::from_millis(4);
/// Who waits for longer than this is lost.
const PATIENCE: Duration = Duration::from_secs(30);
const FAR: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug)]
enum Whose {
    Ours,
    Tokios,
}

/// What all histories of a try share.
#[derive(Clone)]
struct Checker {
    until: Instant,
    lateness: [Arc<Mutex<Vec<Duration>>>; 2],
    /// A task that was never woken.
    lost: Arc<Mutex<Option<String>>>,
}

/// Runs histories of this seed.
///
/// # Errors
///
/// If a timer was early or lost, or ours were later than tokio's in each try.
pub fn run(seed: u64) -> Result<(), Fault> {
    let mut random = fastrand::Rng::with_seed(seed);
    let flavours = [Flavour::Current, Flavour::Multi(1), Flavour::Multi(2)];
    let flavour = *random.choice(&flavours).unwrap();
    let blocks = random.bool();
    let mut text = String::new();
    for _ in 0..TRIES {
        let [ours, tokios] = attempt(flavour, blocks, random.clone())?;
        text = format!("{flavour:?}, blocked: {blocks}: late by {ours:?}, tokio's by {tokios:?}");
        // Our median against tokio's nine in ten, and so on: what happens to few timers by chance
        // says nothing.
        let is_worse = |(ours, tokios): (&_, &Duration)| *ours > *tokios * 3 / 2 + SLACK;
        if !ours.iter().zip(&tokios[1..]).any(is_worse) {
            return Ok(());
        }
    }
    Err((Kind::Lateness, text))
}

/// How late ours were and tokio's: each in the median, nine in ten, and 99 in a hundred.
fn attempt(
    flavour: Flavour,
    blocks: bool,
    mut random: fastrand::Rng,
) -> Result<[[Duration; 3]; 2], Fault> {
    let runtime = build(flavour);
    let checker = Checker {
        until: Instant::now() + BUSY,
        lateness: Default::default(),
        lost: Default::default(),
    };
    let mut histories = Vec::new();
    let context = runtime.enter();
    let count = *random.choice(&[1, 2, 5, 20, 60]).unwrap();
    for _ in 0..count {
        let fork = random.fork();
        let ours = history::<tickwheel::Sleep>(Whose::Ours, checker.clone(), fork.clone());
        let tokios = history::<tokio::time::Sleep>(Whose::Tokios, checker.clone(), fork);
        histories.extend([runtime.spawn(ours), runtime.spawn(tokios)]);
    }
    if blocks {
        histories.push(runtime.spawn(block(checker.clone(), random.fork())));
    }
    // They are pending when the runtime ends.
    drop(runtime.spawn(tickwheel::sleep(PATIENCE * 100)));
    drop(runtime.spawn(tokio::time::sleep(PATIENCE * 100)));
    drop(context);
    let ended = runtime.block_on(async {
        let all = async {
            for history in histories {
                history.await.map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        tokio::time::timeout(2 * PATIENCE, all).await
    });
    if let Some(lost) = checker.lost.lock().unwrap().take() {
        return Err((Kind::LostWakeUp, format!("{flavour:?}: {lost}")));
    }
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(panicked)) => return Err((Kind::Early, panicked)),
        Err(_) => return Err((Kind::LostWakeUp, format!("{flavour:?}: a history hangs"))),
    }
    let armed = runtime.block_on(async {
        // A sleep may be ready before the turn that takes its timer out, which has begun.
        for _ in 0..200 {
            if Timer::current().metrics().pending() == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Timer::current().metrics()
    });
    if armed.pending() != 1 {
        let text = format!("one sleep is pending: {armed:?}");
        return Err((Kind::Counts, text));
    }
    Ok(checker.lateness.map(|lateness| {
        let mut lateness = lateness.lock().unwrap();
        // A lone history may have had nothing that was ready.
        lateness.push(Duration::ZERO);
        lateness.sort();
        let at = |quantile: f64| ((lateness.len() - 1) as f64 * quantile) as usize;
        [0.5, 0.9, 0.99].map(|quantile| lateness[at(quantile)])
    }))
}

impl Checker {
    fn is_busy(&self) -> bool {
        Instant::now() < self.until
    }

    /// It has just been ready.
    fn check(&self, whose: Whose, what: &str, due: Instant) {
        let now = Instant::now();
        assert!(now >= due, "{whose:?}: {what} early by {:?}", due - now);
        self.lateness[whose as usize]
            .lock()
            .unwrap()
            .push(now - due);
    }

    fn check_wakes(&self, whose: Whose, what: &str, log: &Mutex<Log>) {
        let fault = log.lock().unwrap().fault();
        // Where a poll overlaps the firing, tokio wakes the new waker and the former one.
        let is_right = fault.is_none() || matches!(whose, Whose::Tokios);
        assert!(is_right, "{whose:?}: {what}: {}", fault.unwrap());
    }
}

async fn history<S: AnySleep>(whose: Whose, checker: Checker, mut random: fastrand::Rng) {
    while checker.is_busy() {
        match random.u8(..4) {
            0 => idiom::<S>(whose, &checker, &mut random).await,
            _ => nap::<S>(whose, &checker, &mut random).await,
        }
    }
}

fn length(random: &mut fastrand::Rng) -> Duration {
    Duration::from_micros(match random.u8(..8) {
        0 => 0,
        1..4 => random.u64(..3_000),
        4..7 => random.u64(..30_000),
        _ => random.u64(..150_000),
    })
}

/// As `length`, or so long that it has to be reset before it is awaited. A reset to earlier that is
/// lost is a timer that is lost then.
fn any_length(random: &mut fastrand::Rng) -> Duration {
    match random.u8(..6) {
        0 => FAR,
        _ => length(random),
    }
}

/// Until some message comes: at once, after other tasks, from another task, or after a while.
async fn message(random: &mut fastrand::Rng) {
    match random.u8(..4) {
        0 => {}
        1 => tokio::task::yield_now().await,
        2 => {
            let (sender, message) = tokio::sync::oneshot::channel();
            tokio::spawn(async { sender.send(()) });
            message.await.unwrap();
        }
        _ => tokio::time::sleep(length(random) / 4).await,
    }
}

/// A sleep that messages reset, poll and hand on from one task to the next.
async fn nap<S: AnySleep>(whose: Whose, checker: &Checker, random: &mut fastrand::Rng) {
    let due = Instant::now() + any_length(random);
    let log = Default::default();
    let mut going = Some((Watched::<S>::new(due, &log), due));
    while let Some((nap, due)) = going.take() {
        if random.u8(..16) == 0 {
            return;
        }
        let messages = random.u8(..5);
        let is_last = messages == 0;
        let stint = stint(whose, checker.clone(), (nap, due), messages, random.fork());
        going = if random.u8(..3) == 0 {
            tokio::spawn(stint).await.unwrap()
        } else {
            stint.await
        };
        if is_last {
            assert!(going.is_none(), "it was awaited to its end");
        }
    }
    checker.check_wakes(whose, "a sleep", &log);
}

/// A task that uses its sleep in one way until it is over. Messages reset the sleep, or only wake
/// the task.
async fn idiom<S: AnySleep>(whose: Whose, checker: &Checker, random: &mut fastrand::Rng) {
    let idiom = *random.choice(&Idiom::ALL).unwrap();
    let what = format!("{idiom:?}");
    let is_reset = idiom != Idiom::Shared;
    let first = if is_reset {
        any_length(random)
    } else {
        length(random)
    };
    let mut due = Instant::now() + first;
    let mut tasks = Tasks::spawn::<S>(idiom, due);
    for number in 0..random.usize(..8) {
        message(random).await;
        let to = Message::Reset(Instant::now() + any_length(random));
        tasks.send(number, *random.choice(&[to, to, Message::Poke]).unwrap());
    }
    if is_reset {
        due = Instant::now() + length(random);
        tasks.send(0, Message::Reset(due));
    }
    if tokio::time::timeout(PATIENCE, tasks.end()).await.is_err() {
        let lost = format!("{whose:?}: {what} is never woken");
        checker.lost.lock().unwrap().get_or_insert(lost);
        return;
    }
    checker.check(whose, &what, due);
    checker.check_wakes(whose, &what, &tasks.log);
}

/// `None` if the sleep was ready. After no more messages it is awaited.
async fn stint<S: AnySleep>(
    whose: Whose,
    checker: Checker,
    (mut nap, mut due): (Watched<S>, Instant),
    messages: u8,
    mut random: fastrand::Rng,
) -> Option<(Watched<S>, Instant)> {
    for _ in 0..messages {
        let is_ready = tokio::select! {
            biased;
            () = &mut nap => true,
            () = message(&mut random) => false,
        };
        if is_ready {
            checker.check(whose, "a sleep", due);
            return None;
        }
        match random.u8(..8) {
            0 => {
                // By another waker.
                let polled = Pin::new(&mut nap).poll(&mut Context::from_waker(Waker::noop()));
                if polled.is_ready() {
                    checker.check(whose, "a sleep", due);
                    return None;
                }
            }
            1..4 => {
                // To later, and mostly by a little, as each message of a connection does.
                due += any_length(&mut random);
                nap.reset(due);
            }
            4 => {
                due = due.min(Instant::now() + length(&mut random));
                nap.reset(due);
            }
            5 => {
                due = Instant::now() + length(&mut random);
                nap.reset(due);
            }
            6 => _ = nap.reset(due),
            _ => {}
        }
    }
    if messages > 0 {
        return Some((nap, due));
    }
    if due > Instant::now() + FAR / 2 {
        due = Instant::now() + length(&mut random);
        nap.reset(due);
    }
    nap.await;
    checker.check(whose, "a sleep", due);
    None
}

/// Blocks its worker now and then, for longer than makes a stall at times.
async fn block(checker: Checker, mut random: fastrand::Rng) {
    while checker.is_busy() {
        tokio::time::sleep(Duration::from_millis(random.u64(5..60))).await;
        spin(Duration::from_millis(
            *random.choice(&[1, 5, 20, 70]).unwrap(),
        ));
    }
}
