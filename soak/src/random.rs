//! The random programs: runtimes, timers, actors and faults, all drawn from a seed.

use std::sync::Arc;
use std::thread;

use tickwheel::Timer;
use tokio::time::Duration;

use crate::actors::{deadline, deadline_map, delay_map, yield_now};
use crate::faults::{spin, stop};
use crate::finding::Kind;
use crate::program::{Clock, Faults, Program, Setting};
use crate::world::{End, Flavour, Hosted, Place};

/// Which actors a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    All,
    Deadline,
    DeadlineMap,
    DelayMap,
}

fn flavour(random: &mut fastrand::Rng) -> Flavour {
    let all = [
        Flavour::Current,
        Flavour::Current,
        Flavour::Current,
        Flavour::Multi(1),
        Flavour::Multi(2),
        Flavour::Multi(8),
    ];
    *random.choice(&all).unwrap()
}

pub fn end(random: &mut fastrand::Rng) -> End {
    match random.u8(..4) {
        0 | 1 => End::Drop,
        2 => End::Background,
        _ => End::Timeout(Duration::from_millis(random.u64(..50))),
    }
}

/// Timers of all runtimes, the process's at times.
pub fn clocks(runtimes: &[Hosted], random: &mut fastrand::Rng) -> Vec<Clock> {
    let mut clocks = Vec::new();
    for (at, hosted) in runtimes.iter().enumerate() {
        let own = (hosted.own_timer(), Duration::from_millis(1));
        let tick = *random.choice(&[1, 1, 2, 10, 100]).unwrap();
        let tick = Duration::from_millis(tick);
        let builder = Timer::builder().tick(tick);
        let made = (builder.build_on(&hosted.handle).unwrap(), tick);
        let of_runtime = |(timer, tick)| Clock {
            timer,
            tick,
            runtime: Some(at),
        };
        match random.u8(..3) {
            0 => clocks.push(of_runtime(own)),
            1 => clocks.push(of_runtime(made)),
            _ => clocks.extend([own, made].map(of_runtime)),
        }
    }
    if random.u8(..8) == 0 {
        clocks.push(Clock {
            timer: Timer::global(),
            tick: Duration::from_millis(1),
            runtime: None,
        });
    }
    clocks
}

fn faults(random: &mut fastrand::Rng) -> Faults {
    let mut rare = |one_of| random.u16(..one_of) == 0;
    Faults {
        wakers: rare(4),
        busy_workers: rare(6),
        stop: rare(200),
        busy_cores: rare(40),
        budgets: rare(4),
    }
}

/// Runs a program. `false` if it hangs.
pub fn run(cast: Cast, setting: Setting) -> bool {
    let mut random = fastrand::Rng::with_seed(setting.seed);
    let count = if random.u8(..3) == 0 { 2 } else { 1 };
    let flavours: Vec<_> = (0..count).map(|_| flavour(&mut random)).collect();
    let mut faults = faults(&mut random);
    faults.stop &= setting.may_disturb;
    faults.busy_cores &= setting.may_disturb;
    let busy = match random.u8(..8) {
        0..4 => Duration::from_millis(100),
        4..7 => Duration::from_millis(random.u64(10..400)),
        _ => Duration::from_millis(1_000),
    };
    let for_clocks = &mut random.fork();
    let program = Program::new(setting, &flavours, faults, busy, |runtimes| {
        clocks(runtimes, for_clocks)
    });
    // Few at a time, because a race wants the threads that run to be its own.
    let kinds = if cast == Cast::All {
        random.u8(1..4)
    } else {
        1
    };
    for _ in 0..kinds {
        let cast = match cast {
            Cast::All => {
                let all = [Cast::Deadline, Cast::DeadlineMap, Cast::DelayMap];
                *random.choice(&all).unwrap()
            }
            cast => cast,
        };
        begin(cast, &program, &mut random);
    }
    trouble(&program, &mut random);
    // One in three ends a runtime while it is in use.
    if random.u8(..3) == 0 {
        let length = busy.mul_f64(random.f64());
        thread::sleep(length);
        let at = random.usize(..program.runtimes.len());
        program.runtimes[at].end(end(&mut random));
    }
    finish(&program)
}

/// Waits for the end of a program and judges it.
pub fn finish(program: &Arc<Program>) -> bool {
    if !program.settle() {
        if program.runtimes.iter().any(Hosted::is_hung_by_tokio) {
            println!("void: tokio hangs: seed {}", program.seed);
            return true;
        }
        program.accuse(Kind::Hang, &program.stuck());
        return false;
    }
    program.judge();
    program.end();
    true
}

fn begin(cast: Cast, program: &Arc<Program>, random: &mut fastrand::Rng) {
    match cast {
        Cast::All | Cast::Deadline => {
            for _ in 0..random.u8(1..6) {
                let place = Place::random(random, program.runtimes.len());
                program.start(place, deadline::run(program.clone(), random.fork()));
            }
        }
        Cast::DeadlineMap => deadline_map::start(program, random),
        Cast::DelayMap => delay_map::start(program, random),
    }
}

/// The faults of the machine and of other tasks.
fn trouble(program: &Arc<Program>, random: &mut fastrand::Rng) {
    for at in 0..program.runtimes.len() {
        if program.faults.busy_workers {
            let length = Duration::from_millis(*random.choice(&[2, 5, 10, 50]).unwrap());
            for _ in 0..random.u8(1..9) {
                program.start(Place::Task(at), busy(program.clone(), length));
            }
        }
    }
    if program.faults.stop {
        program.start(Place::Plain, async { stop(Duration::from_secs(2)) });
    }
    if program.faults.busy_cores {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            program.start(
                Place::Plain,
                busy(program.clone(), Duration::from_millis(10)),
            );
        }
    }
}

/// Long polls, one after the other.
async fn busy(program: Arc<Program>, length: Duration) {
    while program.is_busy() {
        spin(length);
        yield_now().await;
    }
}
