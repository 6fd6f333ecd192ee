//! What a whole program pays that only resets: the CPU of the process.
//!
//! 10,000 connections have a timeout of 30 s each, and four tasks share them, each with a burst of
//! resets every 5 ms. Nothing fires. With tickwheel and with the hand-written pattern each
//! connection has a task of its own that waits, and the four tasks hold what resets it. tokio's
//! sleeps belong to the four tasks, because only the owner can reset one.

use std::time::{Duration, Instant};

use super::program::{Bursts, LOADS, TASKS, cpu_while};
use super::reset::{HANDLES, LastSeen, connect, in_random_order, owned, reset_owned};
use super::{How, Part, name};
use crate::harness::{Record, runtime};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "resets",
    about: "CPU of the process: nothing but resets, at several rates",
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
pub const RATES: &[u32] = &[100_000, 300_000, 1_000_000, 3_000_000];

/// The tasks that wait have begun to, before the CPU is taken.
const SETTLES: Duration = Duration::from_millis(50);

fn run(contender: &str, settings: &Settings) -> Vec<Record> {
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
) -> Vec<Record> {
    let time = settings.either(Duration::from_millis(500), Duration::from_millis(200));
    let measure = |rate: &u32| {
        let millis = runtime(2).block_on(millis_of_cpu(*rate, time, connect, reset));
        Record::new(&format!("resets-{rate}"), contender, vec![millis])
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
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let own = all.split_off(all.len() - HANDLES / TASKS as usize);
                tokio::spawn(resets(Bursts::new(rate, pause, time), own, reset))
            })
            .collect();
        for task in tasks {
            task.await.expect("no task panics");
        }
    })
    .await;
    1e3 * cpu.as_secs_f64() / begin.elapsed().as_secs_f64()
}

async fn resets<T>(mut bursts: Bursts, mut own: Vec<T>, reset: fn(&mut T)) {
    let mut next = 0;
    while let Some(times) = bursts.next().await {
        for _ in 0..times {
            reset(&mut own[next]);
            next = (next + 1) % own.len();
        }
    }
}
