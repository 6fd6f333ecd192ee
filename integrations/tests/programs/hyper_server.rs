//! The program `hyper_server`, by reqwest and by clients that behave badly.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::{LONGEST_WAIT, Program, drip_to_end, read_to_end};
use reqwest::{Client, ClientBuilder, StatusCode, Version};
use tokio::net::TcpStream;
use tokio::time::sleep;

const PROGRAM: &str = env!("CARGO_BIN_EXE_hyper_server");
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const MS: Duration = Duration::from_millis(1);

async fn serve(options: &str) -> Program {
    let options: Vec<_> = options.split_whitespace().collect();
    Program::serve(PROGRAM, &options).await
}

fn client() -> ClientBuilder {
    Client::builder().no_proxy().timeout(LONGEST_WAIT)
}

#[tokio::test]
async fn both_versions_of_http_are_answered() {
    let program = serve("").await;
    let http1 = client().http1_only().build().unwrap();
    let http2 = client().http2_prior_knowledge().build().unwrap();
    for (client, version) in [(http1, Version::HTTP_11), (http2, Version::HTTP_2)] {
        let response = client.get(program.url("/")).send().await.unwrap();
        assert_eq!(response.version(), version);
        assert_eq!(response.text().await.unwrap(), "hello\n");
        let response = client.get(program.url("/nothing")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
    }
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn a_client_that_keeps_the_server_waiting_is_cut_off() {
    let slow = "--header-within 1s --idle 1h";
    let no_pong = "--ping-every 300ms --pong-within 300ms --idle 1h";
    let half_a_head = &b"GET / HTTP/1.1\r\nHost: loc"[..];
    let http2 = [PREFACE, EMPTY_SETTINGS].concat();
    let no_drip = (&b""[..], MS);
    for (options, sent, (drip, pause), at_least, why) in [
        ("--idle 400ms", &b""[..], no_drip, 400, ""),
        ("--header-within 400ms", half_a_head, no_drip, 400, "header"),
        (slow, half_a_head, (b"x", 100 * MS), 1_000, "header"),
        // The whole of it would take four times as long as a head may take.
        (
            slow,
            b"",
            (PREFACE, 170 * MS),
            1_000,
            "no request was begun",
        ),
        (no_pong, &http2, no_drip, 600, "keep-alive"),
    ] {
        let program = serve(options).await;
        let start = Instant::now();
        let mut stream = program.send(sent).await;
        match drip {
            b"" => drop(read_to_end(&mut stream).await),
            _ => drop(drip_to_end(&mut stream, drip, pause).await),
        }
        assert!(start.elapsed() >= at_least * MS, "{options}");
        program.prints(&["closed", why]).await;
        program.shuts_down_with_nothing_armed().await;
    }
}

#[tokio::test]
async fn a_request_shorter_than_the_preface_begins_in_time() {
    let program = serve("--header-within 300ms --slow 1s").await;
    for (path, text) in [("/slow", "at last\n"), ("/", "hello\n")] {
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        let mut stream = program.send(request.as_bytes()).await;
        let answer = String::from_utf8(read_to_end(&mut stream).await).unwrap();
        assert!(answer.ends_with(text), "{answer}");
    }
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn an_http2_client_that_answers_pings_stays() {
    let program = serve("--ping-every 200ms --pong-within 3s --idle 1h").await;
    let client = client().http2_prior_knowledge().build().unwrap();
    client.get(program.url("/")).send().await.unwrap();
    sleep(4_000 * MS).await;
    client.get(program.url("/")).send().await.unwrap();
    program.shuts_down_with_nothing_armed().await;
    let lines = program.lines();
    let opened = lines.iter().filter(|line| line.contains("opened")).count();
    assert_eq!(opened, 1, "{lines:?}");
}

#[tokio::test]
async fn requests_in_flight_are_answered_before_the_end() {
    let program = serve("--slow 1s").await;
    let in_flight = client().build().unwrap().get(program.url("/slow")).send();
    let in_flight = tokio::spawn(in_flight);
    program.prints(&["GET /slow"]).await;
    program.shuts_down_with_nothing_armed().await;
    let response = in_flight.await.unwrap().unwrap();
    assert_eq!(response.text().await.unwrap(), "at last\n");
    assert!(TcpStream::connect(program.address()).await.is_err());
}

#[tokio::test]
async fn slow_requests_are_cut_off_at_the_end() {
    for client in [client(), client().http2_prior_knowledge()] {
        let program = serve("--slow 1h --shutdown-within 300ms").await;
        let in_flight = client.build().unwrap().get(program.url("/slow")).send();
        let in_flight = tokio::spawn(in_flight);
        program.prints(&["GET /slow"]).await;
        let start = Instant::now();
        program.terminate();
        assert!(in_flight.await.unwrap().is_err());
        assert!(start.elapsed() >= 300 * MS);
        let line = "shut down: some requests were cut off; 0 timers armed";
        program.prints(&[line]).await;
    }
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing_behind() {
    let program = serve("--slow 1h").await;
    let slow = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";
    for request in [&b""[..], b"GET", slow, PREFACE] {
        let stream = program.send(request).await;
        program.prints(&["opened"]).await;
        sleep(100 * MS).await;
        stream.set_zero_linger().unwrap();
        drop(stream);
        program.prints(&["closed"]).await;
    }
    program.shuts_down_with_nothing_armed().await;
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (option, value, code, hint) in [
        ("--idle", "0", 2, "30s"),
        // It is a value, and no unknown option.
        ("--idle", "-1", 2, "cannot be negative"),
        ("--idle", "", 2, "30s"),
        ("--idle", "soon", 2, "30s"),
        ("--idle", "3000000h", 2, "30s"),
        ("--idle", "99999999999999999999", 2, "30s"),
        ("--listen", "localhost", 2, "localhost:3000"),
        ("--listen", "127.0.0.1:99999", 2, "localhost:3000"),
        ("--listen", ":3000", 2, "localhost:3000"),
        ("--listen", &taken, 1, "another program listens"),
        (
            "--listen",
            "no-host.invalid:3000",
            1,
            "no-host.invalid:3000",
        ),
    ] {
        let output = Command::new(PROGRAM).args([option, value]).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{value}: {told}");
        assert!(told.contains(hint), "{value}: {told}");
        assert!(!told.contains("Os {"), "{told}");
    }
}

#[test]
fn output_that_is_cut_off_ends_it_without_a_panic() {
    let mut server = Command::new(PROGRAM)
        .args(["--listen", "localhost:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    stdout.read_line(&mut first).unwrap();
    drop(stdout);
    let address = first.trim().strip_prefix("listening on ").unwrap();
    // It tells of the connection, to nobody.
    let connected = std::net::TcpStream::connect(address).unwrap();
    let output = server.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(101), "it panicked");
    assert_eq!(output.stderr, b"");
    drop(connected);
}
