//! `IdleTimeout` after a direction was told of the expiry: what the other one is owed, and for how
//! long.

use std::pin::pin;

use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Instant, sleep};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex, split};
use tokio_test::{assert_pending, task};

use super::scripted::Scripted;
use super::{idle_of_a_second, read_times_out_in};
use crate::common::{MS, SECOND, assert_nothing_armed, assert_timed_out};

/// A stream on which a write has timed out while a read was owed the same. The read was dropped.
/// Either way takes eight bytes, and the way to the peer is full.
async fn owes_a_read() -> (IdleTimeout<DuplexStream>, DuplexStream) {
    let (mut stream, peer) = idle_of_a_second();
    assert_pending!(task::spawn(stream.read_u8()).poll());
    assert_timed_out(stream.write_all(b"more than eight").await);
    (stream, peer)
}

#[tokio::test(start_paused = true)]
async fn a_byte_moved_forgives_what_a_dropped_read_is_owed() {
    let (mut stream, mut peer) = owes_a_read().await;
    for pause in [5 * SECOND; 60].into_iter().chain([Duration::ZERO]) {
        peer.read_u8().await.unwrap();
        stream.write_u8(0).await.unwrap();
        sleep(pause).await;
    }
    assert_eq!(stream.handle().remaining(), Some(SECOND));
    read_times_out_in(SECOND, &mut stream).await;
    drop(stream);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_byte_moved_after_a_wait_and_a_restart_forgive_it_too() {
    let (mut stream, mut peer) = owes_a_read().await;
    let peer = tokio::spawn(async move {
        sleep(300 * MS).await;
        peer.read_u8().await.unwrap();
        peer
    });
    stream.write_u8(0).await.unwrap();
    let _peer = peer.await.unwrap();
    read_times_out_in(SECOND, &mut stream).await;

    let (mut stream, _peer) = owes_a_read().await;
    stream.restart();
    read_times_out_in(SECOND, &mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_after_a_copy_may_wait_for_its_answer() {
    let (inner, mut client) = duplex(4);
    let mut client_side = IdleTimeout::new(inner, SECOND);
    let (mut server_side, mut server) = duplex(64);
    server.write_all(b"more than four").await.unwrap();
    assert_timed_out(copy_bidirectional(&mut server_side, &mut client_side).await);

    let mut heard = [0; 4];
    client.read_exact(&mut heard).await.unwrap();
    tokio::spawn(async move {
        sleep(SECOND - MS).await;
        client.write_u8(7).await.unwrap();
    });
    client_side.write_all(b"bye").await.unwrap();
    assert_eq!(client_side.read_u8().await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_on_is_told_after_the_goodbye() {
    let io = Scripted::default();
    let (mut reader, mut writer) = split(IdleTimeout::new(io.clone(), SECOND));
    let start = Instant::now();
    let mut writing = task::spawn(writer.write_u8(0));
    assert_pending!(writing.poll());
    let mut reading = task::spawn(reader.read_u8());
    assert_pending!(reading.poll());
    sleep(SECOND).await;
    assert!(reading.is_woken());
    assert_timed_out(writing.await);

    io.script().writes.push_back(Ok(1));
    writer.write_u8(0).await.unwrap();
    assert_pending!(reading.poll(), "a byte was moved");
    assert_timed_out(reading.await);
    assert_eq!(start.elapsed(), 2 * SECOND);
    drop(writer);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_a_byte_forgives_nothing() {
    let mut stream = pin!(IdleTimeout::new(Scripted::default(), SECOND));
    assert_pending!(task::spawn(stream.read_u8()).poll());
    assert_timed_out(stream.write_u8(0).await);
    assert_pending!(task::spawn(stream.write_u8(0)).poll());
    read_times_out_in(Duration::ZERO, &mut stream).await;
}
