//! An idle timeout on sockets, against peers that behave badly. `tests/paused/io` has all that
//! needs no socket.

use std::io::{ErrorKind, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread;

use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional, split};
use tokio::net::{TcpListener, TcpStream};

use crate::common::{MS, SECOND, assert_nothing_armed, assert_timed_out};

const SHORT: Duration = Duration::from_millis(100);

/// Both ends of a connection over loopback.
async fn connection() -> (TcpStream, TcpStream) {
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
    let start = Instant::now();
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
    assert!(start.elapsed() >= SHORT, "never early");
    assert_nothing_armed();
}

/// The bytes come right after the stall: the process goes on, and then its peers' heartbeats do.
#[tokio::test]
async fn a_stall_closes_no_live_connection() {
    for _ in 0..20 {
        if live_connections_survive_a_stall().await {
            return;
        }
    }
    panic!("inconclusive: the machine is too slow");
}

/// Returns whether the stall came before the first connection was due, and the heartbeats within
/// the grace.
async fn live_connections_survive_a_stall() -> bool {
    let begun = Instant::now();
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
    let is_stalled_in_time = begun.elapsed() < 4 * SHORT;
    thread::sleep(10 * SHORT);
    let stalled_until = Instant::now();
    let sent = thread::spawn(move || {
        thread::sleep(20 * MS);
        for peer in &mut peers {
            peer.write_all(&[7]).unwrap();
        }
        (peers, stalled_until.elapsed())
    });
    let outcomes = reads.join_all().await;
    let (_peers, sent_after) = sent.join().unwrap();
    assert_timed_out(silent.read_u8().await);
    // Of a grace of 500 ms.
    let is_in_time = is_stalled_in_time && sent_after < 2 * SHORT;
    assert!(!is_in_time || outcomes.iter().all(|read| matches!(read, Ok(7))));
    is_in_time
}
