//! The program `axum_idle`, by reqwest and by clients that behave badly.

use std::time::{Duration, Instant};

use crate::process::{LONGEST_WAIT, Program, drip_to_end, read_to_end};
use reqwest::{Client, StatusCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

fn start(options: &[&str]) -> Program {
    Program::start(env!("CARGO_BIN_EXE_axum_idle"), options)
}

fn client() -> Client {
    let client = Client::builder().no_proxy().timeout(LONGEST_WAIT);
    client.build().unwrap()
}

#[tokio::test]
async fn requests_are_answered() {
    let program = start(&["--slow", "100ms"]);
    let client = client();
    for (path, text) in [("/", "hello\n"), ("/slow", "at last\n")] {
        let response = client.get(program.url(path)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.text().await.unwrap(), text);
    }
    let upload = client.post(program.url("/upload")).body(vec![0; 1 << 20]);
    let response = upload.send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "1048576 bytes\n");
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn http2_is_answered_too() {
    let program = start(&["--request-within", "300ms"]);
    let client = Client::builder().no_proxy().http2_prior_knowledge();
    let client = client.timeout(LONGEST_WAIT).build().unwrap();
    let (hanging, quick) = tokio::join!(
        client.get(program.url("/hangs")).send(),
        client.get(program.url("/")).send(),
    );
    assert_eq!(hanging.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    let quick = quick.unwrap();
    assert_eq!(
        (quick.status(), quick.version()),
        (StatusCode::OK, Version::HTTP_2)
    );
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn a_handler_that_hangs_is_answered_for() {
    let program = start(&["--request-within", "300ms"]);
    let client = client();
    let start = Instant::now();
    let response = client.get(program.url("/hangs")).send().await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.text().await.unwrap(), "this took too long\n");
    // The connection is as good as before.
    let response = client.get(program.url("/")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    program.terminate();
    let lines = program
        .prints_up_to(&["shut down: all requests were answered; 0 timers armed"])
        .await;
    let opened = lines.iter().filter(|line| line.contains("opened")).count();
    assert_eq!(opened, 1, "one connection: {lines:?}");
}

#[tokio::test]
async fn a_connection_that_is_kept_alive_and_not_used_is_ended() {
    let program = start(&["--idle", "500ms", "--request-within", "400ms"]);
    let mut stream = program.connect().await;
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = [0; 1];
    stream.read_exact(&mut answer).await.unwrap();
    let last_byte_before = Instant::now();
    stream.write_all(request).await.unwrap();
    let answers = String::from_utf8(read_to_end(&mut stream).await).unwrap();
    assert!(last_byte_before.elapsed() >= Duration::from_millis(500));
    assert_eq!(answers.matches("hello").count(), 2, "{answers}");
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn a_head_byte_by_byte_does_not_stop_the_shutdown() {
    let program = start(&["--header-within", "1h", "--shutdown-within", "300ms"]);
    let mut stream = program.connect().await;
    let head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ";
    stream.write_all(head).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    program.terminate();
    tokio::join!(
        drip_to_end(&mut stream, b"x", Duration::from_millis(100)),
        program.prints(&["shut down: some requests were cut off; 0 timers armed"]),
    );
}

#[tokio::test]
async fn an_upload_that_stops_breaks_off() {
    let program = start(&["--idle", "500ms", "--request-within", "1h"]);
    let mut stream = program.connect().await;
    let head = b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
    stream.write_all(head).await.unwrap();
    stream.write_all(b"some of it").await.unwrap();
    read_to_end(&mut stream).await;
    program
        .prints(&["an upload broke off after 10 bytes"])
        .await;
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn an_upload_byte_by_byte_is_bounded_as_a_request() {
    let program = start(&["--idle", "1h", "--request-within", "1s"]);
    let start = Instant::now();
    let mut stream = program.connect().await;
    let head = b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let (mut read, mut write) = stream.split();
    let drip = async {
        while write.write_all(b".").await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
        std::future::pending::<()>().await;
    };
    let mut status = [0; 12];
    let answer = timeout(LONGEST_WAIT, async {
        tokio::select! {
            () = drip => unreachable!("it goes on"),
            read = read.read_exact(&mut status) => read,
        }
    });
    answer.await.unwrap().unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(&status, b"HTTP/1.1 503");
    drop(stream);
    program.shuts_down_with_nothing_armed().await;
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing_behind() {
    let program = start(&["--idle", "1h", "--request-within", "1h"]);
    let hangs = b"GET /hangs HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for request in [&b""[..], b"GET /", hangs] {
        let mut stream = program.connect().await;
        program.prints(&["opened"]).await;
        stream.write_all(request).await.unwrap();
        sleep(Duration::from_millis(100)).await;
        stream.set_zero_linger().unwrap();
    }
    program.shuts_down_with_nothing_armed().await;
}
