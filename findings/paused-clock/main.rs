//! Which waits of a library follow tokio's paused clock? Each case runs in a current-thread runtime
//! of its own, which starts paused, and prints one line: library, wait, what was seen.
//!
//! A peer of a client is a thread of its own that answers after a tenth of a second: a healthy
//! server outside the runtime. `follows` means that the wait takes its whole virtual time, and
//! hardly any real one.

mod amqp;
mod clients;
mod own;
mod peers;
mod pools;
mod remedies;
mod schedules;

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::time::{Duration, Instant};

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);

/// Real time in which a busy machine does what takes none.
const LITTLE: Duration = Duration::from_secs(3);

pub type Case = Pin<Box<dyn Future<Output = String>>>;
pub type Row = (&'static str, &'static str, fn() -> Case);

/// How long a wait takes, by both clocks.
pub struct Took<T> {
    pub virtually: Duration,
    pub really: Duration,
    pub result: T,
}

pub async fn measure<T>(wait: impl Future<Output = T>) -> Took<T> {
    let (start, really) = (tokio::time::Instant::now(), Instant::now());
    let result = wait.await;
    Took {
        virtually: start.elapsed(),
        really: really.elapsed(),
        result,
    }
}

/// A wait of at least `length`, which is longer than what a busy machine takes for nothing.
pub async fn follows(length: Duration, wait: impl Future) -> String {
    let took = measure(wait).await;
    if took.virtually >= length && took.really < LITTLE {
        return "follows".to_owned();
    }
    format!(
        "took {:?} virtually, {:?} really",
        took.virtually, took.really
    )
}

/// The wait is over long before its limit, in real time, with the error that was expected.
pub async fn at_once(limit: Duration, wait: impl Future<Output = Result<(), String>>) -> String {
    let took = measure(wait).await;
    match took.result {
        Ok(()) if took.really < limit && took.really < LITTLE => "times out at once".to_owned(),
        Ok(()) => format!("times out after {:?}", took.really),
        Err(other) => other,
    }
}

thread_local! {
    /// Whether the clock of this thread's case is never paused.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// The same case on a clock that runs.
pub fn running(case: Case) -> Case {
    Box::pin(async {
        tokio::time::resume();
        RUNS.set(true);
        case.await
    })
}

/// What a case does before it pauses the clock.
pub async fn before_the_pause<T>(first: impl Future<Output = T>) -> T {
    if RUNS.get() {
        return first.await;
    }
    tokio::time::resume();
    let done = first.await;
    tokio::time::pause();
    done
}

/// Alone the wait takes `length` of real time. In a timeout of tokio's it is not waited for.
pub async fn by_another_clock<F: Future>(length: Duration, wait: impl Fn() -> F) -> String {
    let alone = measure(wait()).await;
    let within = measure(tokio::time::timeout(HOUR, wait())).await;
    let alone = match alone.really {
        real if real >= length && alone.virtually < length => "real time",
        real if real < length => "no real time",
        _ => "real time, and virtual time",
    };
    let within = match within.result {
        Err(_) if within.really < length => "Elapsed at once",
        Err(_) => "Elapsed late",
        Ok(_) => "ready",
    };
    format!("{alone}; in a timeout {within}")
}

fn run((library, wait, case): Row) -> String {
    let seen = std::thread::spawn(move || {
        let seen = catch_unwind(AssertUnwindSafe(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            let seen = tokio::task::LocalSet::new().block_on(&runtime, case());
            runtime.shutdown_background();
            seen
        }));
        seen.unwrap_or_else(|_| "panicked".to_owned())
    });
    // A wait may hang.
    let start = Instant::now();
    while !seen.is_finished() && start.elapsed() < MINUTE {
        std::thread::sleep(10 * MS);
    }
    let seen = if seen.is_finished() {
        seen.join().unwrap()
    } else {
        "hangs".to_owned()
    };
    format!("{library} | {wait} | {seen}")
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let rows = [
        own::ROWS,
        pools::ROWS,
        clients::ROWS,
        schedules::ROWS,
        amqp::ROWS,
        remedies::ROWS,
    ];
    for row in rows.into_iter().flatten() {
        if row.0.contains(&only) {
            println!("{}", run(*row));
        }
    }
    std::process::exit(0); // whatever still hangs
}
