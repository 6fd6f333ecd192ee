//! The programs `ws_heartbeat` and `ws_ping_close`, by real WebSocket clients.

use std::time::{Duration, Instant};

use crate::process::{LONGEST_WAIT, Program};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

const PING_AFTER: Duration = Duration::from_millis(200);
/// Long enough for a client on a busy machine that answers.
const PONG_WITHIN: Duration = Duration::from_millis(1500);

fn start() -> Program {
    start_with(&[
        "--ping-after",
        "200",
        "--pong-within",
        "1500",
        "--missed",
        "2",
    ])
}

fn start_with(options: &[&str]) -> Program {
    Program::start(env!("CARGO_BIN_EXE_ws_heartbeat"), options)
}

async fn connect(program: &Program) -> WebSocketStream<TcpStream> {
    let stream = TcpStream::connect(program.address()).await.unwrap();
    let url = format!("ws://{}/", program.address());
    client_async(url, stream).await.unwrap().0
}

/// Reads until the server closes. A client that reads answers each ping.
async fn read_to_end(client: &mut WebSocketStream<TcpStream>) {
    while let Some(Ok(_)) = client.next().await {}
}

#[tokio::test]
async fn a_client_that_answers_pings_stays() {
    let program = start();
    let mut client = connect(&program).await;
    let more_than_two_misses = PING_AFTER + 2 * PONG_WITHIN + PONG_WITHIN;
    let closed = timeout(more_than_two_misses, read_to_end(&mut client)).await;
    assert!(closed.is_err(), "{closed:?}");
    client.send(Message::text("still here")).await.unwrap();
    loop {
        match timeout(LONGEST_WAIT, client.next()).await.unwrap() {
            Some(Ok(Message::Ping(_))) => {}
            echo => break assert_eq!(echo.unwrap().unwrap(), Message::text("still here")),
        }
    }
    client.close(None).await.unwrap();
    program.prints(&["by the client"]).await;
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_closed() {
    let program = start();
    let start = Instant::now();
    let mut client = connect(&program).await;
    // It reads nothing, so it answers nothing.
    let line = program.prints(&["closed"]).await;
    assert!(line.contains("missed 2 pongs"), "{line}");
    assert!(line.ends_with("; 0 open, 0 timers armed"), "{line}");
    let elapsed = start.elapsed();
    assert!(
        elapsed >= PING_AFTER + 2 * PONG_WITHIN,
        "{elapsed:?} is early"
    );
    // What it finds when it reads at last. The frames are read as they are, because a client that
    // answers a ping now only has the connection reset.
    let mut frames = Vec::new();
    client.get_mut().read_to_end(&mut frames).await.unwrap();
    assert_eq!(frames, b"\x89\0\x89\0\x88\x0e\x03\xf0no heartbeat");
}

#[tokio::test]
async fn a_client_that_misses_one_pong_now_and_then_stays() {
    let program = start_with(&[
        "--ping-after",
        "200",
        "--pong-within",
        "2s",
        "--missed",
        "2",
    ]);
    let mut client = connect(&program).await;
    for _ in 0..2 {
        // One pong is missed after 2.2 s, and the next one would be after 4.2 s.
        sleep(Duration::from_millis(3200)).await;
        let closed = timeout(Duration::from_millis(500), read_to_end(&mut client)).await;
        assert!(closed.is_err(), "one missed pong is forgiven");
    }
    client.close(None).await.unwrap();
    program
        .prints(&["by the client; 0 open, 0 timers armed"])
        .await;
}

#[tokio::test]
async fn a_client_that_sends_often_is_never_pinged() {
    let program = start_with(&["--ping-after", "3s", "--pong-within", "3s"]);
    let mut client = connect(&program).await;
    for _ in 0..45 {
        client.send(Message::text("busy")).await.unwrap();
        let echo = timeout(LONGEST_WAIT, client.next()).await.unwrap();
        assert_eq!(echo.unwrap().unwrap(), Message::text("busy"));
        sleep(Duration::from_millis(100)).await;
    }
    drop(client);
    program.lets_all_timers_go().await;
}

#[tokio::test]
async fn fragments_of_one_message_are_heartbeats() {
    let program = start();
    let mut client = connect(&program).await;
    let stream = client.get_mut();
    // One message in many frames of one byte, masked by zeros. Nothing that is sent is a pong.
    let end = Instant::now() + PING_AFTER + 3 * PONG_WITHIN;
    let mut opcode = 1;
    while Instant::now() < end {
        let frame = [opcode, 0x81, 0, 0, 0, 0, b'x'];
        stream.write_all(&frame).await.expect("it is open");
        opcode = 0;
        sleep(PING_AFTER / 4).await;
    }
    let open = timeout(PING_AFTER / 4, program.prints(&["closed"])).await;
    assert!(open.is_err(), "{open:?}");
    drop(client);
    program.lets_all_timers_go().await;
}

#[tokio::test]
async fn one_byte_a_second_is_no_handshake() {
    let program = start_with(&["--pong-within", "1s"]);
    let start = Instant::now();
    let mut stream = TcpStream::connect(program.address()).await.unwrap();
    let drip = async {
        for byte in b"GET / HTTP/1.1\r\n" {
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = drip => panic!("it is closed before"),
        line = program.prints(&["closed"]) => {
            assert!(line.contains("no handshake in time; 0 open, 0 timers armed"), "{line}");
        }
    }
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed() {
    let program = start_with(&["--pong-within", "300ms"]);
    let mut client = connect(&program).await;
    let flood = async {
        let large = Message::binary(vec![0; 1 << 20]);
        while client.send(large.clone()).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = flood => {}
        line = program.prints(&["closed"]) => {
            assert!(line.contains("the client does not read; 0 open, 0 timers armed"), "{line}");
        }
    }
}

#[tokio::test]
async fn clients_that_vanish_or_reset_leave_nothing_behind() {
    let program = start_with(&["--ping-after", "1h"]);
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect(&program).await);
    }
    for (number, client) in clients.into_iter().enumerate() {
        if number % 2 == 0 {
            client.get_ref().set_zero_linger().unwrap();
        }
        drop(client);
    }
    program.lets_all_timers_go().await;
}

#[tokio::test]
async fn a_client_that_half_closes_is_let_go() {
    let program = start_with(&["--ping-after", "1h"]);
    let mut client = connect(&program).await;
    client.get_mut().shutdown().await.unwrap();
    let mut rest = Vec::new();
    let end = timeout(LONGEST_WAIT, client.get_mut().read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the server closes its side too");
    program.lets_all_timers_go().await;
}

fn start_ping_close() -> Program {
    let options = ["--close-after", "2s", "--ping-before", "1500ms"];
    Program::start(env!("CARGO_BIN_EXE_ws_ping_close"), &options)
}

#[tokio::test]
async fn ping_close_keeps_a_client_that_answers_pings() {
    let program = start_ping_close();
    let mut client = connect(&program).await;
    let closed = timeout(Duration::from_secs(5), read_to_end(&mut client)).await;
    assert!(closed.is_err(), "{closed:?}");
    client.close(None).await.unwrap();
    program.prints(&["by the client"]).await;
}

#[tokio::test]
async fn ping_close_pings_a_silent_client_once_and_closes_it() {
    let program = start_ping_close();
    let start = Instant::now();
    let mut client = connect(&program).await;
    program
        .prints(&["it answered no ping; 0 open, 0 timers armed"])
        .await;
    assert!(start.elapsed() >= Duration::from_secs(2));
    let mut frames = Vec::new();
    client.get_mut().read_to_end(&mut frames).await.unwrap();
    assert_eq!(frames, b"\x89\0\x88\0");
}
