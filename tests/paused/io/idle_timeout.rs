//! `IdleTimeout` polled by one task.

use std::fmt::Debug;
use std::future::Future;
use std::io::{ErrorKind, IoSlice};
use std::pin::{Pin, pin};

use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Instant, Timer, sleep};
use tokio::io::{
    AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex, split,
};
use tokio_test::{assert_pending, assert_ready, task};

use super::scripted::Scripted;
use super::{idle_of_a_second, read_times_out_in};
use crate::common::{
    HOUR, MS, SECOND, assert_cancelled, assert_nothing_armed, assert_timed_out, current_thread,
};

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_silent_or_never_reads_is_timed_out() {
    let (mut stream, _peer) = idle_of_a_second();
    read_times_out_in(SECOND, &mut stream).await;
    drop(stream);
    let start = Instant::now();
    let (mut stream, _peer) = idle_of_a_second();
    sleep(400 * MS).await;
    assert_timed_out(stream.write_all(b"more than eight").await);
    assert_eq!(start.elapsed(), 1400 * MS, "eight bytes went at first");
    drop(stream);
    assert_nothing_armed();
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
    let _peer = dripping.await.unwrap();
    read_times_out_in(SECOND, &mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn bytes_written_push_back_a_read_that_waits() {
    let (stream, mut peer) = idle_of_a_second();
    let (reader, mut writer) = split(stream);
    let reading = tokio::spawn(read_times_out_in(10 * SECOND, reader));
    tokio::spawn(async move { while peer.read_u8().await.is_ok() {} });
    for _ in 0..10 {
        sleep(900 * MS).await;
        writer.write_u8(0).await.unwrap();
    }
    reading.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn results_without_a_byte_push_nothing_back() {
    let io = Scripted::default();
    let mut stream = pin!(IdleTimeout::new(io.clone(), SECOND));
    sleep(600 * MS).await;
    let fails = || Err(ErrorKind::Other.into());
    io.script().reads.extend([Ok(0), fails()]);
    io.script().writes.extend([Ok(0), Ok(0), fails()]);
    io.script().flushes.push_back(Ok(()));
    io.script().shutdowns.push_back(Ok(()));
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(stream.write(&[]).await.unwrap(), 0);
    assert_eq!(stream.write_vectored(&[]).await.unwrap(), 0);
    stream.flush().await.unwrap();
    stream.shutdown().await.unwrap();
    let errors = [stream.read(&mut [0]).await, stream.write(&[0]).await];
    assert!(
        errors
            .iter()
            .all(|end| end.as_ref().unwrap_err().kind() == ErrorKind::Other)
    );
    assert_eq!(stream.handle().remaining(), Some(400 * MS));
}

#[tokio::test(start_paused = true)]
async fn vectored_writes_are_passed_through() {
    let io = Scripted::default();
    let mut stream = pin!(IdleTimeout::new(io.clone(), SECOND));
    assert!(stream.is_write_vectored());
    let (plain, _peer) = duplex(1);
    let is_vectored = plain.is_write_vectored();
    assert_eq!(
        IdleTimeout::new(plain, SECOND).is_write_vectored(),
        is_vectored
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
async fn a_stream_that_goes_on_has_the_whole_timeout_again() {
    let (mut stream, mut peer) = idle_of_a_second();
    for pause in [Duration::ZERO, 10 * SECOND, Duration::ZERO] {
        sleep(pause).await;
        read_times_out_in(SECOND, &mut stream).await;
        assert!(!stream.handle().is_pending());
        assert_nothing_armed();
    }
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    assert_eq!(stream.handle().remaining(), Some(SECOND));
    read_times_out_in(SECOND, &mut stream).await;
    stream.write_all(b"bye").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    peer.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "bye");
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_ready_win_over_a_passed_deadline() {
    let (mut stream, mut peer) = idle_of_a_second();
    peer.write_all(b"ab").await.unwrap();
    sleep(HOUR).await;
    assert_eq!(stream.read_u8().await.unwrap(), b'a', "sent in time");
    assert_eq!(stream.handle().remaining(), Some(SECOND), "it starts anew");
    sleep(HOUR).await;
    stream.write_u8(0).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'b');
    read_times_out_in(SECOND, &mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn an_untold_expiry_is_told_at_once_or_forgiven_by_a_restart() {
    for is_restarted in [false, true] {
        let (stream, _peer) = idle_of_a_second();
        let mut stream = pin!(stream);
        sleep(HOUR).await;
        if is_restarted {
            stream.as_mut().restart_pinned();
        }
        read_times_out_in(u32::from(is_restarted) * SECOND, &mut stream).await;
    }
}

#[tokio::test(start_paused = true)]
async fn zero_lets_pass_only_what_need_not_wait_and_the_longest_all() {
    let (stream, mut peer) = duplex(8);
    let mut zero = IdleTimeout::new(stream, Duration::ZERO);
    peer.write_all(b"ab").await.unwrap();
    assert_eq!(zero.read_u16().await.unwrap(), u16::from_be_bytes(*b"ab"));
    for _ in 0..3 {
        read_times_out_in(Duration::ZERO, &mut zero).await;
        zero.write_u8(0).await.unwrap();
    }
    let (stream, mut peer) = duplex(8);
    let mut longest = IdleTimeout::new(stream, Duration::MAX);
    assert_eq!(longest.timeout(), Duration::MAX);
    tokio::spawn(async move {
        sleep(100_000 * HOUR).await;
        peer.write_u8(7).await.unwrap();
        peer
    });
    assert_eq!(longest.read_u8().await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_can_be_changed_while_a_read_waits() {
    let (mut stream, _peer) = idle_of_a_second();
    let handle = stream.handle();
    tokio::spawn(async move {
        sleep(900 * MS).await;
        assert!(handle.set_timeout(5 * SECOND));
        sleep(SECOND).await;
        assert!(handle.set_timeout(3 * SECOND), "counts from the last byte");
    });
    read_times_out_in(3 * SECOND, &mut stream).await;
    stream.set_timeout(2 * SECOND);
    assert_eq!(stream.timeout(), 2 * SECOND);
    read_times_out_in(2 * SECOND, &mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn another_task_resets_and_expires_through_the_handle() {
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
    read_times_out_in(3700 * MS, &mut stream).await;
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
    stream.restart();
    read_times_out_in(SECOND, &mut stream).await;
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
    let (mut stream, _peer) = idle_of_a_second();
    for _ in 0..9 {
        tokio::select! {
            result = stream.read_u8() => panic!("{result:?}"),
            () = sleep(100 * MS) => {}
        }
    }
    read_times_out_in(100 * MS, &mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_within_can_be_reached_shown_and_taken_back() {
    fn assert_all<T: Send + Sync + Unpin + Debug>(_: &T) {}
    let (stream, mut peer) = duplex(8);
    let mut stream = IdleTimeout::with_timer(&Timer::new(), stream, SECOND);
    assert_all(&stream);
    stream.get_mut().write_u8(1).await.unwrap();
    let within = Pin::new(&mut stream).get_pin_mut();
    within.get_mut().write_u8(2).await.unwrap();
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
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let mut stream = task::spawn(IdleTimeout::with_timer(&timer, Scripted::default(), HOUR));
    let poll = |stream: &mut task::Spawn<IdleTimeout<_>>| {
        stream.enter(|cx, mut stream| pin!(stream.read(&mut [0])).poll(cx))
    };
    assert_pending!(poll(&mut stream));
    drop(runtime);
    for _ in 0..2 {
        assert!(assert_cancelled(assert_ready!(poll(&mut stream))).is_shutdown());
    }
    stream.enter(|_, stream| stream.restart_pinned());
    assert!(assert_cancelled(assert_ready!(poll(&mut stream))).is_shutdown());
}
