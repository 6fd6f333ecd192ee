//! `TimeoutReader`, `TimeoutWriter` and `TimeoutStream`, under the paused clock.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, SeekFrom};
use std::pin::{Pin, pin};
use std::task::Poll;

use tickwheel::io::{TimeoutReader, TimeoutStream, TimeoutWriter};
use tickwheel::{Duration, Instant, Timer, sleep};
use tokio::io::{
    AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split,
};
use tokio_test::{assert_pending, assert_ready, task};

use crate::scripted::Scripted;
use crate::{HOUR, MS, SECOND, assert_cancelled, assert_nothing_armed, assert_timed_out};

/// Reads have a second, writes have two.
fn stream() -> (TimeoutStream<DuplexStream>, DuplexStream) {
    let (stream, peer) = duplex(8);
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(SECOND));
    stream.set_write_timeout(Some(2 * SECOND));
    (stream, peer)
}

#[tokio::test(start_paused = true)]
async fn each_direction_has_its_own_time() {
    let (mut stream, _peer) = stream();
    assert_eq!(stream.read_timeout(), Some(SECOND));
    assert_eq!(stream.write_timeout(), Some(2 * SECOND));
    let start = Instant::now();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
    assert_timed_out(stream.write_all(b"more than eight").await);
    assert_eq!(start.elapsed(), 3 * SECOND);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn starts_without_timeouts() {
    let (stream, mut peer) = duplex(8);
    let mut stream = TimeoutStream::new(stream);
    assert_eq!(
        (stream.read_timeout(), stream.write_timeout()),
        (None, None)
    );
    tokio::spawn(async move {
        sleep(100 * HOUR).await;
        peer.write_u8(7).await.unwrap();
    });
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    assert_eq!(Timer::current().metrics().armed, 1, "that of the sleep");
}

#[tokio::test(start_paused = true)]
async fn the_time_between_operations_does_not_count() {
    let (mut stream, mut peer) = stream();
    for byte in 0..3 {
        sleep(HOUR).await;
        assert_nothing_armed();
        peer.write_u8(byte).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), byte);
    }
    let start = Instant::now();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_ends_in_time_leaves_nothing_armed() {
    let (mut stream, mut peer) = stream();
    for byte in 0..3 {
        let mut reading = task::spawn(stream.read_u8());
        assert_pending!(reading.poll());
        assert_eq!(Timer::current().metrics().pending, 1);
        peer.write_u8(byte).await.unwrap();
        assert!(reading.is_woken());
        assert_eq!(assert_ready!(reading.poll()).unwrap(), byte);
        assert!(!reading.is_woken(), "to disarm wakes nobody");
        assert_nothing_armed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_operation_has_the_whole_time_again() {
    let (mut stream, mut peer) = stream();
    for _ in 0..3 {
        let start = Instant::now();
        assert_timed_out(stream.read_u8().await);
        assert_eq!(start.elapsed(), SECOND);
    }
    stream.write_all(b"bye").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    peer.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "bye");
}

#[tokio::test(start_paused = true)]
async fn halves_in_two_tasks_time_out_each_in_its_time() {
    let (stream, _peer) = stream();
    let (mut reader, mut writer) = split(stream);
    let start = Instant::now();
    let reading = tokio::spawn(async move { (reader.read_u8().await, Instant::now()) });
    let writing = tokio::spawn(async move {
        let result = writer.write_all(b"more than eight").await;
        (result, Instant::now())
    });
    let (read, read_end) = reading.await.unwrap();
    let (written, write_end) = writing.await.unwrap();
    assert_timed_out(read);
    assert_timed_out(written);
    assert_eq!(read_end - start, SECOND);
    assert_eq!(write_end - start, 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn every_write_that_hangs_times_out() {
    for operation in ["write", "write_vectored", "flush", "shutdown"] {
        let start = Instant::now();
        let mut stream = pin!(TimeoutStream::new(Scripted::default()));
        stream.as_mut().set_write_timeout_pinned(Some(SECOND));
        assert_timed_out(match operation {
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
async fn zero_lets_pass_only_what_need_not_wait() {
    let (mut stream, mut peer) = stream();
    let start = Instant::now();
    stream.set_read_timeout(Some(Duration::ZERO));
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    assert_timed_out(stream.read_u8().await);
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), Duration::ZERO);

    stream.set_read_timeout(Some(Duration::MAX));
    tokio::spawn(async move {
        sleep(100_000 * HOUR).await;
        peer.write_u8(7).await.unwrap();
    });
    assert_eq!(stream.read_u8().await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_set_anew_counts_from_the_next_poll() {
    let mut reader = pin!(TimeoutReader::new(Scripted::default()));
    reader.as_mut().set_timeout_pinned(Some(HOUR));
    assert_pending!(task::spawn(reader.read_u8()).poll());
    reader.as_mut().set_timeout_pinned(None);
    assert_nothing_armed();
    assert_pending!(task::spawn(reader.read_u8()).poll());
    assert_nothing_armed();
    reader.as_mut().set_timeout_pinned(Some(SECOND));
    let start = Instant::now();
    assert_timed_out(reader.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_set_while_a_read_waits_without_one_bounds_it() {
    for was_taken_away in [false, true] {
        let mut reader = if was_taken_away {
            let mut reader = waiting_reader(Some(HOUR));
            reader.enter(|_, reader| reader.set_timeout_pinned(None));
            reader
        } else {
            waiting_reader(None)
        };
        sleep(3 * SECOND).await;
        assert_nothing_armed();
        reader.enter(|_, reader| reader.set_timeout_pinned(Some(2 * SECOND)));
        assert!(reader.is_woken(), "its task arms it");
        let start = Instant::now();
        assert_pending!(poll_read(&mut reader));
        woken(&mut reader).await;
        assert_timed_out(assert_ready!(poll_read(&mut reader)));
        assert_eq!(start.elapsed(), 2 * SECOND);
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_set_and_taken_away_and_set_before_the_task_polls_bounds_a_read() {
    let mut reader = waiting_reader(None);
    reader.enter(|_, mut reader| {
        for timeout in [Some(SECOND), None, Some(SECOND)] {
            reader.as_mut().set_timeout_pinned(timeout);
        }
    });
    assert!(reader.is_woken());
    assert_pending!(poll_read(&mut reader));
    woken(&mut reader).await;
    assert_timed_out(assert_ready!(poll_read(&mut reader)));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_set_after_a_read_was_dropped_begins_with_the_next_one() {
    let mut reader = pin!(TimeoutReader::new(Scripted::default()));
    assert_pending!(task::spawn(reader.read_u8()).poll());
    reader.as_mut().set_timeout_pinned(Some(SECOND));
    sleep(HOUR).await;
    let start = Instant::now();
    assert_timed_out(reader.read_u8().await);
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_set_after_a_read_has_ended_wakes_nobody() {
    let io = Scripted::default();
    let mut reader = task::spawn(TimeoutReader::new(io.clone()));
    assert_pending!(poll_read(&mut reader));
    io.script().reads.push_back(Ok(1));
    assert_ready!(poll_read(&mut reader)).unwrap();
    reader.enter(|_, reader| reader.set_timeout_pinned(Some(SECOND)));
    assert!(!reader.is_woken());
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn timeouts_set_while_both_directions_wait_bound_both() {
    let mut stream = task::spawn(TimeoutStream::new(Scripted::default()));
    let poll = |stream: &mut task::Spawn<TimeoutStream<Scripted>>| {
        let read = stream.enter(|cx, mut stream| pin!(stream.read_u8()).poll(cx));
        let write = stream.enter(|cx, mut stream| pin!(stream.write_u8(0)).poll(cx));
        (read, write)
    };
    let (read, write) = poll(&mut stream);
    assert!(read.is_pending() && write.is_pending());
    stream.enter(|_, stream| stream.set_write_timeout_pinned(Some(SECOND)));
    assert!(stream.is_woken());
    stream.enter(|_, stream| stream.set_read_timeout_pinned(Some(SECOND)));
    assert!(stream.is_woken());
    let (read, write) = poll(&mut stream);
    assert!(read.is_pending() && write.is_pending());
    sleep(SECOND).await;
    assert!(stream.is_woken());
    let (read, write) = poll(&mut stream);
    assert_timed_out(assert_ready!(read));
    assert_timed_out(assert_ready!(write));
}

#[tokio::test(start_paused = true)]
async fn a_file_can_be_read_written_and_sought_through_both_halves() {
    let file = std::io::Cursor::new(b"0123456789".to_vec());
    let mut file = TimeoutReader::new(TimeoutWriter::new(file));
    file.set_timeout(Some(SECOND));
    assert_eq!(file.seek(SeekFrom::Start(7)).await.unwrap(), 7);
    assert_eq!(file.read_u8().await.unwrap(), b'7');
    file.write_all(b"x").await.unwrap();
    assert_eq!(file.seek(SeekFrom::Current(-1)).await.unwrap(), 8);
    assert_eq!(file.read_u8().await.unwrap(), b'x');
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_changed_while_a_read_waits_counts_from_then() {
    for timeout in [Duration::ZERO, SECOND, 10 * SECOND, 20 * SECOND] {
        let mut reader = waiting_reader(Some(10 * SECOND));
        sleep(3 * SECOND).await;
        let start = Instant::now();
        reader.enter(|_, reader| reader.set_timeout_pinned(Some(timeout)));
        woken(&mut reader).await;
        assert_timed_out(assert_ready!(poll_read(&mut reader)));
        let late = if timeout.is_zero() {
            MS
        } else {
            Duration::ZERO
        };
        assert!((timeout..=timeout + late).contains(&start.elapsed()));
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_changed_after_it_expired_is_a_new_one() {
    let mut reader = waiting_reader(Some(SECOND));
    sleep(SECOND).await;
    assert!(reader.is_woken());
    reader.enter(|_, reader| reader.set_timeout_pinned(Some(2 * SECOND)));
    let start = Instant::now();
    assert_pending!(poll_read(&mut reader));
    woken(&mut reader).await;
    assert_timed_out(assert_ready!(poll_read(&mut reader)));
    assert_eq!(start.elapsed(), 2 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_taken_away_while_a_read_waits_is_disarmed() {
    let mut reader = waiting_reader(Some(SECOND));
    reader.enter(|_, reader| reader.set_timeout_pinned(None));
    assert_nothing_armed();
    sleep(HOUR).await;
    assert!(!reader.is_woken());
    assert_pending!(poll_read(&mut reader));
}

type WaitingReader = task::Spawn<TimeoutReader<Scripted>>;

/// A reader whose read waits since now.
fn waiting_reader(timeout: Option<Duration>) -> WaitingReader {
    let mut reader = TimeoutReader::new(Scripted::default());
    reader.set_timeout(timeout);
    let mut reader = task::spawn(reader);
    assert_pending!(poll_read(&mut reader));
    reader
}

fn poll_read(reader: &mut WaitingReader) -> Poll<io::Result<u8>> {
    reader.enter(|cx, mut reader| pin!(reader.read_u8()).poll(cx))
}

/// Waits until the task of the read is woken, as a runtime does.
async fn woken(reader: &mut WaitingReader) {
    let start = Instant::now();
    while !reader.is_woken() {
        assert!(start.elapsed() < HOUR, "the read hangs");
        sleep(MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_other_direction_of_one_half_has_no_timeout() {
    let io = Scripted::default();
    let mut reader = pin!(TimeoutReader::new(io.clone()));
    let mut writer = pin!(TimeoutWriter::new(io.clone()));
    reader.as_mut().set_timeout_pinned(Some(Duration::ZERO));
    writer.as_mut().set_timeout_pinned(Some(Duration::ZERO));
    assert_pending!(task::spawn(reader.write(&[0])).poll());
    assert_pending!(task::spawn(reader.flush()).poll());
    assert_pending!(task::spawn(reader.shutdown()).poll());
    assert_pending!(task::spawn(writer.read_u8()).poll());
    assert_timed_out(reader.read_u8().await);
    assert_timed_out(writer.write(&[0]).await);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_stream_ends_the_operation() {
    let io = Scripted::default();
    let mut reader = pin!(TimeoutReader::new(io.clone()));
    reader.as_mut().set_timeout_pinned(Some(SECOND));
    assert_pending!(task::spawn(reader.read_u8()).poll());
    io.script()
        .reads
        .push_back(Err(ErrorKind::ConnectionReset.into()));
    let error = reader.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn vectored_writes_are_passed_through() {
    let io = Scripted::default();
    io.script().writes.extend([Ok(2), Ok(2)]);
    let bufs = [IoSlice::new(b"a"), IoSlice::new(b"b")];
    let mut stream = pin!(TimeoutStream::new(io.clone()));
    assert!(stream.is_write_vectored());
    assert_eq!(stream.write_vectored(&bufs).await.unwrap(), 2);
    let mut writer = pin!(TimeoutWriter::new(io.clone()));
    assert!(writer.is_write_vectored());
    assert_eq!(writer.write_vectored(&bufs).await.unwrap(), 2);
    assert_eq!(io.script().vectored_writes, 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_within_can_be_reached_and_taken_back() {
    let (stream, mut peer) = duplex(8);
    let mut stream = TimeoutStream::with_timer(&Timer::new(), stream);
    stream.get_mut().write_u8(1).await.unwrap();
    Pin::new(&mut stream)
        .get_pin_mut()
        .write_u8(2)
        .await
        .unwrap();
    let _: &DuplexStream = stream.get_ref();
    stream.into_inner().write_u8(3).await.unwrap();
    assert_eq!(peer.read_u16().await.unwrap(), 0x0102);
    assert_eq!(peer.read_u8().await.unwrap(), 3);
}

#[test]
fn the_end_of_the_timers_runtime_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let timer = runtime.block_on(async { Timer::current() });
    let mut reader = TimeoutReader::with_timer(&timer, Scripted::default());
    reader.set_timeout(Some(HOUR));
    let mut reader = task::spawn(reader);
    let mut poll = || reader.enter(|cx, mut reader| pin!(reader.read(&mut [0])).poll(cx));
    assert_pending!(poll());
    drop(runtime);
    assert!(assert_cancelled(assert_ready!(poll())).is_shutdown());
    assert!(assert_cancelled(assert_ready!(poll())).is_shutdown());
}

#[tokio::test]
async fn is_send_and_sync_and_unpin_and_can_be_shown() {
    fn assert_all<T: Send + Sync + Unpin + std::fmt::Debug>(_: &T) {}

    let (stream, _peer) = stream();
    assert_all(&stream);
}
