//! The program `hyper_server`, by reqwest and by clients that behave badly.

use std::time::{Duration, Instant};

use crate::process::{LONGEST_WAIT, Program, drip_to_end, read_to_end};
use reqwest::{Client, ClientBuilder, StatusCode, Version};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const PING: u8 = 6;

fn start(options: &[&str]) -> Program {
    Program::start(env!("CARGO_BIN_EXE_hyper_server"), options)
}

fn client() -> ClientBuilder {
    Client::builder().no_proxy().timeout(LONGEST_WAIT)
}

#[tokio::test]
async fn both_versions_of_http_are_answered() {
    let program = start(&[]);
    let http1 = client().http1_only().build().unwrap();
    let http2 = client().http2_prior_knowledge().build().unwrap();
    for (client, version) in [(http1, Version::HTTP_11), (http2, Version::HTTP_2)] {
        for _ in 0..3 {
            let response = client.get(program.url("/")).send().await.unwrap();
            assert_eq!(
                (response.status(), response.version()),
                (StatusCode::OK, version)
            );
            assert_eq!(response.text().await.unwrap(), "hello\n");
        }
        let response = client.get(program.url("/nothing")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
    }
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn half_a_request_head_is_cut_off() {
    let program = start(&["--header-within", "400ms"]);
    let start = Instant::now();
    let mut stream = program.connect().await;
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: loc")
        .await
        .unwrap();
    read_to_end(&mut stream).await;
    assert!(start.elapsed() >= Duration::from_millis(400));
    program.prints(&["closed: ", "header", "timeout"]).await;
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn a_request_head_byte_by_byte_is_cut_off() {
    let program = start(&["--header-within", "1s", "--idle", "1h"]);
    let start = Instant::now();
    let mut stream = program.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
    drip_to_end(&mut stream, b"x", Duration::from_millis(100)).await;
    assert!(start.elapsed() >= Duration::from_secs(1));
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn an_http2_preface_byte_by_byte_is_cut_off() {
    let program = start(&["--header-within", "1s", "--idle", "1h"]);
    let start = Instant::now();
    let mut stream = program.connect().await;
    // The whole of it would take four times as long as a head may take.
    drip_to_end(&mut stream, PREFACE, Duration::from_millis(170)).await;
    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_secs(1));
    program
        .prints(&["closed: no request was begun in time"])
        .await;
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn a_request_shorter_than_the_preface_begins_in_time() {
    let program = start(&["--header-within", "300ms", "--slow", "1s"]);
    let mut stream = program.connect().await;
    stream
        .write_all(b"GET /slow HTTP/1.0\r\n\r\n")
        .await
        .unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.ends_with(b"at last\n"), "{answer:?}");
    stream = program.connect().await;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.ends_with(b"hello\n"), "{answer:?}");
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_is_cut_off() {
    let program = start(&["--idle", "400ms"]);
    let start = Instant::now();
    let mut stream = program.connect().await;
    assert_eq!(read_to_end(&mut stream).await, b"");
    assert!(start.elapsed() >= Duration::from_millis(400));
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn an_http2_client_that_answers_no_ping_is_cut_off() {
    let program = start(&[
        "--ping-every",
        "300ms",
        "--pong-within",
        "300ms",
        "--idle",
        "1h",
    ]);
    let start = Instant::now();
    let mut stream = program.connect().await;
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(EMPTY_SETTINGS).await.unwrap();
    let frames = read_to_end(&mut stream).await;
    assert!(start.elapsed() >= Duration::from_millis(600));
    let is_ping = |frame: &[u8]| frame[..5] == [0, 0, 8, PING, 0];
    assert!(frames.windows(9).any(is_ping), "{frames:?}");
    program.prints(&["closed: ", "keep-alive"]).await;
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn an_http2_client_that_answers_pings_stays() {
    let program = start(&[
        "--ping-every",
        "200ms",
        "--pong-within",
        "3s",
        "--idle",
        "1h",
    ]);
    let client = client().http2_prior_knowledge().build().unwrap();
    client.get(program.url("/")).send().await.unwrap();
    sleep(Duration::from_secs(4)).await;
    client.get(program.url("/")).send().await.unwrap();
    program.terminate();
    let lines = program
        .prints_up_to(&["shut down: all requests were answered"])
        .await;
    let opened = lines.iter().filter(|line| line.contains("opened")).count();
    assert_eq!(opened, 1, "{lines:?}");
    assert!(
        lines.last().unwrap().ends_with("; 0 timers armed"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn what_is_in_flight_is_answered_before_the_end() {
    let program = start(&["--slow", "1s"]);
    let in_flight = client().build().unwrap().get(program.url("/slow")).send();
    let in_flight = tokio::spawn(in_flight);
    program.prints(&["GET /slow"]).await;
    program.terminate();
    let response = in_flight.await.unwrap().unwrap();
    assert_eq!(response.text().await.unwrap(), "at last\n");
    program
        .prints(&["shut down: all requests were answered; 0 timers armed"])
        .await;
    assert!(TcpStream::connect(program.address()).await.is_err());
}

#[tokio::test]
async fn what_takes_too_long_is_cut_off_at_the_end() {
    assert_cut_off_at_the_end(client()).await;
}

#[tokio::test]
async fn http2_that_takes_too_long_is_cut_off_at_the_end() {
    assert_cut_off_at_the_end(client().http2_prior_knowledge()).await;
}

async fn assert_cut_off_at_the_end(client: ClientBuilder) {
    let program = start(&["--slow", "1h", "--shutdown-within", "300ms"]);
    let in_flight = client.build().unwrap().get(program.url("/slow")).send();
    let in_flight = tokio::spawn(in_flight);
    program.prints(&["GET /slow"]).await;
    let start = Instant::now();
    program.terminate();
    assert!(in_flight.await.unwrap().is_err());
    assert!(start.elapsed() >= Duration::from_millis(300));
    program
        .prints(&["shut down: some requests were cut off; 0 timers armed"])
        .await;
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing_behind() {
    let program = start(&["--slow", "1h"]);
    for request in [
        &b""[..],
        b"GET",
        b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n",
        PREFACE,
    ] {
        let mut stream = program.connect().await;
        program.prints(&["opened"]).await;
        stream.write_all(request).await.unwrap();
        sleep(Duration::from_millis(100)).await;
        stream.set_zero_linger().unwrap();
        drop(stream);
        program.prints(&["closed"]).await;
    }
    program.shuts_down_with_nothing_armed().await;
}
