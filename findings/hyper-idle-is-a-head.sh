#!/usr/bin/env bash
# Library: hyper 1.12.0, the server of HTTP/1, with hyper-util 0.1.21
# Guess: `header_read_timeout(1 s)` bounds the reading of a request's head. A connection that rests
#   for 3 s between two requests stays open, because no head has begun.
# Seen: it is closed a second after the answer, with `HeaderTimeout`. The limit is one on idle
#   connections too.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
mkdir src
cat >src/main.rs <<'END'
use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let (mut client, server) = tokio::io::duplex(4096);
    let server = tokio::spawn(async {
        let answer = service_fn(|_| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("ok"))))
        });
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(1))
            .serve_connection(TokioIo::new(server), answer)
            .await
    });
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut answer = [0; 1024];
    assert!(client.read(&mut answer).await.unwrap() > 0);
    let start = Instant::now();
    let rest = tokio::time::timeout(Duration::from_secs(3), client.read(&mut answer)).await;
    match rest {
        Err(_) => println!("open after 3 s"),
        Ok(read) => println!(
            "closed after {} s: {:?}, {}",
            start.elapsed().as_secs(),
            read.unwrap(),
            server.await.unwrap().unwrap_err(),
        ),
    }
}
END
rust_program <<'END'
bytes = "1"
http-body-util = "0.1"
hyper = { version = "=1.12.0", features = ["server", "http1"] }
hyper-util = { version = "=0.1.21", features = ["tokio"] }
tokio = { version = "=1.54.1", features = ["full"] }
END
expect "$("$program")" <<'END'
closed after 1 s: 0, read header from client timeout
END
