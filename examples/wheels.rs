//! The wheels of a timer as they turn: each row is a level, and the present is at its left end.
//! Timers of coarse levels cascade to finer ones, and most are pushed back or dropped before they
//! fire.
//!
//! ```text
//! cargo run --example wheels
//! ```

use tickwheel::{Duration, Timer, error::BuildError};

const MS: Duration = Duration::from_millis(1);

#[tokio::main]
async fn main() -> Result<(), BuildError> {
    clap::Command::new("wheels")
        .about("Draws a timer's wheels for a second, as connections and requests come and go")
        .get_matches(); // for --help
    let timer = Timer::builder().tick(10 * MS).shards(1).build()?;
    let mut random = fastrand::Rng::with_seed(1);
    let idle = (0..60).map(|n| timer.deadline(n * 100 * MS));
    let connections: Vec<_> = idle
        .map(|idle| (idle.handle(), tokio::spawn(idle)))
        .collect();
    let mut requests = Vec::new();
    for _ in 0..20 {
        for _ in 0..5 {
            // A heartbeat of one connection, and a request of another, which has been answered
            // before a timer of hours would fire.
            connections[random.usize(..connections.len())].0.reset();
            requests.push(timer.deadline(random.u32(1..3_000) * MS));
        }
        if requests.len() > 20 {
            requests.drain(..5);
        }
        // To the upper left corner, and clear what is below.
        println!("\x1b[H\x1b[J{}", timer.snapshot());
        tokio::time::sleep(50 * MS).await;
    }
    println!("{:?}", timer.metrics());
    Ok(())
}
