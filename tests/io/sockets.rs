//! Idle timeouts on real sockets, in real time, against peers that behave badly.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickwheel::io::{IdleTimeout, TimeoutStream};
use tickwheel::sleep;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional, split};
use tokio::net::{TcpListener, TcpStream};

use crate::{MS, SECOND, assert_nothing_armed, assert_timed_out};

const SHORT: Duration = Duration::from_millis(100);

/// Both ends of a connection over loopback.
pub(crate) async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(client, listener.accept());
    (accepted.unwrap().0, client.unwrap())
}

#[tokio::test]
async fn a_silent_peer_is_told_goodbye() {
    let (stream, mut peer) = connection().await;
    let start = Instant::now();
    let mut stream = IdleTimeout::new(stream, SHORT);
    assert_timed_out(stream.read_u8().await);
    assert!(start.elapsed() >= SHORT, "never early");
    stream.write_all(b"bye").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    peer.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "bye");
    drop(stream);
    assert_nothing_armed();
}

#[tokio::test]
async fn a_peer_that_sends_one_byte_a_second_stays() {
    let (stream, mut peer) = connection().await;
    let mut stream = IdleTimeout::new(stream, 10 * SECOND);
    let dripping = tokio::spawn(async move {
        for byte in 0..4 {
            tokio::time::sleep(SECOND).await;
            peer.write_u8(byte).await.unwrap();
        }
        peer
    });
    for byte in 0..4 {
        assert_eq!(stream.read_u8().await.unwrap(), byte);
    }
    stream.set_timeout(SHORT);
    assert_timed_out(stream.read_u8().await);
    drop((stream, dripping.await.unwrap()));
    assert_nothing_armed();
}

#[tokio::test]
async fn a_peer_that_never_reads_ends_the_writer() {
    let (stream, _peer) = connection().await;
    let start = Instant::now();
    let (mut reader, mut writer) = split(IdleTimeout::new(stream, SHORT));
    let reading = tokio::spawn(async move { reader.read_u8().await });
    let megabytes = vec![0; 64 << 20];
    assert_timed_out(writer.write_all(&megabytes).await);
    assert_timed_out(reading.await.unwrap());
    assert!(start.elapsed() >= SHORT, "never early");
    drop(writer);
    assert_nothing_armed();
}

#[tokio::test]
async fn a_half_close_does_not_end_the_other_half() {
    let (stream, mut peer) = connection().await;
    let mut stream = IdleTimeout::new(stream, SHORT);
    peer.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "the end, at once");
    stream.write_all(b"answer").await.unwrap();
    assert_eq!(peer.read(&mut [0; 16]).await.unwrap(), 6);
    // A thread that gets no processor for a while gives it a grace.
    while stream.handle().is_pending() {
        sleep(SHORT).await;
    }
    assert_eq!(
        stream.read(&mut [0]).await.unwrap(),
        0,
        "the end is ready, and wins"
    );
    assert!(!stream.handle().is_pending(), "the end pushes nothing back");
}

#[tokio::test]
async fn a_reset_by_the_peer_is_the_streams_own_error() {
    let (stream, peer) = connection().await;
    let mut stream = IdleTimeout::new(stream, 60 * SECOND);
    peer.set_zero_linger().unwrap();
    drop(peer);
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    drop(stream);
    assert_nothing_armed();
}

#[tokio::test]
async fn a_proxy_ends_when_both_sides_are_silent() {
    let (inbound, mut client) = connection().await;
    let (outbound, mut server) = connection().await;
    let start = Instant::now();
    let mut inbound = IdleTimeout::new(inbound, SECOND);
    let mut outbound = IdleTimeout::new(outbound, SECOND);
    let echo = tokio::spawn(async move {
        let mut bytes = [0; 64];
        while let Ok(length @ 1..) = server.read(&mut bytes).await {
            server.write_all(&bytes[..length]).await.unwrap();
        }
    });
    let talking = tokio::spawn(async move {
        for byte in 0..4 {
            client.write_u8(byte).await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), byte);
            tokio::time::sleep(50 * MS).await;
        }
        client
    });
    assert_timed_out(copy_bidirectional(&mut inbound, &mut outbound).await);
    assert!(start.elapsed() >= SECOND + 150 * MS, "never early");
    drop((inbound, outbound));
    drop(talking.await.unwrap());
    echo.await.unwrap();
    assert_nothing_armed();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_half_of_many_connections_is_told() {
    let megabytes = Arc::new(vec![0; 16 << 20]);
    let (mut halves, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let (stream, peer) = connection().await;
        let (mut reader, mut writer) = split(IdleTimeout::new(stream, SHORT));
        halves.push(tokio::spawn(async move {
            assert_timed_out(reader.read_u8().await);
        }));
        let megabytes = megabytes.clone();
        halves.push(tokio::spawn(async move {
            assert_timed_out(writer.write_all(&megabytes).await);
        }));
        peers.push(peer);
    }
    for half in halves {
        half.await.unwrap();
    }
    assert_nothing_armed();
}

#[tokio::test]
async fn reads_and_writes_have_times_of_their_own() {
    let (stream, mut peer) = connection().await;
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(SHORT));
    stream.set_write_timeout(Some(60 * SECOND));
    stream.write_all(b"request").await.unwrap();
    assert_eq!(peer.read(&mut [0; 16]).await.unwrap(), 7);
    let start = Instant::now();
    assert_timed_out(stream.read_u8().await);
    assert!(start.elapsed() >= SHORT, "never early");
    peer.write_u8(7).await.unwrap();
    assert_eq!(
        stream.read_u8().await.unwrap(),
        7,
        "late, and read all the same"
    );
    drop(stream);
    assert_nothing_armed();
}

/// The bytes come right after the stall: the process goes on, and then its peers' heartbeats do.
#[test]
fn a_stall_closes_no_live_connection() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut peers = Vec::new();
        let mut reads = tokio::task::JoinSet::new();
        for _ in 0..100 {
            let (stream, peer) = connection().await;
            peers.push(peer.into_std().unwrap());
            let mut stream = IdleTimeout::new(stream, 5 * SHORT);
            reads.spawn(async move { stream.read_u8().await });
        }
        let (silent, _silent_peer) = connection().await;
        let mut silent = IdleTimeout::new(silent, 5 * SHORT);
        tokio::task::yield_now().await;
        std::thread::sleep(10 * SHORT);
        let stalled_until = Instant::now();
        let sent = std::thread::spawn(move || {
            std::thread::sleep(20 * MS);
            for peer in &mut peers {
                std::io::Write::write_all(peer, &[7]).unwrap();
            }
            (peers, stalled_until.elapsed())
        });
        let mut outcomes = Vec::new();
        while let Some(outcome) = reads.join_next().await {
            outcomes.push(outcome.unwrap());
        }
        let (_peers, sent_after) = sent.join().unwrap();
        // A machine that takes most of the grace to send proves nothing.
        if sent_after < 2 * SHORT {
            for outcome in outcomes {
                assert_eq!(outcome.unwrap(), 7);
            }
        }
        assert_timed_out(silent.read_u8().await);
    });
}
