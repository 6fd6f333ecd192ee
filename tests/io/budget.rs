//! Many streams in one task, whose budget is used up before each of them was polled: on sockets in
//! real time, and by hand under the paused clock.
//!
//! tokio's I/O does not try what it is asked to do once the budget is used up. It answers that it
//! has to wait, and that says nothing of the bytes.

use std::future::poll_fn;
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use tickwheel::io::{IdleTimeout, TimeoutReader, TimeoutStream, TimeoutWriter};
use tickwheel::{Duration, Instant, sleep};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio_test::{assert_pending, assert_ready, task};

use crate::scripted::{Budget, Scripted, use_up_the_budget};
use crate::sockets::connection;
use crate::{MS, SECOND, assert_nothing_armed, assert_timed_out};

const SHORT: Duration = Duration::from_millis(200);

/// More connections than a task has budget for, and fewer than a process may have open.
const CONNECTIONS: usize = 300;

/// Many reads wait in the test's task. Bytes come in time for each of them, and then the thread
/// stalls for longer than their timeout. If the machine was too busy to send them in time, it tries
/// again.
async fn assert_bytes_win_after_a_stall<S>(wrap: impl Fn(TcpStream) -> S)
where
    S: AsyncRead + Unpin,
{
    let _ = rlimit::increase_nofile_limit(4 * CONNECTIONS as u64);
    while !bytes_win_after_a_stall(&wrap).await {}
    assert_nothing_armed();
}

/// Gives whether the bytes were sent in time.
async fn bytes_win_after_a_stall<S>(wrap: impl Fn(TcpStream) -> S) -> bool
where
    S: AsyncRead + Unpin,
{
    let (mut peers, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let (stream, peer) = connection().await;
        peers.push(peer.into_std().unwrap());
        streams.push(stream);
    }
    let start = Instant::now();
    let mut streams: Vec<_> = streams.into_iter().map(wrap).collect();
    let bytes_and_a_stall = tokio::spawn(async move {
        // It never yields, so nothing is read before the stall.
        for peer in &mut peers {
            assert_eq!(peer.write(&[7]).unwrap(), 1);
        }
        let in_time = start.elapsed() < SHORT;
        thread::sleep(5 * SHORT);
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
    assert_bytes_win_after_a_stall(|stream| IdleTimeout::new(stream, SHORT)).await;
}

#[tokio::test]
async fn bytes_on_many_sockets_in_one_task_win_over_a_read_timeout() {
    assert_bytes_win_after_a_stall(|stream| {
        let mut stream = TimeoutStream::new(stream);
        stream.set_read_timeout(Some(SHORT));
        stream
    })
    .await;
}

#[tokio::test]
async fn silent_sockets_in_one_task_all_time_out() {
    let _ = rlimit::increase_nofile_limit(4 * CONNECTIONS as u64);
    let (mut peers, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let (stream, peer) = connection().await;
        peers.push(peer);
        reads.push(async move { IdleTimeout::new(stream, SHORT).read_u8().await });
    }
    for read in join_all(reads).await {
        assert_timed_out(read);
    }
    assert_nothing_armed();
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Read,
    Write,
    VectoredWrite,
    Flush,
    Shutdown,
}

const OPERATIONS: [Operation; 5] = [
    Operation::Read,
    Operation::Write,
    Operation::VectoredWrite,
    Operation::Flush,
    Operation::Shutdown,
];

impl Operation {
    fn poll<S: AsyncRead + AsyncWrite>(
        self,
        stream: Pin<&mut S>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut byte = [0];
        match self {
            Operation::Read => stream.poll_read(cx, &mut ReadBuf::new(&mut byte)),
            Operation::Write => stream.poll_write(cx, &byte).map_ok(drop),
            Operation::VectoredWrite => stream
                .poll_write_vectored(cx, &[IoSlice::new(&byte)])
                .map_ok(drop),
            Operation::Flush => stream.poll_flush(cx),
            Operation::Shutdown => stream.poll_shutdown(cx),
        }
    }

    /// Lets it be ready.
    fn script(self, io: &Scripted) {
        let mut script = io.script();
        match self {
            Operation::Read => script.reads.push_back(Ok(1)),
            Operation::Write | Operation::VectoredWrite => script.writes.push_back(Ok(1)),
            Operation::Flush => script.flushes.push_back(Ok(())),
            Operation::Shutdown => script.shutdowns.push_back(Ok(())),
        }
    }
}

/// Takes the rest of this task's poll without a budget, and lets the next one have a new one.
async fn without_a_budget<R>(run: impl FnOnce() -> R) -> R {
    let mut run = Some(run);
    let result = poll_fn(|cx| {
        use_up_the_budget(cx);
        Poll::Ready(run.take().expect("it is polled once")())
    })
    .await;
    yield_now().await;
    result
}

/// Runs `scenario` on each type that has a timeout for the operation.
macro_rules! on_each_stream {
    ($timeout:expr, $scenario:ident) => {
        for operation in OPERATIONS {
            let timeout = $timeout;
            let io = Scripted::default();
            $scenario(operation, &io, IdleTimeout::new(io.clone(), timeout)).await;

            let io = Scripted::default();
            let mut stream = TimeoutStream::new(io.clone());
            stream.set_read_timeout(Some(timeout));
            stream.set_write_timeout(Some(timeout));
            $scenario(operation, &io, stream).await;

            let io = Scripted::default();
            if matches!(operation, Operation::Read) {
                let mut reader = TimeoutReader::new(io.clone());
                reader.set_timeout(Some(timeout));
                $scenario(operation, &io, reader).await;
            } else {
                let mut writer = TimeoutWriter::new(io.clone());
                writer.set_timeout(Some(timeout));
                $scenario(operation, &io, writer).await;
            }
            assert_nothing_armed();
        }
    };
}

async fn ready_wins_without_a_budget<S: AsyncRead + AsyncWrite>(
    operation: Operation,
    io: &Scripted,
    stream: S,
) {
    let mut stream = task::spawn(stream);
    assert_pending!(stream.enter(|cx, stream| operation.poll(stream, cx)));
    operation.script(io);
    sleep(2 * SECOND).await;
    let polled = without_a_budget(|| stream.enter(|cx, stream| operation.poll(stream, cx))).await;
    assert!(polled.is_pending(), "{operation:?}: {polled:?}");
    assert!(stream.is_woken(), "{operation:?} hangs");
    assert_ready!(stream.enter(|cx, stream| operation.poll(stream, cx))).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_wins_though_the_budget_was_used_up() {
    on_each_stream!(SECOND, ready_wins_without_a_budget);
}

async fn ready_wins_over_zero<S: AsyncRead + AsyncWrite>(
    operation: Operation,
    io: &Scripted,
    stream: S,
) {
    let mut stream = task::spawn(stream);
    operation.script(io);
    sleep(2 * MS).await;
    let polled = without_a_budget(|| stream.enter(|cx, stream| operation.poll(stream, cx))).await;
    assert!(polled.is_pending(), "{operation:?}: {polled:?}");
    assert!(stream.is_woken(), "{operation:?} hangs");
    assert_ready!(stream.enter(|cx, stream| operation.poll(stream, cx))).unwrap();
    let polled = stream.enter(|cx, stream| operation.poll(stream, cx));
    assert_timed_out(assert_ready!(polled));
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_wins_over_a_timeout_of_zero_though_the_budget_was_used_up() {
    on_each_stream!(Duration::ZERO, ready_wins_over_zero);
}

async fn silence_is_told_at_the_next_poll<S: AsyncRead + AsyncWrite>(
    operation: Operation,
    _: &Scripted,
    stream: S,
) {
    let mut stream = task::spawn(stream);
    assert_pending!(stream.enter(|cx, stream| operation.poll(stream, cx)));
    sleep(2 * SECOND).await;
    let polled = without_a_budget(|| stream.enter(|cx, stream| operation.poll(stream, cx))).await;
    assert!(polled.is_pending(), "{operation:?}: {polled:?}");
    assert!(stream.is_woken(), "{operation:?} hangs");
    let polled = stream.enter(|cx, stream| operation.poll(stream, cx));
    assert_timed_out(assert_ready!(polled));
}

#[tokio::test(start_paused = true)]
async fn silence_is_told_as_soon_as_there_is_a_budget_again() {
    on_each_stream!(SECOND, silence_is_told_at_the_next_poll);
}

async fn silence_of_other_io_is_told_at_the_next_poll<S: AsyncRead + AsyncWrite>(
    operation: Operation,
    io: &Scripted,
    stream: S,
) {
    io.script().budget = Budget::Ignores;
    silence_is_told_at_the_next_poll(operation, io, stream).await;
}

#[tokio::test(start_paused = true)]
async fn silence_of_io_that_knows_no_budget_is_told_as_soon_as_there_is_one_again() {
    on_each_stream!(SECOND, silence_of_other_io_is_told_at_the_next_poll);
}

async fn a_greedy_stream_times_out<S: AsyncRead + AsyncWrite>(
    operation: Operation,
    io: &Scripted,
    stream: S,
) {
    let mut stream = task::spawn(stream);
    io.script().budget = Budget::UsesUp;
    assert_pending!(stream.enter(|cx, stream| operation.poll(stream, cx)));
    sleep(2 * SECOND).await;
    let polled = stream.enter(|cx, stream| operation.poll(stream, cx));
    assert_timed_out(assert_ready!(polled));
    yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_uses_the_budget_up_itself_times_out_in_the_same_poll() {
    on_each_stream!(SECOND, a_greedy_stream_times_out);
}

#[tokio::test(start_paused = true)]
async fn a_direction_that_was_not_tried_is_told_too() {
    let io = Scripted::default();
    let mut stream = task::spawn(IdleTimeout::new(io.clone(), SECOND));
    let mut reading = task::spawn(());
    let mut poll_read = |stream: &mut task::Spawn<IdleTimeout<Scripted>>| {
        reading.enter(|cx, _| stream.enter(|_, stream| Operation::Read.poll(stream, cx)))
    };
    sleep(2 * SECOND).await;
    assert_pending!(without_a_budget(|| poll_read(&mut stream)).await);
    let write = stream.enter(|cx, stream| Operation::Write.poll(stream, cx));
    assert_timed_out(assert_ready!(write));
    assert_timed_out(assert_ready!(poll_read(&mut stream)));
}
