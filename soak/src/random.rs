//! The random programs: runtimes, timers, actors and faults, all drawn from a seed.

use std::sync::Arc;
use std::thread;

use tickwheel::Timer;
use tokio::time::Duration;

use crate::finding::Kind;
use crate::maps::{start_deadline_map, start_delay_map};
use crate::program::{Clock, Program, Setting};
use crate::thread_world::yield_now;
use crate::world::{End, Executor, Flavour, Hosted, spin};

/// The ticks of timers, in microseconds. Some are no whole milliseconds, and so begin between two
/// lines of tokio's grid.
const TICKS: [u64; 10] = [
    1_000, 1_000, 1_500, 2_000, 2_500, 7_300, 10_000, 16_667, 50_000, 100_000,
];

/// Starts the actors of a map.
pub type Cast = fn(&Arc<Program>, &mut fastrand::Rng);

pub const ALL: &[Cast] = &[start_deadline_map, start_delay_map];
pub const DEADLINE_MAP: &[Cast] = &[start_deadline_map];
pub const DELAY_MAP: &[Cast] = &[start_delay_map];

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
        let tick = Duration::from_micros(*random.choice(&TICKS).unwrap());
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
            timer: Timer::global().clone(),
            tick: Duration::from_millis(1),
            runtime: None,
        });
    }
    clocks
}

/// Runs a program of these. `false` if it hangs.
pub fn run(casts: &[Cast], setting: Setting) -> bool {
    let mut random = fastrand::Rng::with_seed(setting.seed);
    let count = if random.u8(..3) == 0 { 2 } else { 1 };
    let flavours: Vec<_> = (0..count).map(|_| flavour(&mut random)).collect();
    let busy = match random.u8(..8) {
        0..4 => Duration::from_millis(100),
        4..7 => Duration::from_millis(random.u64(10..400)),
        _ => Duration::from_millis(1_000),
    };
    let for_clocks = &mut random.fork();
    let program = Program::new(setting, &flavours, busy, |runtimes| {
        clocks(runtimes, for_clocks)
    });
    // Few at a time, because a race wants the threads that run to be its own.
    for _ in 0..random.usize(1..2 * casts.len()) {
        random.choice(casts).unwrap()(&program, &mut random);
    }
    if random.u8(..6) == 0 {
        keep_workers_busy(&program, &mut random);
    }
    // One in three ends a runtime while it is in use.
    if random.u8(..3) == 0 {
        let length = busy.mul_f64(random.f64());
        thread::sleep(length);
        let at = random.usize(..program.runtimes.len());
        program.runtimes[at].end(end(&mut random));
    }
    finish(&program)
}

/// Waits for the end of a program and checks it.
pub fn finish(program: &Arc<Program>) -> bool {
    if !program.settle() {
        if program.runtimes.iter().any(Hosted::is_hung_by_tokio) {
            println!("void: tokio hangs: seed {}", program.seed);
            return true;
        }
        program.report(Kind::Hang, &program.stuck());
        return false;
    }
    program.check();
    program.end();
    true
}

/// Other tasks do not let the workers go.
fn keep_workers_busy(program: &Arc<Program>, random: &mut fastrand::Rng) {
    for at in 0..program.runtimes.len() {
        let length = Duration::from_millis(*random.choice(&[2, 5, 10, 50]).unwrap());
        for _ in 0..random.u8(1..9) {
            program.start(Executor::Task(at), busy(program.clone(), length));
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
