//! The separate timeouts of a `TimeoutStream`.

use std::fmt::Debug;
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, SeekFrom};
use std::pin::{Pin, pin};
use std::task::Poll;

use tickwheel::error::ShutDown;
use tickwheel::{Duration, Instant, Timer, sleep};
use tickwheel_util::io::TimeoutStream;
use tokio::io::{
    AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split,
};
use tokio_test::{assert_pending, assert_ready, task};

use super::read_times_out_in;
use super::scripted::Scripted;
use crate::common::{HOUR, MS, SECOND, assert_nothing_armed, assert_timed_out, current_thread};

/// Reads have a second, writes have two.
fn stream() -> (TimeoutStream<DuplexStream>, DuplexStream) {
    let (stream, peer) = duplex(8);
    let mut stream = TimeoutStream::new(stream);
    stream.set_read_timeout(Some(SECOND));
    stream.set_write_timeout(Some(2 * SECOND));
    (stream, peer)
}

#[tokio::test(start_paused = true)]
async fn each_direction_has_its_own_time_also_in_two_tasks() {
    let (mut both, _peer) = stream();
    for read in [Some(HOUR), Some(SECOND)] {
        both.set_read_timeout(read);
        let timeouts = (both.read_timeout(), both.write_timeout());
        assert_eq!(timeouts, (read, Some(2 * SECOND)));
    }
    read_times_out_in(SECOND, &mut both).await;
    let start = Instant::now();
    assert_timed_out(both.write_all(b"more than eight").await);
    assert_eq!(start.elapsed(), 2 * SECOND);

    let (both, _peer) = stream();
    let (reader, mut writer) = split(both);
    let start = Instant::now();
    let reading = tokio::spawn(read_times_out_in(SECOND, reader));
    assert_timed_out(writer.write_all(b"more than eight").await);
    assert_eq!(start.elapsed(), 2 * SECOND);
    reading.await.unwrap();
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn each_operation_has_the_whole_time_and_leaves_nothing_armed() {
    let (mut stream, mut peer) = stream();
    for byte in 0..3 {
        let mut reading = task::spawn(stream.read_u8());
        assert_pending!(reading.poll());
        assert_eq!(Timer::current().metrics().pending(), 1);
        sleep(SECOND - MS).await;
        peer.write_u8(byte).await.unwrap();
        assert!(reading.is_woken());
        assert_eq!(assert_ready!(reading.poll()).unwrap(), byte);
        assert!(!reading.is_woken(), "to disarm wakes nobody");
        assert_nothing_armed();
        sleep(HOUR).await;
    }
    for _ in 0..3 {
        read_times_out_in(SECOND, &mut stream).await;
    }
}

type WaitingReader = task::Spawn<TimeoutStream<Scripted>>;

/// A reader whose read waits since now.
fn waiting_reader(timeout: Option<Duration>) -> WaitingReader {
    let mut reader = TimeoutStream::new(Scripted::default());
    reader.set_read_timeout(timeout);
    let mut reader = task::spawn(reader);
    assert_pending!(poll_read(&mut reader));
    reader
}

fn poll_read(reader: &mut WaitingReader) -> Poll<io::Result<u8>> {
    reader.enter(|cx, mut reader| pin!(reader.read_u8()).poll(cx))
}

fn set(reader: &mut WaitingReader, timeout: Option<Duration>) {
    reader.enter(|_, reader| reader.set_read_timeout_pinned(timeout));
}

/// The read that waits times out after that time, in a task that polls when it is woken.
async fn times_out_in(time: Duration, reader: &mut WaitingReader) {
    let start = Instant::now();
    loop {
        while !reader.is_woken() {
            assert!(start.elapsed() < 60 * SECOND, "the read hangs");
            sleep(MS).await;
        }
        if let Poll::Ready(read) = poll_read(reader) {
            assert_timed_out(read);
            break;
        }
    }
    // What elapses at once is noticed in the next millisecond.
    let late = if time.is_zero() { MS } else { Duration::ZERO };
    assert!((time..=time + late).contains(&start.elapsed()));
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_timeout_changed_while_a_read_waits_counts_from_then() {
    for timeout in [Duration::ZERO, SECOND, 10 * SECOND, 20 * SECOND] {
        let mut reader = waiting_reader(Some(10 * SECOND));
        sleep(3 * SECOND).await;
        set(&mut reader, Some(timeout));
        times_out_in(timeout, &mut reader).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_set_while_a_read_waits_without_one_bounds_it() {
    for was_taken_away in [false, true] {
        let mut reader = waiting_reader(was_taken_away.then_some(SECOND));
        set(&mut reader, None);
        assert_nothing_armed();
        sleep(3 * SECOND).await;
        assert!(!reader.is_woken());
        set(&mut reader, Some(2 * SECOND));
        assert!(reader.is_woken(), "its task arms it");
        times_out_in(2 * SECOND, &mut reader).await;
    }
    // All of this before the task polls.
    let mut reader = waiting_reader(None);
    reader.enter(|_, mut reader| {
        for timeout in [Some(SECOND), None, Some(SECOND)] {
            reader.as_mut().set_read_timeout_pinned(timeout);
        }
    });
    times_out_in(SECOND, &mut reader).await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_is_set_wakes_the_task_that_polled_last() {
    let mut reader = pin!(TimeoutStream::new(Scripted::default()));
    let mut tasks = [task::spawn(()), task::spawn(())];
    for task in &mut tasks {
        assert_pending!(task.enter(|cx, _| pin!(reader.read_u8()).poll(cx)));
    }
    reader.as_mut().set_read_timeout_pinned(Some(SECOND));
    assert_eq!(tasks.map(|task| task.is_woken()), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_bounds_no_read_begins_with_the_next_one() {
    let mut reader = waiting_reader(Some(SECOND));
    sleep(SECOND).await;
    assert!(reader.is_woken());
    set(&mut reader, Some(2 * SECOND));
    assert_pending!(poll_read(&mut reader), "it has expired before");
    times_out_in(2 * SECOND, &mut reader).await;

    let mut dropped = pin!(TimeoutStream::new(Scripted::default()));
    assert_pending!(task::spawn(dropped.read_u8()).poll());
    dropped.as_mut().set_read_timeout_pinned(Some(SECOND));
    sleep(HOUR).await;
    read_times_out_in(SECOND, &mut dropped).await;

    let io = Scripted::default();
    let mut ended = task::spawn(TimeoutStream::new(io.clone()));
    assert_pending!(poll_read(&mut ended));
    io.script().reads.push_back(Ok(1));
    assert_ready!(poll_read(&mut ended)).unwrap();
    set(&mut ended, Some(SECOND));
    assert!(!ended.is_woken(), "nobody waits");
    assert_nothing_armed();
}

/// A read that has lost a `select!`, and then work before the next one. As with tokio-io-timeout.
#[tokio::test(start_paused = true)]
async fn a_timeout_set_after_a_dropped_read_counts_from_the_next_one() {
    for work in [0, 20, 50, 100] {
        let (mut stream, mut peer) = stream();
        assert_pending!(task::spawn(stream.read_u8()).poll());
        stream.set_read_timeout(Some(50 * MS));
        sleep(work * MS).await;
        assert_nothing_armed();
        read_times_out_in(50 * MS, &mut stream).await;
        // Without a setting the next read has what is left.
        assert_pending!(task::spawn(stream.read_u8()).poll());
        sleep(20 * MS).await;
        read_times_out_in(30 * MS, &mut stream).await;
        peer.write_u8(7).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_set_while_both_directions_wait_bound_both() {
    let mut stream = task::spawn(TimeoutStream::new(Scripted::default()));
    let poll = |stream: &mut WaitingReader| {
        let read = stream.enter(|cx, mut stream| pin!(stream.read_u8()).poll(cx));
        let write = stream.enter(|cx, mut stream| pin!(stream.write_u8(0)).poll(cx));
        (read, write)
    };
    assert!(matches!(poll(&mut stream), (Poll::Pending, Poll::Pending)));
    stream.enter(|_, stream| stream.set_write_timeout_pinned(Some(SECOND)));
    assert!(stream.is_woken());
    set(&mut stream, Some(SECOND));
    assert!(stream.is_woken());
    assert!(matches!(poll(&mut stream), (Poll::Pending, Poll::Pending)));
    sleep(SECOND).await;
    assert!(stream.is_woken());
    let (read, write) = poll(&mut stream);
    assert_timed_out(assert_ready!(read));
    assert_timed_out(assert_ready!(write));
}

#[tokio::test(start_paused = true)]
async fn a_file_can_be_read_written_and_sought() {
    let file = std::io::Cursor::new(b"0123456789".to_vec());
    let mut file = TimeoutStream::new(file);
    file.set_read_timeout(Some(SECOND));
    assert_eq!(file.seek(SeekFrom::Start(7)).await.unwrap(), 7);
    assert_eq!(file.read_u8().await.unwrap(), b'7');
    file.write_all(b"x").await.unwrap();
    assert_eq!(file.seek(SeekFrom::Current(-1)).await.unwrap(), 8);
    assert_eq!(file.read_u8().await.unwrap(), b'x');
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_direction_that_has_no_timeout_waits_on() {
    let [mut reader, mut writer] = [(); 2].map(|()| TimeoutStream::new(Scripted::default()));
    reader.set_read_timeout(Some(Duration::ZERO));
    writer.set_write_timeout(Some(Duration::ZERO));
    let (mut reader, mut writer) = (pin!(reader), pin!(writer));
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
    let mut reader = pin!(TimeoutStream::new(io.clone()));
    reader.as_mut().set_read_timeout_pinned(Some(SECOND));
    assert_pending!(task::spawn(reader.read_u8()).poll());
    let reset = ErrorKind::ConnectionReset;
    io.script().reads.push_back(Err(reset.into()));
    assert_eq!(reader.read_u8().await.unwrap_err().kind(), reset);
    assert_nothing_armed();
}

#[test]
fn the_end_of_the_timers_runtime_is_an_error() {
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let mut reader = TimeoutStream::new_on(&timer, Scripted::default());
    reader.set_read_timeout(Some(HOUR));
    let mut reader = task::spawn(reader);
    assert_pending!(poll_read(&mut reader));
    drop(runtime);
    for _ in 0..2 {
        let error = assert_ready!(poll_read(&mut reader)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.get_ref().unwrap().is::<ShutDown>(), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn vectored_writes_are_passed_through() {
    let io = Scripted::default();
    let stream = TimeoutStream::new(io.clone());
    assert!(stream.is_write_vectored());
    io.script().writes.push_back(Ok(2));
    let bufs = [IoSlice::new(b"a"), IoSlice::new(b"b")];
    assert_eq!(pin!(stream).write_vectored(&bufs).await.unwrap(), 2);
    assert_eq!(io.script().vectored_writes, 1);
    let plain = tokio_test::io::Builder::new().build();
    assert!(!plain.is_write_vectored());
    assert!(!TimeoutStream::new(plain).is_write_vectored());
}

#[tokio::test(start_paused = true)]
async fn the_inner_value_can_be_reached_shown_and_taken_back() {
    fn assert_all<T: Send + Sync + Unpin + Debug>(_: &T) {}
    let timer = Timer::builder().build().unwrap();
    let (stream, mut peer) = duplex(8);
    let mut stream = TimeoutStream::new_on(&timer, stream);
    assert_all(&stream);
    stream.get_mut().write_u8(1).await.unwrap();
    let within = Pin::new(&mut stream).get_pin_mut();
    within.get_mut().write_u8(2).await.unwrap();
    let _: &DuplexStream = stream.get_ref();
    stream.into_inner().write_u8(3).await.unwrap();
    assert_eq!(peer.read_u16().await.unwrap(), 0x0102);
    assert_eq!(peer.read_u8().await.unwrap(), 3);
    assert_eq!(timer.metrics().pending(), 0, "nothing stays armed");
}
