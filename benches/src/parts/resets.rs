//! What a whole program pays that only resets: the CPU of the process.
//!
//! 10,000 connections have a timeout of 30 s each, and four tasks share them, each with a burst of
//! resets every 5 ms. Nothing fires. With tickwheel and with the hand-written pattern each
//! connection has a task of its own that waits, and the four tasks hold what resets it. tokio's
//! sleeps belong to the four tasks, because only the owner can reset one.
//!
//! What a reset costs here is memory: the lines of its connection are not in a cache any more,
//! since 10,000 others and a pause came in between. With 100 connections, which the caches hold, it
//! costs a fifth, and the figure hardly swings. So a turn is short, its contender is set up again,
//! and there are many turns: the caches, which other programs share, are alike for the contenders
//! of a round.

use std::future::ready;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::program::{LOADS, TASKS, bursts};
use super::reset::{HANDLES, LastSeen, connect, in_random_order, owned, reset_owned};
use crate::harness::{Record, Standing, in_turn, runtime};
use crate::part::{How, Part, name};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "resets",
    about: "CPU of the process: nothing but resets, at several rates",
    state: "The 10,000 connections lie in memory as in a server, and a pause of 5 ms between two bursts \
            leaves the caches to others. A sleep stands next to them. Unlike a server: all bursts come \
            at the same moments, connections come in the same order each time, and no socket is read.",
    how: How::Together(run),
};

/// Resets a second.
const RATES: &[u32] = &[100_000, 300_000, 1_000_000, 3_000_000];
/// So many connections are in the caches at each burst.
const FEW: usize = 100;

const CONTENDERS: [&str; 4] = [
    name::TICKWHEEL,
    name::TOKIO,
    name::LAST_SEEN,
    name::NO_TIMER,
];

fn run(settings: &Settings) -> Vec<Record> {
    let many = |rate: &u32| (format!("resets-{rate}"), HANDLES, *rate);
    let few = ("resets-few-1000000".to_owned(), FEW, 1_000_000);
    let rows = RATES.iter().map(many).chain([few]);
    rows.flat_map(|(row, connections, rate)| {
        let load = Load::new(connections, rate, settings);
        in_turn(&[row], &CONTENDERS, settings.either(21, 3), |index| {
            let contender = CONTENDERS[index];
            [match contender {
                name::TICKWHEEL => load.turn(contender, connect, |handle| assert!(handle.reset())),
                name::TOKIO => load.turn(contender, owned, reset_owned),
                name::LAST_SEEN => load.turn(contender, LastSeen::start, |seen| seen.touch()),
                _ => load.turn(contender, || (), |()| ()),
            }]
        })
    })
    .collect()
}

struct Load {
    connections: usize,
    /// Resets a second.
    rate: u32,
    warm_up: Duration,
    sample: Duration,
}

impl Load {
    fn new(connections: usize, rate: u32, settings: &Settings) -> Load {
        let [warm_up, sample] = settings
            .either([100, 100], [20, 40])
            .map(Duration::from_millis);
        Load {
            connections,
            rate,
            warm_up,
            sample,
        }
    }

    /// Milliseconds of CPU in a second, on a runtime of its own.
    fn turn<T: Send + 'static>(
        &self,
        contender: &str,
        connect: fn() -> T,
        reset: fn(&mut T),
    ) -> f64 {
        let runtime = runtime(2);
        let standing = Standing::of(contender, &runtime);
        let millis = runtime.block_on(async {
            let mut tasks = self.spawn(connect, reset);
            sleep(self.warm_up).await;
            let (begin, cpu) = (Instant::now(), ProcessTime::now());
            sleep(self.sample).await;
            let millis = 1e3 * cpu.elapsed().as_secs_f64() / begin.elapsed().as_secs_f64();
            tasks.shutdown().await;
            millis
        });
        standing.end();
        millis
    }

    /// The tasks reset until they are aborted.
    fn spawn<T: Send + 'static>(&self, connect: fn() -> T, reset: fn(&mut T)) -> JoinSet<()> {
        let mut all = in_random_order(self.connections, connect);
        let (_, pause) = LOADS[0];
        let rate = self.rate;
        let task = |_| {
            let mut own = all.split_off(all.len() - self.connections / TASKS as usize);
            let mut next = 0;
            bursts(rate, pause, Duration::MAX, move |times| {
                for _ in 0..times {
                    reset(&mut own[next]);
                    next = (next + 1) % own.len();
                }
                ready(())
            })
        };
        (0..TASKS).map(task).collect()
    }
}
