#!/usr/bin/env bash
# Library: turmoil 0.7.2, a simulated network
# Guess: with a latency of exactly 10 ms a round trip takes 20 ms by the host's clock, whatever
#   `tick_duration` is: the tick is a step of the simulation, and the clock is virtual.
# Seen: each way ends at a tick. With ticks of 100 ms a round trip takes 187 to 200 ms, and a timeout
#   of 50 ms around it elapses, though the network is five times as fast.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
mkdir src
cat >src/main.rs <<'END'
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use turmoil::net::{TcpListener, TcpStream};

const MS: Duration = Duration::from_millis(1);

fn main() {
    for tick in [1, 20, 100] {
        let mut simulation = turmoil::Builder::new()
            .tick_duration(tick * MS)
            .min_message_latency(10 * MS)
            .max_message_latency(10 * MS)
            .simulation_duration(100_000 * MS)
            .build();
        simulation.host("server", || async {
            let listener = TcpListener::bind("0.0.0.0:9").await?;
            let (mut socket, _) = listener.accept().await?;
            let mut byte = [0];
            while socket.read_exact(&mut byte).await.is_ok() {
                socket.write_all(&byte).await?;
            }
            Ok(())
        });
        simulation.client("client", async move {
            let mut socket = TcpStream::connect("server:9").await?;
            let start = Instant::now();
            let mut byte = [0];
            socket.write_all(&byte).await?;
            socket.read_exact(&mut byte).await?;
            let took = start.elapsed();
            socket.write_all(&byte).await?;
            let answer = timeout(50 * MS, socket.read_exact(&mut byte)).await;
            println!("ticks of {tick} ms: {took:?}, within 50 ms {}", answer.is_ok());
            Ok(())
        });
        simulation.run().unwrap();
    }
}
END
rust_program <<'END'
tokio = { version = "=1.54.1", features = ["full"] }
turmoil = "=0.7.2"
END
expect "$("$program")" <<'END'
ticks of 1 ms: 20ms, within 50 ms true
ticks of 20 ms: 40ms, within 50 ms true
ticks of 100 ms: 200ms, within 50 ms false
END
