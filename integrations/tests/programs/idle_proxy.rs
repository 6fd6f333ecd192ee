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
        let program = start_to(upstream.local_addr().unwrap(), idle);
        Proxy { program, upstream }
    }

    /// Both ends of a connection through the proxy.
    async fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.program.address()).await.unwrap();
        let accepting = timeout(LONGEST_WAIT, self.upstream.accept()).await;
        (client, accepting.unwrap().unwrap().0)
    }
}

fn start_to(upstream: SocketAddr, idle: &str) -> Program {
    let upstream = upstream.to_string();
    let options = ["--to", &upstream, "--idle", idle];
    Program::start(env!("CARGO_BIN_EXE_idle_proxy"), &options)
}

#[tokio::test]
async fn bytes_pass_both_ways() {
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
    let line = proxy.program.prints(&["closed"]).await;
    let expected = "by both sides, 1048576 bytes up and 1048576 down; 0 open, 0 timers armed";
    assert!(line.contains(expected), "{line}");
}

#[tokio::test]
async fn a_connection_on_which_nothing_passes_is_ended() {
    let idle = Duration::from_millis(500);
    let proxy = Proxy::start("500ms").await;
    let (mut client, mut upstream) = proxy.connect().await;
    client.write_all(b"ping").await.unwrap();
    let mut request = [0; 4];
    upstream.read_exact(&mut request).await.unwrap();
    let last_byte = Instant::now();
    upstream.write_all(b"pong").await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"pong");
    let elapsed = last_byte.elapsed();
    assert!(elapsed >= idle, "{elapsed:?} is early");
    assert_eq!(read_to_end(&mut upstream).await, b"");
    let line = proxy.program.prints(&["closed"]).await;
    assert!(
        line.contains("idle for 500ms; 0 open, 0 timers armed"),
        "{line}"
    );
}

#[tokio::test]
async fn a_byte_now_and_then_holds_a_connection_open() {
    let proxy = Proxy::start("2s").await;
    // In one direction only: it holds the other one open too.
    let (mut client, mut upstream) = proxy.connect().await;
    for _ in 0..25 {
        client.write_all(b".").await.unwrap();
        let mut byte = [0];
        upstream.read_exact(&mut byte).await.unwrap();
        sleep(Duration::from_millis(200)).await;
    }
    upstream.write_all(b"still here").await.unwrap();
    upstream.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"still here");
    drop((client, upstream));
    proxy.program.lets_all_timers_go().await;
}

#[tokio::test]
async fn a_client_that_never_reads_is_ended() {
    let proxy = Proxy::start("300ms").await;
    let (client, mut upstream) = proxy.connect().await;
    let flood = async { while upstream.write_all(&[0; 1 << 16]).await.is_ok() {} };
    timeout(LONGEST_WAIT, flood)
        .await
        .expect("the upstream is let go");
    let line = proxy.program.prints(&["closed"]).await;
    assert!(
        line.contains("idle for 300ms; 0 open, 0 timers armed"),
        "{line}"
    );
    drop(client);
}

#[tokio::test]
async fn an_upstream_that_never_reads_is_ended() {
    let proxy = Proxy::start("300ms").await;
    let (mut client, upstream) = proxy.connect().await;
    let flood = async { while client.write_all(&[0; 1 << 16]).await.is_ok() {} };
    timeout(LONGEST_WAIT, flood)
        .await
        .expect("the client is let go");
    let line = proxy.program.prints(&["closed"]).await;
    assert!(
        line.contains("idle for 300ms; 0 open, 0 timers armed"),
        "{line}"
    );
    drop(upstream);
}

#[tokio::test]
async fn a_half_that_is_closed_leaves_the_other_open() {
    let proxy = Proxy::start("10s").await;
    let (mut client, mut upstream) = proxy.connect().await;
    client.write_all(b"the whole request").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut upstream).await, b"the whole request");
    sleep(Duration::from_millis(300)).await;
    upstream.write_all(b"the answer").await.unwrap();
    drop(upstream);
    assert_eq!(read_to_end(&mut client).await, b"the answer");
    proxy.program.lets_all_timers_go().await;
}

#[tokio::test]
async fn a_half_that_stays_open_is_ended_when_it_is_idle() {
    let proxy = Proxy::start("300ms").await;
    let (mut client, mut upstream) = proxy.connect().await;
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut upstream).await, b"");
    assert_eq!(
        read_to_end(&mut client).await,
        b"",
        "the upstream says nothing"
    );
    proxy.program.lets_all_timers_go().await;
}

#[tokio::test]
async fn clients_that_reset_leave_nothing_behind() {
    let proxy = Proxy::start("1h").await;
    let mut connections = Vec::new();
    for _ in 0..20 {
        connections.push(proxy.connect().await);
    }
    for (client, mut upstream) in connections {
        client.set_zero_linger().unwrap();
        drop(client);
        assert_eq!(read_to_end(&mut upstream).await, b"");
    }
    proxy.program.lets_all_timers_go().await;
}

#[tokio::test]
async fn without_an_upstream_the_client_is_let_go() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let program = start_to(nobody.local_addr().unwrap(), "1h");
    drop(nobody);
    let mut client = TcpStream::connect(program.address()).await.unwrap();
    assert_eq!(read_to_end(&mut client).await, b"");
    let line = program.prints(&["closed"]).await;
    assert!(line.contains("no upstream: "), "{line}");
    assert!(line.ends_with("; 0 open, 0 timers armed"), "{line}");
}

#[tokio::test]
async fn a_timeout_of_nearly_nothing_hangs_nobody() {
    let proxy = Proxy::start("1us").await;
    let (mut client, mut upstream) = proxy.connect().await;
    assert_eq!(read_to_end(&mut client).await, b"");
    assert_eq!(read_to_end(&mut upstream).await, b"");
    proxy.program.lets_all_timers_go().await;
}
