//! The program `idle_proxy`, between real sockets.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::process::{LONGEST_WAIT, Program, read_to_end};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// An upstream that this test plays itself, and a proxy to it.
struct Proxy {
    program: Program,
    upstream: TcpListener,
}

impl Proxy {
    async fn start(idle: &str) -> Proxy {
        let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let program = start_to(upstream.local_addr().unwrap(), idle).await;
        Proxy { program, upstream }
    }

    /// Both ends of a connection through the proxy.
    async fn connect(&self) -> (TcpStream, TcpStream) {
        let client = self.program.connect().await;
        let accepting = timeout(LONGEST_WAIT, self.upstream.accept()).await;
        (client, accepting.unwrap().unwrap().0)
    }
}

async fn start_to(upstream: SocketAddr, idle: &str) -> Program {
    let upstream = upstream.to_string();
    let options = ["--to", &upstream, "--idle", idle];
    Program::serve(env!("CARGO_BIN_EXE_idle_proxy"), &options).await
}

#[tokio::test]
async fn a_megabyte_comes_back_whole() {
    let proxy = Proxy::start("1h").await;
    let (mut client, mut upstream) = proxy.connect().await;
    let echo = tokio::spawn(async move {
        let (mut read, mut write) = upstream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap()
    });
    let sent: Vec<u8> = (0..1 << 20).map(|i: u32| (i * 31) as u8).collect();
    let (mut read, mut write) = client.split();
    let send = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut received = Vec::new();
    let (_, end) = tokio::join!(send, read.read_to_end(&mut received));
    end.unwrap();
    assert!(received == sent, "what arrives is what was sent");
    assert_eq!(echo.await.unwrap(), 1 << 20);
    let passed = "by both sides, 1048576 bytes up and 1048576 down";
    proxy.program.closes(passed).await;
}

#[tokio::test]
async fn a_connection_on_which_nothing_passes_is_ended() {
    let proxy = Proxy::start("500ms").await;
    let (mut client, mut upstream) = proxy.connect().await;
    client.write_all(b"ping").await.unwrap();
    upstream.read_exact(&mut [0; 4]).await.unwrap();
    let last_byte = Instant::now();
    upstream.write_all(b"pong").await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"pong");
    let elapsed = last_byte.elapsed();
    assert!(elapsed >= Duration::from_millis(500), "{elapsed:?}");
    assert_eq!(read_to_end(&mut upstream).await, b"");
    proxy.program.closes("idle for 500ms").await;
}

#[tokio::test]
async fn a_byte_now_and_then_holds_a_connection_open() {
    let proxy = Proxy::start("2s").await;
    // In one direction only: it holds the other one open too.
    let (mut client, mut upstream) = proxy.connect().await;
    for _ in 0..25 {
        client.write_all(b".").await.unwrap();
        upstream.read_exact(&mut [0]).await.unwrap();
        sleep(Duration::from_millis(200)).await;
    }
    upstream.write_all(b"still here").await.unwrap();
    upstream.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"still here");
    drop((client, upstream));
    proxy.program.closes("").await;
}

#[tokio::test]
async fn a_side_that_never_reads_is_ended() {
    let proxy = Proxy::start("300ms").await;
    for client_reads in [false, true] {
        let (client, upstream) = proxy.connect().await;
        let (_silent, mut floods) = match client_reads {
            false => (client, upstream),
            true => (upstream, client),
        };
        let flood = async { while floods.write_all(&[0; 1 << 16]).await.is_ok() {} };
        let flood = timeout(LONGEST_WAIT, flood).await;
        flood.expect("who writes is let go");
        proxy.program.closes("idle for 300ms").await;
    }
}

#[tokio::test]
async fn a_half_that_is_closed_leaves_the_other_open_until_it_is_idle() {
    let proxy = Proxy::start("4s").await;
    for answer in [&b"the answer"[..], b""] {
        let (mut client, mut upstream) = proxy.connect().await;
        client.write_all(b"the whole request").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read_to_end(&mut upstream).await, b"the whole request");
        if !answer.is_empty() {
            sleep(Duration::from_millis(300)).await;
            upstream.write_all(answer).await.unwrap();
            upstream.shutdown().await.unwrap();
        }
        assert_eq!(read_to_end(&mut client).await, answer);
        proxy.program.closes("").await;
    }
}

#[tokio::test]
async fn without_an_upstream_the_client_is_let_go() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let program = start_to(nobody.local_addr().unwrap(), "1h").await;
    drop(nobody);
    let mut client = program.connect().await;
    assert_eq!(read_to_end(&mut client).await, b"");
    program.closes("no upstream: ").await;
}
