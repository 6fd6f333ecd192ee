//! The program `axum_idle`: what it has beside `hyper_server`, on whose connections it serves.

use std::time::{Duration, Instant};

use crate::process::{LONGEST_WAIT, Program, read_to_end};
use reqwest::{Client, StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

const UPLOAD: &[u8] = b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nsome of it";

async fn serve(options: &[&str]) -> Program {
    Program::serve(env!("CARGO_BIN_EXE_axum_idle"), options).await
}

#[tokio::test]
async fn handlers_answer_and_one_that_hangs_is_answered_for() {
    let limit = Duration::from_secs(3);
    let program = serve(&["--request-within", "3s"]).await;
    let client = || Client::builder().no_proxy().timeout(LONGEST_WAIT);
    let http2 = client().http2_prior_knowledge();
    for (client, version) in [(client(), Version::HTTP_11), (http2, Version::HTTP_2)] {
        let client = client.build().unwrap();
        let start = Instant::now();
        let hanging = client.get(program.url("/hangs")).send().await.unwrap();
        assert!(start.elapsed() >= limit);
        assert_eq!(hanging.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(hanging.text().await.unwrap(), "this took too long\n");
        // The connection is as good as before.
        let upload = client.post(program.url("/upload")).body(vec![0; 1 << 20]);
        for (request, text) in [
            (client.get(program.url("/")), "hello\n"),
            (upload, "1048576 bytes\n"),
        ] {
            let response = request.send().await.unwrap();
            assert_eq!(response.version(), version);
            assert_eq!(response.text().await.unwrap(), text);
        }
    }
    program.shuts_down_with_nothing_armed().await;
    let lines = program.lines();
    let opened = lines.iter().filter(|line| line.contains("opened")).count();
    assert_eq!(opened, 2, "one connection for each client: {lines:?}");
}

#[tokio::test]
async fn an_upload_that_stops_breaks_off() {
    let program = serve(&["--idle", "500ms", "--request-within", "1h"]).await;
    let mut stream = program.send(UPLOAD).await;
    read_to_end(&mut stream).await;
    let line = "an upload broke off after 10 bytes";
    program.prints(&[line]).await;
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn an_upload_byte_by_byte_is_bounded_as_a_request() {
    let program = serve(&["--idle", "1h", "--request-within", "1s"]).await;
    let start = Instant::now();
    let (mut read, mut write) = program.send(UPLOAD).await.into_split();
    let dripping = tokio::spawn(async move {
        while write.write_all(b".").await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    });
    let mut status = [0; 12];
    let answer = timeout(LONGEST_WAIT, read.read_exact(&mut status)).await;
    answer.unwrap().unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(&status, b"HTTP/1.1 503");
    dripping.abort();
    drop(read);
    program.shuts_down_with_nothing_armed().await;
}
