//! The program `ws_heartbeat`, by real WebSocket clients.

use std::time::{Duration, Instant};

use crate::process::{LONGEST_WAIT, Program, drip_to_end};
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

const OPTIONS: &str = "--ping-after 200 --pong-within 1500 --missed 2";
const PING_AFTER: Duration = Duration::from_millis(200);
/// Long enough for a client on a busy machine that answers.
const PONG_WITHIN: Duration = Duration::from_millis(1500);

async fn serve(options: &str) -> Program {
    let options: Vec<_> = options.split_whitespace().collect();
    Program::serve(env!("CARGO_BIN_EXE_ws_heartbeat"), &options).await
}

async fn connect(program: &Program) -> WebSocketStream<TcpStream> {
    let stream = program.connect().await;
    let url = format!("ws://{}/", program.address());
    client_async(url, stream).await.unwrap().0
}

/// Reads until the server closes. A client that reads answers each ping.
async fn read_to_end(client: &mut WebSocketStream<TcpStream>) {
    while let Some(Ok(_)) = client.next().await {}
}

#[tokio::test]
async fn a_client_that_answers_pings_stays() {
    let program = serve(OPTIONS).await;
    let mut client = connect(&program).await;
    let more_than_two_misses = PING_AFTER + 2 * PONG_WITHIN + PONG_WITHIN;
    let closed = timeout(more_than_two_misses, read_to_end(&mut client)).await;
    assert!(closed.is_err(), "{closed:?}");
    client.close(None).await.unwrap();
    program.prints(&["by the client"]).await;
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_closed() {
    let program = serve(OPTIONS).await;
    let start = Instant::now();
    let mut client = connect(&program).await;
    // It reads nothing, so it answers nothing.
    program.closes("missed 2 pongs").await;
    let elapsed = start.elapsed();
    let earliest = PING_AFTER + 2 * PONG_WITHIN;
    assert!(elapsed >= earliest, "{elapsed:?} is early");
    // What it finds when it reads at last. The frames are read as they are, because a client that
    // answers a ping now only has the connection reset.
    let mut frames = Vec::new();
    client.get_mut().read_to_end(&mut frames).await.unwrap();
    assert_eq!(frames, b"\x89\0\x89\0\x88\x0e\x03\xf0no heartbeat");
}

#[tokio::test]
async fn a_client_that_misses_one_pong_now_and_then_stays() {
    let program = serve("--ping-after 200 --pong-within 2s --missed 2").await;
    let mut client = connect(&program).await;
    for _ in 0..2 {
        // One pong is missed after 2.2 s, and the next one would be after 4.2 s.
        sleep(Duration::from_millis(3200)).await;
        let closed = timeout(Duration::from_millis(500), read_to_end(&mut client)).await;
        assert!(closed.is_err(), "one missed pong is forgiven");
    }
    client.close(None).await.unwrap();
    program.closes("by the client").await;
}

#[tokio::test]
async fn a_client_that_sends_often_is_never_pinged() {
    let program = serve("--ping-after 3s --pong-within 3s").await;
    let mut client = connect(&program).await;
    for _ in 0..45 {
        client.send(Message::text("busy")).await.unwrap();
        let echo = timeout(LONGEST_WAIT, client.next()).await.unwrap();
        assert_eq!(echo.unwrap().unwrap(), Message::text("busy"));
        sleep(Duration::from_millis(100)).await;
    }
    drop(client);
    program.closes("").await;
}

#[tokio::test]
async fn fragments_of_one_message_are_heartbeats() {
    let program = serve(OPTIONS).await;
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
    program.closes("").await;
}

#[tokio::test]
async fn one_byte_a_second_is_no_handshake() {
    let program = serve("--pong-within 1s").await;
    let start = Instant::now();
    let mut stream = program.connect().await;
    drip_to_end(&mut stream, b"GET / HTTP/1.1\r\n", Duration::from_secs(1)).await;
    program.closes("no handshake in time").await;
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed() {
    let program = serve("--pong-within 300ms").await;
    let mut client = connect(&program).await;
    let flood = async {
        let large = Message::binary(vec![0; 1 << 20]);
        while client.send(large.clone()).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = flood => {}
        () = program.closes("the client does not read") => {}
    }
}

#[tokio::test]
async fn clients_that_vanish_reset_or_half_close_leave_nothing_behind() {
    let program = serve("--ping-after 1h").await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(connect(&program).await);
    }
    let mut half_closed = clients.pop().unwrap();
    for (number, client) in clients.into_iter().enumerate() {
        if number % 2 == 0 {
            client.get_ref().set_zero_linger().unwrap();
        }
        drop(client);
    }
    half_closed.get_mut().shutdown().await.unwrap();
    let mut rest = Vec::new();
    let end = half_closed.get_mut().read_to_end(&mut rest);
    let end = timeout(LONGEST_WAIT, end).await;
    assert!(end.is_ok(), "the server closes its side too");
    program.closes("").await;
}
