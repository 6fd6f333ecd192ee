//! What a user has to expect of very many connections. There are as many deadlines. A heartbeat
//! pushes each of them back now and then, and none ever expires. The program tells the memory, the
//! CPU of the driver, and what a heartbeat costs.
//!
//! The driver has a runtime with one worker to itself. So the CPU time of that worker is its own.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use cpu_time::ThreadTime;
use humantime::parse_duration;
use peak_alloc::PeakAlloc;
use tickwheel::{Deadline, ResetHandle, Timer};
use tickwheel_bench::conductor;
use tickwheel_bench::harness::Record;
use tickwheel_bench::parts::name;
use tickwheel_bench::rows::readable;
use tokio::runtime::{self, Runtime};

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

    /// How many shards the timer has.
    #[arg(long, default_value_t = 2)]
    shards: usize,

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

/// What was measured.
struct Measured {
    bytes: f64,
    to_make: f64,
    driver_share: f64,
    wake_ups: f64,
    resets: f64,
    reset_nanos: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    // Output that is cut off, as by `| head -1`, ends the program without a panic.
    sigpipe::reset();
    let options = Options::parse();
    if options.records {
        conductor::tell(&records(options)?);
    } else {
        let (settled, time) = (options.timeout.mul_f64(1.6), options.run_time);
        eprintln!(
            "makes the deadlines, waits {settled:?} until each slot has come, measures {time:?} …"
        );
        print(&options, &measure(&options)?);
    }
    Ok(())
}

fn print(options: &Options, measured: &Measured) {
    println!(
        "{} deadlines of {:?}, each reset once in {:?}; ticks of {:?}, {} shards",
        readable(options.connections as f64),
        options.timeout,
        options.heartbeat,
        options.tick,
        options.shards,
    );
    println!(
        "memory    {} bytes each, deadline and handle",
        readable(measured.bytes)
    );
    println!("to make   {} ns each", readable(measured.to_make));
    println!(
        "driver    {} % of a core, {} wake-ups a second",
        readable(measured.driver_share * 100.0),
        readable(measured.wake_ups)
    );
    println!(
        "resets    {} a second, {} ns each",
        readable(measured.resets),
        readable(measured.reset_nanos)
    );
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
        let measured = measure(&options)?;
        for (row, figure) in [
            ("sizing-driver", measured.driver_share * 100.0),
            ("sizing-wake-ups", measured.wake_ups),
            ("sizing-reset", measured.reset_nanos),
        ] {
            records.push(Record::new(row, contender, vec![figure]));
        }
    }
    Ok(records)
}

fn measure(options: &Options) -> Result<Measured, Box<dyn Error>> {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let timer = Timer::builder()
        .tick(options.tick)
        .shards(options.shards)
        .build_on(runtime.handle())?;
    Ok(measure_on(options, &runtime, &timer))
}

fn measure_on(options: &Options, runtime: &Runtime, timer: &Timer) -> Measured {
    let (before, begin) = (COUNTING.current_usage(), Instant::now());
    let mut connections: Vec<(Deadline, ResetHandle)> = (0..options.connections)
        .map(|_| {
            let timeout = options.timeout.as_secs_f64() * (0.5 + fastrand::f64());
            // Whole tenths of a second, as in many configurations.
            let tenths = (timeout * 10.0).round() as u64;
            let mut deadline = timer.deadline(Duration::from_millis(100 * tenths));
            // The task of the connection would poll it so.
            let polled = Pin::new(&mut deadline).poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
            let handle = deadline.handle();
            (deadline, handle)
        })
        .collect();
    let to_make = begin.elapsed().as_secs_f64() * 1e9 / options.connections as f64;
    let bytes = (COUNTING.current_usage() - before) as f64 / options.connections as f64;
    fastrand::shuffle(&mut connections);
    // It takes a while to arm all of them, and the first heartbeats may take as long again.
    let in_time = connections.iter().all(|(_, handle)| handle.reset());
    assert!(in_time, "a deadline has expired: the machine is too slow");

    let mut heartbeats = Heartbeats::new(options, &connections);
    // By then every timer's slot has come once, and it was linked again by its last heartbeat.
    let settled = options.timeout.mul_f64(1.6);
    heartbeats.run(settled);
    let (cpu, wake_ups) = (cpu_of(runtime), timer.metrics().wake_ups);
    (heartbeats.resets, heartbeats.spent) = (0, Duration::ZERO);
    let begin = Instant::now();
    heartbeats.run(options.run_time);
    let elapsed = begin.elapsed().as_secs_f64();
    let cpu = cpu_of(runtime) - cpu;
    Measured {
        bytes,
        to_make,
        driver_share: cpu.as_secs_f64() / elapsed,
        wake_ups: (timer.metrics().wake_ups - wake_ups) as f64 / elapsed,
        resets: heartbeats.resets as f64 / elapsed,
        reset_nanos: heartbeats.spent.as_secs_f64() * 1e9 / heartbeats.resets as f64,
    }
}

/// The CPU time of the runtime's only worker so far.
fn cpu_of(runtime: &Runtime) -> Duration {
    let worker = runtime.spawn(async { ThreadTime::now().as_duration() });
    runtime.block_on(worker).expect("it does not panic")
}

/// Resets all deadlines one after the other, from the thread that runs it.
struct Heartbeats<'a> {
    connections: std::iter::Cycle<std::slice::Iter<'a, (Deadline, ResetHandle)>>,
    a_second: f64,
    resets: usize,
    spent: Duration,
}

impl<'a> Heartbeats<'a> {
    fn new(options: &Options, connections: &'a [(Deadline, ResetHandle)]) -> Heartbeats<'a> {
        Heartbeats {
            connections: connections.iter().cycle(),
            a_second: options.connections as f64 / options.heartbeat.as_secs_f64(),
            resets: 0,
            spent: Duration::ZERO,
        }
    }

    fn run(&mut self, duration: Duration) {
        let begin = Instant::now();
        let mut made = 0;
        while begin.elapsed() < duration {
            let due = (begin.elapsed().as_secs_f64() * self.a_second) as usize;
            let batch = due - made;
            let start = Instant::now();
            for (_, handle) in self.connections.by_ref().take(batch) {
                assert!(
                    handle.reset(),
                    "a deadline has expired: the machine is too slow"
                );
            }
            self.spent += start.elapsed();
            (self.resets, made) = (self.resets + batch, due);
            thread::sleep(Duration::from_micros(200));
        }
    }
}
