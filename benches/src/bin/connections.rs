//! What a user has to expect of very many connections. There are as many deadlines. A heartbeat
//! pushes each of them back now and then, and none ever expires. The program reports the memory,
//! the CPU of the driver, and what a heartbeat costs.
//!
//! The driver has a runtime with one worker to itself. So the CPU time of that worker is its own.

use std::error::Error;
use std::future::Future;
use std::iter::Cycle;
use std::pin::Pin;
use std::slice::Iter;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use cpu_time::ThreadTime;
use humantime::parse_duration;
use peak_alloc::PeakAlloc;
use tickwheel::{Deadline, ResetHandle, Timer};
use tickwheel_bench::conductor;
use tickwheel_bench::harness::{Record, runtime};
use tickwheel_bench::part::name;
use tickwheel_bench::rows::readable;
use tokio::runtime::Runtime;

#[global_allocator]
static COUNTING: PeakAlloc = PeakAlloc;

/// Measures what very many deadlines cost that are pushed back and never expire.
#[derive(Parser)]
#[command(after_help = "Durations have units: 1500ms, 2s, 1m 30s.")]
struct Options {
    /// How many deadlines, one for each connection.
    #[arg(long, default_value_t = 10_000_000)]
    connections: usize,

    /// The timeout of each, give or take a half so that they do not come all at once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,

    /// Each deadline is reset once in this time, which is shorter than half of the timeout.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    heartbeat: Duration,

    /// The length of a tick.
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = parse_duration)]
    tick: Duration,

    /// How long to measure, once every timer's slot has come.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    run_time: Duration,

    /// Measure with ticks of 1 ms and of 100 ms, and print records. What the part `sizing` asks
    /// for.
    #[arg(long, hide = true, conflicts_with = "tick")]
    records: bool,

    /// Of those a few only.
    #[arg(long, hide = true, requires = "records")]
    quick: bool,
}

/// What was measured: its name, its unit, and a figure.
type Measured = [(&'static str, &'static str, f64); 6];

fn main() -> Result<(), Box<dyn Error>> {
    // Output that is cut off, as by `| head -1`, ends the program without a panic.
    sigpipe::reset();
    let options = Options::parse();
    if options.records {
        conductor::print(&records(options)?);
        return Ok(());
    }
    let Options {
        timeout,
        heartbeat,
        tick,
        run_time,
        ..
    } = options;
    let settled = timeout.mul_f64(SETTLED);
    eprintln!(
        "makes the deadlines, waits {settled:?} until each slot has come, measures {run_time:?} …"
    );
    let measured = measure(&options)?;
    let count = readable(options.connections as f64);
    println!(
        "{count} deadlines of {timeout:?}, each reset once in {heartbeat:?}; ticks of {tick:?}, {SHARDS} shards"
    );
    for (what, unit, figure) in measured {
        println!("{what:<10}{} {unit}", readable(figure));
    }
    Ok(())
}

fn records(mut options: Options) -> Result<Vec<Record>, Box<dyn Error>> {
    if options.quick {
        let half = Duration::from_millis(500);
        (options.connections, options.run_time) = (100_000, half);
        (options.timeout, options.heartbeat) = (4 * half, half);
    }
    let mut records = Vec::new();
    for (tick, contender) in [(1, name::EACH_MILLISECOND), (100, name::EACH_TENTH)] {
        options.tick = Duration::from_millis(tick);
        let in_rows = ["driver", "wake-ups", "reset"];
        let measured = measure(&options)?.into_iter();
        for (what, _, figure) in measured.filter(|(what, ..)| in_rows.contains(what)) {
            let row = format!("sizing-{what}");
            records.push(Record::new(&row, contender, vec![figure]));
        }
    }
    Ok(records)
}

const SHARDS: usize = 2;
const TOO_SLOW: &str = "a deadline has expired: the machine is too slow";

/// After so many times the timeout every timer's slot has come once, and it was linked again by its
/// last heartbeat.
const SETTLED: f64 = 1.6;

fn measure(options: &Options) -> Result<Measured, Box<dyn Error>> {
    let runtime = runtime(1);
    let timer = Timer::builder()
        .tick(options.tick)
        .shards(SHARDS)
        .build_on(runtime.handle())?;

    let (before, begin) = (COUNTING.current_usage(), Instant::now());
    let connection = |_| {
        let timeout = options.timeout.as_secs_f64() * (0.5 + fastrand::f64());
        // Whole tenths of a second, as in many configurations.
        let tenths = (timeout * 10.0).round() as u64;
        let mut deadline = timer.deadline(Duration::from_millis(100 * tenths));
        // The task of the connection would poll it so.
        let polled = Pin::new(&mut deadline).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        let handle = deadline.handle();
        (deadline, handle)
    };
    let mut connections: Vec<_> = (0..options.connections).map(connection).collect();
    let to_make = begin.elapsed().as_secs_f64() * 1e9 / options.connections as f64;
    let bytes = (COUNTING.current_usage() - before) as f64 / options.connections as f64;
    fastrand::shuffle(&mut connections);
    // It takes a while to arm all of them, and the first heartbeats may take as long again.
    let in_time = connections.iter().all(|(_, handle)| handle.reset());
    assert!(in_time, "{TOO_SLOW}");

    let mut connections = connections.iter().cycle();
    let mut run = |time| heartbeats(options, &mut connections, time);
    run(options.timeout.mul_f64(SETTLED));
    let (cpu, wake_ups) = (cpu_of(&runtime), timer.metrics().wake_ups());
    let begin = Instant::now();
    let (resets, spent) = run(options.run_time);
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu = (cpu_of(&runtime) - cpu).as_secs_f64();
    let wake_ups = (timer.metrics().wake_ups() - wake_ups) as f64;
    let reset = spent.as_secs_f64() * 1e9 / resets as f64;
    Ok([
        ("memory", "bytes each, deadline and handle", bytes),
        ("to make", "ns each", to_make),
        ("driver", "% of a core", 100.0 * cpu / elapsed),
        ("wake-ups", "a second", wake_ups / elapsed),
        ("resets", "a second", resets as f64 / elapsed),
        ("reset", "ns each", reset),
    ])
}

/// The CPU time of the runtime's only worker so far.
fn cpu_of(runtime: &Runtime) -> Duration {
    let worker = runtime.spawn(async { ThreadTime::now().as_duration() });
    runtime.block_on(worker).expect("it does not panic")
}

type Connections<'a> = Cycle<Iter<'a, (Deadline, ResetHandle)>>;

/// Resets all deadlines one after the other, from this thread. How many, and how long that took.
fn heartbeats(options: &Options, all: &mut Connections, time: Duration) -> (usize, Duration) {
    let a_second = options.connections as f64 / options.heartbeat.as_secs_f64();
    let (mut resets, mut spent) = (0, Duration::ZERO);
    let begin = Instant::now();
    while begin.elapsed() < time {
        let due = (begin.elapsed().as_secs_f64() * a_second) as usize;
        let start = Instant::now();
        let in_time = all.take(due - resets).all(|(_, handle)| handle.reset());
        assert!(in_time, "{TOO_SLOW}");
        spent += start.elapsed();
        resets = due;
        thread::sleep(Duration::from_micros(200));
    }
    (resets, spent)
}
