//! What a whole program pays that only resets: the CPU of the process.
//!
//! 10,000 connections have a timeout of 30 s each, and four tasks share them, each with a burst of
//! resets every 5 ms. Nothing fires. With tickwheel and with the hand-written pattern each
//! connection has a task of its own that waits, and the four tasks hold what resets it. tokio's
//! sleeps belong to the four tasks, because only the owner can reset one.

use std::future::ready;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::program::{LOADS, TASKS, bursts, cpu_while};
use super::reset::{HANDLES, LastSeen, connect, in_random_order, owned, reset_owned};
use crate::harness::{Standing, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "resets",
    about: "CPU of the process: nothing but resets, at several rates",
    state: "10,000 connections lie in memory as in a server, and a pause of 5 ms between two bursts \
            leaves the caches to others. A sleep stands beside them. Unlike a server: all bursts come \
            at the same moments, connections come in the same order each time, and no socket is read.",
    how: How::Apart {
        contenders: &[
            name::TICKWHEEL,
            name::TOKIO,
            name::LAST_SEEN,
            name::NO_TIMER,
        ],
        rounds: 5,
        run,
    },
};

/// Resets a second.
const RATES: &[u32] = &[100_000, 300_000, 1_000_000, 3_000_000];

/// The tasks that wait have begun to, before the CPU is taken.
const SETTLES: Duration = Duration::from_millis(50);

fn run(contender: &str, settings: &Settings) -> Vec<(String, f64)> {
    match contender {
        name::TICKWHEEL => measure(contender, settings, connect, |handle| {
            assert!(handle.reset());
        }),
        name::TOKIO => measure(contender, settings, owned, reset_owned),
        name::LAST_SEEN => measure(contender, settings, LastSeen::start, |seen| seen.touch()),
        _ => measure(contender, settings, || (), |()| ()),
    }
}

fn measure<T: Send + 'static>(
    contender: &str,
    settings: &Settings,
    connect: fn() -> T,
    reset: fn(&mut T),
) -> Vec<(String, f64)> {
    let time = Duration::from_millis(settings.either(500, 200));
    let measure = |rate: &u32| {
        let runtime = runtime(2);
        let standing = Standing::of(contender, &runtime);
        let millis = runtime.block_on(millis_of_cpu(*rate, time, connect, reset));
        standing.end();
        (format!("resets-{rate}"), millis)
    };
    RATES.iter().map(measure).collect()
}

/// Milliseconds of CPU in a second.
async fn millis_of_cpu<T: Send + 'static>(
    rate: u32,
    time: Duration,
    connect: fn() -> T,
    reset: fn(&mut T),
) -> f64 {
    let mut all = in_random_order(HANDLES, connect);
    tokio::time::sleep(SETTLES).await;
    let (_, pause) = LOADS[0];
    let begin = Instant::now();
    let cpu = cpu_while(async move {
        let task = |_| {
            let mut own = all.split_off(all.len() - HANDLES / TASKS as usize);
            let mut next = 0;
            bursts(rate, pause, time, move |times| {
                for _ in 0..times {
                    reset(&mut own[next]);
                    next = (next + 1) % own.len();
                }
                ready(())
            })
        };
        (0..TASKS)
            .map(task)
            .collect::<JoinSet<()>>()
            .join_all()
            .await;
    })
    .await;
    1e3 * cpu.as_secs_f64() / begin.elapsed().as_secs_f64()
}
