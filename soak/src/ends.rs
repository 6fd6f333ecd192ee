//! Runtimes that end while threads and tasks outside of them wait, on timers that are in use or
//! have armed nothing yet. The waits begin before the end, while it drops the tasks, or later. The
//! tasks of the runtime are busy with timers meanwhile.
//!
//! Checked: each wait learns of the end, in the crate's own words, and no task of the runtime does.

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::thread;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{Either, Shared, select};
use tickwheel::{DeadlineMap, DelayMap, Timer};
use tokio::time::{Duration, Instant};

use crate::checker::Outcome;
use crate::finding::Kind;
use crate::program::{Clock, Program, Setting};
use crate::programs::calls::outcome;
use crate::random;
use crate::thread_world::yield_now;
use crate::wait::Wait;
use crate::world::{Executor, Flavour, catch, message_of, spin};

const FAR: Duration = Duration::from_secs(3600);

/// When a wait begins: at once, or when the sender has gone and this has passed.
type Begin = Option<(Shared<oneshot::Receiver<()>>, Duration)>;

/// Runs a program. `false` if it hangs.
pub fn run(setting: Setting) -> bool {
    let mut random = fastrand::Rng::with_seed(setting.seed);
    let flavours = [
        Flavour::Current,
        Flavour::Multi(1),
        Flavour::Multi(2),
        Flavour::Multi(8),
    ];
    let flavour = *random.choice(&flavours).unwrap();
    // The timers are made by those who wait: one that is not theirs might be in use.
    let program = Program::new(setting, &[flavour], Duration::ZERO, |_| Vec::new());
    let handle = &program.runtimes[0].handle;
    let is_used = random.bool();
    let tasks = if is_used {
        *random.choice(&[1, 10, 100, 1_000]).unwrap()
    } else {
        0
    };
    let micros = *random.choice(&[0, 20, 200]).unwrap();
    for _ in 0..tasks {
        handle.spawn(task(program.clone(), Duration::from_micros(micros)));
    }
    let (sender, ends) = oneshot::channel();
    let ends = ends.shared();
    let (begins, begun) = mpsc::channel();
    let waits = random.u8(1..8);
    for _ in 0..waits {
        let delay = Duration::from_micros(random.u64(..150) * random.u64(..20));
        let begin = random.bool().then(|| (ends.clone(), delay));
        let wait = wait(program.clone(), is_used, begin, random.fork());
        let begins = begins.clone();
        let actor = async move {
            let _ = begins.send(());
            wait.await;
        };
        program.start(Executor::elsewhere(&mut random), actor);
    }
    // An actor that has not begun would be dropped with the runtime, or would block its worker when
    // tokio hands that over no more.
    begun.iter().take(waits.into()).for_each(drop);
    let is_during = random.bool();
    let later = if is_during {
        handle.spawn(async move {
            let _sender = sender;
            pending::<()>().await;
        });
        None
    } else {
        Some(sender)
    };
    thread::sleep(Duration::from_micros(random.u64(..4_000)));
    program.runtimes[0].end(random::end(&mut random));
    drop(later);
    random::finish(&program)
}

/// A task that arms and disarms timers without an end, and computes in between.
async fn task(program: Arc<Program>, computes: Duration) {
    let round = async || {
        let _ = tickwheel::timeout(FAR, yield_now()).await;
        let mut beat = tickwheel::interval_at(Instant::now() + FAR, FAR);
        select(pin!(beat.tick()), pin!(yield_now())).await;
        let deadline = Timer::current().deadline(FAR);
        matches!(select(deadline, pin!(yield_now())).await, Either::Right(_))
    };
    loop {
        let learnt = match AssertUnwindSafe(round()).catch_unwind().await {
            Ok(true) => {
                spin(computes);
                continue;
            }
            Ok(false) => "its deadline has ended".to_owned(),
            Err(panic) => message_of(&*panic),
        };
        let text = format!("a task of the runtime learns of the end: {learnt}");
        return program.report(Kind::WrongAnswer, &text);
    }
}

/// Waits for what never comes, on a timer of its own or on the runtime's.
async fn wait(program: Arc<Program>, is_used: bool, begin: Begin, mut random: fastrand::Rng) {
    if let Some((ends, delay)) = begin {
        let _ = ends.await;
        thread::sleep(delay);
    }
    let hosted = &program.runtimes[0];
    let timer = if is_used && random.bool() {
        hosted.own_timer()
    } else {
        Timer::builder().build_on(&hosted.handle).unwrap()
    };
    let elapsed = |()| Outcome::Elapsed;
    let (what, waiting) = match random.u8(..5) {
        0 => ("a sleep of an hour", timer.sleep(FAR).map(elapsed).boxed()),
        1 => (
            "a deadline of an hour",
            timer.deadline(FAR).map(outcome).boxed(),
        ),
        2 => {
            let map = DeadlineMap::new(&timer);
            let deadline = map.insert(0, FAR).expect("it is open");
            let waiting = deadline.map(move |result| {
                drop(map);
                outcome(result)
            });
            ("a keyed deadline of an hour", waiting.boxed())
        }
        which => {
            let (map, mut stream) = DelayMap::<u32, ()>::new(&timer);
            let what = match which {
                3 => "an empty stream",
                _ => "a stream of a far value",
            };
            if which == 4 {
                let _ = map.insert(0, (), FAR);
            }
            let waiting = async move {
                let value = stream.recv().await;
                drop(map);
                value.map_or(Outcome::Shutdown, |_| Outcome::Elapsed)
            };
            (what, waiting.boxed())
        }
    };
    let metrics = timer.clone();
    let wait = Wait {
        what,
        due: Box::new(|| None),
        state: Box::new(move || format!("its runtime has ended; {:?}", metrics.metrics())),
    };
    let clock = Clock {
        timer,
        tick: Duration::from_millis(1),
        runtime: Some(0),
    };
    let checked = program.clone();
    let ended = catch(async move {
        if let Some(Outcome::Elapsed) = checked.wait(&mut random, &clock, wait, waiting).await {
            checked.report(Kind::Early, &format!("{what} has elapsed"));
        }
    });
    // A panic of tokio's own does not say so.
    if let Some(message) = ended
        .await
        .err()
        .filter(|message| !message.contains("has shut down"))
    {
        program.report(Kind::Panic, &format!("{what}: {message}"));
    }
}
