//! Timeouts on sockets, against peers that behave badly.

use std::io::{ErrorKind, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tickwheel::io::{IdleTimeout, TimeoutStream};
use tickwheel::{Duration, Instant, sleep};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy_bidirectional, split};
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
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "the end wins");
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
    assert_eq!(stream.read_u8().await.unwrap(), 7, "late, and read");
    drop(stream);
    assert_nothing_armed();
}

/// The bytes come right after the stall: the process goes on, and then its peers' heartbeats do.
#[tokio::test]
async fn a_stall_closes_no_live_connection() {
    for _ in 0..3 {
        if live_connections_survive_a_stall().await {
            return;
        }
    }
    panic!("inconclusive: the machine is too slow");
}

/// Returns whether the heartbeats were sent within the grace.
async fn live_connections_survive_a_stall() -> bool {
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
    let is_in_time = sent_after < 2 * SHORT;
    assert!(!is_in_time || outcomes.iter().all(|read| matches!(read, Ok(7))));
    is_in_time
}

/// More connections than a task has budget for, and fewer than a process may have open.
const CONNECTIONS: usize = 300;

async fn very_many_connections() -> (Vec<TcpStream>, Vec<TcpStream>) {
    let _ = rlimit::increase_nofile_limit(4 * CONNECTIONS as u64);
    let (mut streams, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let (stream, peer) = connection().await;
        streams.push(stream);
        peers.push(peer);
    }
    (streams, peers)
}

/// Many reads wait in the test's task. Bytes come in time for each of them, and then the thread
/// stalls for longer than their timeout. If the machine was too busy to send them in time, it tries
/// again.
async fn assert_bytes_win_after_a_stall<S>(wrap: impl Fn(TcpStream) -> S)
where
    S: AsyncRead + Unpin,
{
    while !bytes_win_after_a_stall(&wrap).await {}
    assert_nothing_armed();
}

/// Gives whether the bytes were sent in time.
async fn bytes_win_after_a_stall<S>(wrap: impl Fn(TcpStream) -> S) -> bool
where
    S: AsyncRead + Unpin,
{
    let (streams, peers) = very_many_connections().await;
    let peers = peers.into_iter().map(|peer| peer.into_std().unwrap());
    let mut peers: Vec<_> = peers.collect();
    let start = Instant::now();
    let mut streams: Vec<_> = streams.into_iter().map(wrap).collect();
    let bytes_and_a_stall = tokio::spawn(async move {
        // It never yields, so nothing is read before the stall.
        for peer in &mut peers {
            assert_eq!(peer.write(&[7]).unwrap(), 1);
        }
        let in_time = start.elapsed() < 2 * SHORT;
        thread::sleep(10 * SHORT);
        (peers, in_time)
    });
    let mut reads: FuturesUnordered<_> = streams.iter_mut().map(S::read_u8).collect();
    let mut timed_out = 0;
    while let Some(read) = reads.next().await {
        timed_out += usize::from(read.is_err());
    }
    let (_peers, in_time) = bytes_and_a_stall.await.unwrap();
    assert!(!in_time || timed_out == 0, "{timed_out} timed out");
    in_time
}

#[tokio::test]
async fn bytes_on_many_sockets_in_one_task_win_over_an_idle_timeout() {
    assert_bytes_win_after_a_stall(|stream| IdleTimeout::new(stream, 2 * SHORT)).await;
}

#[tokio::test]
async fn bytes_on_many_sockets_in_one_task_win_over_a_read_timeout() {
    assert_bytes_win_after_a_stall(|stream| {
        let mut stream = TimeoutStream::new(stream);
        stream.set_read_timeout(Some(2 * SHORT));
        stream
    })
    .await;
}

#[tokio::test]
async fn silent_sockets_in_one_task_all_time_out() {
    let (streams, _peers) = very_many_connections().await;
    let reads = streams.into_iter().map(async |stream| {
        let mut stream = IdleTimeout::new(stream, 2 * SHORT);
        stream.read_u8().await
    });
    for read in futures::future::join_all(reads).await {
        assert_timed_out(read);
    }
    assert_nothing_armed();
}
