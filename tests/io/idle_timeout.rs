//! `IdleTimeout` polled by one task, under the paused clock.

use std::future::Future;
use std::io::{ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::thread;

use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Instant, Timer, sleep};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex};
use tokio_test::{assert_pending, assert_ready, task};

use crate::scripted::Scripted;
use crate::{HOUR, MS, SECOND, assert_cancelled, assert_nothing_armed, assert_timed_out};

/// A stream with an idle timeout of a second, and its peer. Either way takes eight bytes.
fn idle_of_a_second() -> (IdleTimeout<DuplexStream>, DuplexStream) {
    let (stream, peer) = duplex(8);
    (IdleTimeout::new(stream, SECOND), peer)
}

#[tokio::test(start_paused = true)]
async fn a_read_times_out_when_the_peer_is_silent() {
    let start = Instant::now();
    let (mut stream, _peer) = idle_of_a_second();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
    drop(stream);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_write_times_out_when_the_peer_never_reads() {
    let start = Instant::now();
    let (mut stream, _peer) = idle_of_a_second();
    sleep(400 * MS).await;
    assert_timed_out(stream.write_all(b"more than eight").await);
    assert_eq!(start.elapsed(), 1400 * MS, "eight bytes went at first");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_sends_one_byte_at_a_time_stays() {
    let (mut stream, mut peer) = idle_of_a_second();
    let dripping = tokio::spawn(async move {
        for byte in 0..100 {
            sleep(999 * MS).await;
            peer.write_u8(byte).await.unwrap();
        }
        peer
    });
    for byte in 0..100 {
        assert_eq!(stream.read_u8().await.unwrap(), byte);
    }
    let (start, _peer) = (Instant::now(), dripping.await.unwrap());
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn bytes_written_push_back_a_read_that_waits() {
    let start = Instant::now();
    let (stream, mut peer) = idle_of_a_second();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reading = tokio::spawn(async move { (reader.read_u8().await, Instant::now()) });
    tokio::spawn(async move { while peer.read_u8().await.is_ok() {} });
    for _ in 0..10 {
        sleep(900 * MS).await;
        writer.write_u8(0).await.unwrap();
    }
    let (result, end) = reading.await.unwrap();
    assert_timed_out(result);
    assert_eq!(end - start, 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn results_without_a_byte_push_nothing_back() {
    let io = Scripted::default();
    let mut stream = pin!(IdleTimeout::new(io.clone(), SECOND));
    sleep(600 * MS).await;
    io.script()
        .reads
        .extend([Ok(0), Err(ErrorKind::Other.into())]);
    io.script()
        .writes
        .extend([Ok(0), Ok(0), Err(ErrorKind::Other.into())]);
    io.script().flushes.push_back(Ok(()));
    io.script().shutdowns.push_back(Ok(()));
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(stream.write(&[]).await.unwrap(), 0);
    assert_eq!(stream.write_vectored(&[]).await.unwrap(), 0);
    stream.flush().await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(
        stream.read(&mut [0]).await.unwrap_err().kind(),
        ErrorKind::Other
    );
    assert_eq!(
        stream.write(&[0]).await.unwrap_err().kind(),
        ErrorKind::Other
    );
    assert_eq!(stream.handle().remaining(), Some(400 * MS));
}

#[tokio::test(start_paused = true)]
async fn every_operation_that_hangs_times_out() {
    let io = Scripted::default();
    for operation in ["read", "write", "write_vectored", "flush", "shutdown"] {
        let start = Instant::now();
        let mut stream = pin!(IdleTimeout::new(io.clone(), SECOND));
        assert_timed_out(match operation {
            "read" => stream.read(&mut [0]).await.map(drop),
            "write" => stream.write(&[0]).await.map(drop),
            "write_vectored" => stream.write_vectored(&[IoSlice::new(&[0])]).await.map(drop),
            "flush" => stream.flush().await,
            _ => stream.shutdown().await,
        });
        assert_eq!(start.elapsed(), SECOND, "{operation}");
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn vectored_writes_are_passed_through() {
    use tokio::io::AsyncWrite;

    let io = Scripted::default();
    let mut stream = pin!(IdleTimeout::new(io.clone(), SECOND));
    assert!(stream.is_write_vectored());
    let (plain, _peer) = duplex(1);
    assert_eq!(
        IdleTimeout::new(plain, SECOND).is_write_vectored(),
        duplex(1).0.is_write_vectored()
    );

    sleep(600 * MS).await;
    io.script().writes.push_back(Ok(2));
    let bufs = [IoSlice::new(b"a"), IoSlice::new(b"b")];
    assert_eq!(stream.write_vectored(&bufs).await.unwrap(), 2);
    assert_eq!(io.script().vectored_writes, 1);
    assert_eq!(
        stream.handle().remaining(),
        Some(SECOND),
        "it counts as bytes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_can_be_written_after_the_timeout() {
    let (mut stream, mut peer) = idle_of_a_second();
    assert_timed_out(stream.read_u8().await);
    assert_nothing_armed();
    stream.write_all(b"bye").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    peer.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "bye");
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_has_the_whole_timeout_again() {
    let (mut stream, _peer) = idle_of_a_second();
    assert_timed_out(stream.read_u8().await);
    sleep(10 * SECOND).await;
    let start = Instant::now();
    assert_timed_out(stream.write_all(b"more than eight").await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_goes_on_after_the_timeout_is_as_new() {
    let (mut stream, mut peer) = idle_of_a_second();
    for _ in 0..3 {
        let start = Instant::now();
        assert_timed_out(stream.read_u8().await);
        assert_eq!(start.elapsed(), SECOND);
        assert!(!stream.handle().is_pending());
    }
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    assert_eq!(stream.handle().remaining(), Some(SECOND));
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_ready_win_over_a_passed_deadline() {
    let (mut stream, mut peer) = idle_of_a_second();
    peer.write_all(b"ab").await.unwrap();
    sleep(HOUR).await;
    assert_eq!(
        stream.read_u8().await.unwrap(),
        b'a',
        "read late, sent in time"
    );
    assert_eq!(stream.handle().remaining(), Some(SECOND), "it starts anew");
    sleep(HOUR).await;
    stream.write_u8(0).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'b');
    let start = Instant::now();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_unseen_is_told_at_once() {
    let (mut stream, _peer) = idle_of_a_second();
    sleep(HOUR).await;
    let start = Instant::now();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn zero_lets_pass_only_what_need_not_wait() {
    let (stream, mut peer) = duplex(8);
    let mut stream = IdleTimeout::new(stream, Duration::ZERO);
    let start = Instant::now();
    peer.write_all(b"ab").await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'a');
    assert_eq!(stream.read_u8().await.unwrap(), b'b');
    for _ in 0..3 {
        assert_timed_out(stream.read_u8().await);
        stream.write_u8(0).await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_longest_duration_never_times_out() {
    let (stream, mut peer) = duplex(8);
    let mut stream = IdleTimeout::new(stream, Duration::MAX);
    assert_eq!(stream.timeout(), Duration::MAX);
    tokio::spawn(async move {
        sleep(100_000 * HOUR).await;
        peer.write_u8(7).await.unwrap();
        peer
    });
    assert_eq!(stream.read_u8().await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_can_be_changed_while_a_read_waits() {
    let start = Instant::now();
    let (stream, _peer) = idle_of_a_second();
    let handle = stream.handle();
    tokio::spawn(async move {
        sleep(900 * MS).await;
        assert!(handle.set_timeout(5 * SECOND));
        sleep(SECOND).await;
        assert!(handle.set_timeout(3 * SECOND));
    });
    let mut stream = stream;
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), 3 * SECOND, "counts from the last byte");
    stream.set_timeout(2 * SECOND);
    assert_eq!(stream.timeout(), 2 * SECOND);
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn another_task_resets_and_expires_through_the_handle() {
    let start = Instant::now();
    let (mut stream, _peer) = idle_of_a_second();
    let handle = stream.handle();
    tokio::spawn(async move {
        for _ in 0..4 {
            sleep(900 * MS).await;
            assert!(handle.reset());
        }
        sleep(100 * MS).await;
        assert!(handle.expire());
    });
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), 3700 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_stream_waits_for_nothing() {
    let (mut stream, mut peer) = idle_of_a_second();
    let handle = stream.handle();
    tokio::spawn(async move {
        sleep(100 * MS).await;
        assert!(handle.cancel());
    });
    assert!(!assert_cancelled(stream.read_u8().await).is_shutdown());
    stream.write_all(b"bye").await.unwrap();
    assert_cancelled(stream.write_all(b"more than eight").await);
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7, "what is ready passes");
    assert_cancelled(stream.read_u8().await);
    assert_nothing_armed();

    let start = Instant::now();
    stream.restart();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn restart_forgives_an_expiry_that_was_not_told() {
    let (stream, _peer) = idle_of_a_second();
    let mut stream = pin!(stream);
    sleep(HOUR).await;
    stream.as_mut().restart_pinned();
    let start = Instant::now();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_copy_goes_on_while_bytes_go_one_way() {
    let start = Instant::now();
    let (mut inbound, mut client) = idle_of_a_second();
    let (mut outbound, mut server) = idle_of_a_second();
    let copying = tokio::spawn(async move {
        let result = copy_bidirectional(&mut inbound, &mut outbound).await;
        (result, Instant::now())
    });
    let echo = tokio::spawn(async move { while server.read_u8().await.is_ok() {} });
    for _ in 0..20 {
        sleep(700 * MS).await;
        client.write_u8(0).await.unwrap();
    }
    let (result, end) = copying.await.unwrap();
    assert_timed_out(result);
    assert_eq!(end - start, 15 * SECOND);
    echo.await.unwrap();
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_dropped_loses_nothing() {
    let start = Instant::now();
    let (mut stream, _peer) = idle_of_a_second();
    for _ in 0..9 {
        tokio::select! {
            result = stream.read_u8() => panic!("{result:?}"),
            () = sleep(100 * MS) => {}
        }
    }
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_is_within_can_be_reached_and_taken_back() {
    let (stream, mut peer) = duplex(8);
    let mut stream = IdleTimeout::with_timer(&Timer::new(), stream, SECOND);
    stream.get_mut().write_u8(1).await.unwrap();
    Pin::new(&mut stream)
        .get_pin_mut()
        .write_u8(2)
        .await
        .unwrap();
    assert_eq!(peer.read_u16().await.unwrap(), 0x0102);
    let _: &DuplexStream = stream.get_ref();
    let handle = stream.handle();
    let mut inner = stream.into_inner();
    assert!(!handle.is_pending(), "the deadline was dropped");
    inner.write_u8(3).await.unwrap();
    assert_eq!(peer.read_u8().await.unwrap(), 3);
}

#[test]
fn the_end_of_the_timers_runtime_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let timer = runtime.block_on(async { Timer::current() });
    let mut stream = task::spawn(IdleTimeout::with_timer(&timer, Scripted::default(), HOUR));
    let mut poll = || stream.enter(|cx, mut stream| pin!(stream.read(&mut [0])).poll(cx));
    assert_pending!(poll());
    drop(runtime);
    assert!(assert_cancelled(assert_ready!(poll())).is_shutdown());
    assert!(assert_cancelled(assert_ready!(poll())).is_shutdown());
    stream.enter(|_, stream| stream.restart_pinned());
    let mut poll = || stream.enter(|cx, mut stream| pin!(stream.read(&mut [0])).poll(cx));
    assert!(assert_cancelled(assert_ready!(poll())).is_shutdown());
}

#[test]
fn is_send_and_sync_and_unpin_and_can_be_shown() {
    fn assert_all<T: Send + Sync + Unpin + std::fmt::Debug>(_: &T) {}

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _context = runtime.enter();
    let (stream, _peer) = idle_of_a_second();
    assert_all(&stream);
    thread::spawn(move || drop(stream)).join().unwrap();
}
