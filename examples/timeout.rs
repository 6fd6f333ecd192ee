//! A time limit around a request. For programs that use `tokio::time::timeout` today.
//!
//! ```text
//! cargo run --example timeout
//! ```

use tickwheel::Timer;
use tickwheel::time::error::Elapsed; // was: tokio::time::error::Elapsed
use tickwheel::time::{Duration, Instant, sleep, timeout, timeout_at}; // was: tokio::time

const LIMIT: Duration = Duration::from_millis(100);

/// A request to a server that needs some milliseconds for its answer.
async fn request(milliseconds: u64) -> String {
    sleep(Duration::from_millis(milliseconds)).await;
    format!("an answer after {milliseconds} ms")
}

#[tokio::main]
async fn main() {
    clap::Command::new("timeout")
        .about("Limits the time of requests, in five ways")
        .get_matches(); // for --help
    // A limit for each request. A request that is too slow is dropped, and so cancelled.
    for milliseconds in [20, 300] {
        report(timeout(LIMIT, request(milliseconds)).await);
    }

    // One limit for several requests: all of them end at the same instant.
    let end = Instant::now() + LIMIT;
    for milliseconds in [30, 30, 300] {
        report(timeout_at(end, request(milliseconds)).await);
    }

    // `&mut` keeps the request, so it can go on after its limit.
    let mut slow = Box::pin(request(150));
    match timeout(LIMIT, &mut slow).await {
        Ok(answer) => println!("in time:  {answer}"),
        Err(_) => println!("later:    {}", slow.await),
    }

    // A program that is busy on many threads holds a timer, which saves a look-up for each call.
    let timer = Timer::current();
    report(timer.timeout(LIMIT, request(20)).await);
}

fn report(answer: Result<String, Elapsed>) {
    match answer {
        Ok(answer) => println!("in time:  {answer}"),
        Err(elapsed) => println!("too slow: {elapsed}"),
    }
}
