//! Runtimes that end while somebody waits from elsewhere, on timers that are in use or have armed
//! nothing yet.

use std::future::pending;
use std::sync::Arc;
use std::thread;

use futures::FutureExt;
use tickwheel::{DeadlineMap, DelayMap, Timer};
use tokio::time::{Duration, Instant};

use crate::actors::deadline::outcome;
use crate::finding::Kind;
use crate::life::Outcome;
use crate::program::{Clock, Faults, Program, Setting};
use crate::random;
use crate::wait::Wait;
use crate::world::{Flavour, Place};

const FAR: Duration = Duration::from_secs(3600);

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
    let program = Program::new(
        setting,
        &[flavour],
        Faults::default(),
        Duration::ZERO,
        |_| Vec::new(),
    );
    let is_used = random.bool();
    for _ in 0..random.u8(1..4) {
        let place = Place::elsewhere(&mut random);
        program.start(place, wait(program.clone(), is_used, random.fork()));
    }
    if is_used {
        let timer = program.runtimes[0].own_timer();
        program.start(Place::Task(0), async move {
            loop {
                timer.sleep(Duration::from_micros(300)).await;
            }
        });
    }
    thread::sleep(Duration::from_micros(random.u64(..4_000)));
    program.runtimes[0].end(random::end(&mut random));
    random::finish(&program)
}

/// Waits for what never comes, on a timer of its own or on the runtime's.
async fn wait(program: Arc<Program>, is_used: bool, mut random: fastrand::Rng) {
    let hosted = &program.runtimes[0];
    let timer = match is_used && random.bool() {
        true => hosted.own_timer(),
        false => Timer::builder().build_on(&hosted.handle).unwrap(),
    };
    let elapsed = |()| Outcome::Elapsed;
    let (what, waiting) = match random.u8(..7) {
        0 => ("a sleep of an hour", timer.sleep(FAR).map(elapsed).boxed()),
        1 => (
            "a timeout of an hour",
            timer
                .timeout(FAR, pending::<()>())
                .map(drop)
                .map(elapsed)
                .boxed(),
        ),
        2 => {
            let mut beat = timer.interval_at(Instant::now() + FAR, FAR);
            let ticking = async move {
                beat.tick().await;
                Outcome::Elapsed
            };
            ("an interval of an hour", ticking.boxed())
        }
        3 => (
            "a deadline of an hour",
            timer.deadline(FAR).map(outcome).boxed(),
        ),
        4 => {
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
                5 => "an empty stream",
                _ => "a stream of a far value",
            };
            if which == 6 {
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
    if let Some(Outcome::Elapsed) = program.wait(&mut random, &clock, wait, waiting).await {
        program.accuse(Kind::Early, &format!("{what} has elapsed"));
    }
}
