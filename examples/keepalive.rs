//! A connection that is closed when it has been silent for too long. For servers and proxies.
//!
//! One task awaits the deadline. Another task reads heartbeats, and each heartbeat pushes the
//! deadline back.
//!
//! ```text
//! cargo run --example keepalive
//! ```

use tickwheel::{Duration, ResetHandle, Timer, sleep};
use tokio::sync::mpsc;

const IDLE_TIMEOUT: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() {
    clap::Command::new("keepalive")
        .about("Closes a connection that falls silent")
        .get_matches(); // for --help
    let (client, heartbeats) = mpsc::channel(8);
    let idle = Timer::current().deadline(IDLE_TIMEOUT); // armed now
    let reader = tokio::spawn(read(heartbeats, idle.handle()));
    tokio::spawn(send_heartbeats(client));

    match idle.await {
        Ok(()) => println!("closed: the client was silent for {IDLE_TIMEOUT:?}"),
        Err(cancelled) => println!("closed: {cancelled}"), // somebody called `handle.cancel()`
    }
    reader.await.expect("the reader does not panic");
}

/// The client: it speaks five times, and then falls silent for too long.
async fn send_heartbeats(client: mpsc::Sender<u32>) {
    for number in 1..=5 {
        sleep(Duration::from_millis(60)).await;
        let _ = client.send(number).await;
    }
    sleep(Duration::from_millis(400)).await;
    let _ = client.send(6).await; // too late
}

/// The task that reads the socket. `reset` takes `&self` and no lock, and its answer is exact.
async fn read(mut heartbeats: mpsc::Receiver<u32>, keepalive: ResetHandle) {
    while let Some(number) = heartbeats.recv().await {
        if !keepalive.reset() {
            println!("heartbeat {number} came too late");
            return;
        }
        println!("heartbeat {number}, in time");
    }
}
