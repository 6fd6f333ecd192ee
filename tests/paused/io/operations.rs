//! Every operation of every type that has a timeout for it: one that hangs, and one in a task whose
//! budget was used up before it was polled.
//!
//! tokio's I/O does not try what it is asked to do once the budget is used up. It answers that it
//! has to wait, and that says nothing of the bytes.

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tickwheel::io::{IdleTimeout, TimeoutStream};
use tickwheel::{Duration, Timer, sleep};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::task::yield_now;
use tokio_test::{assert_pending, assert_ready, task};

use super::scripted::{Budget, Scripted};
use crate::common::{MS, SECOND, assert_nothing_armed, assert_timed_out, without_a_budget};

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

/// What happens to an operation.
#[derive(Clone, Copy, Debug)]
struct Case {
    timeout: Duration,
    /// It has waited before the time passes.
    waits: bool,
    /// It is ready after that, and not silent.
    is_ready: bool,
    /// Its task has no budget left when it is polled first after that.
    is_spent: bool,
    /// What the stream within does with the budget.
    budget: Budget,
}

/// It has waited, and stays silent.
const HANGS: Case = Case {
    timeout: SECOND,
    waits: true,
    is_ready: false,
    is_spent: false,
    budget: Budget::Obeys,
};

/// Runs a case on each type that has a timeout for the operation.
async fn on_each_stream(case: Case) {
    for operation in OPERATIONS {
        let io = Scripted::default();
        let idle = IdleTimeout::new(io.clone(), case.timeout);
        run(case, operation, &io, idle).await;
        let mut stream = TimeoutStream::new(io.clone());
        // The other direction has none.
        match operation {
            Operation::Read => stream.set_read_timeout(Some(case.timeout)),
            _ => stream.set_write_timeout(Some(case.timeout)),
        }
        run(case, operation, &io, stream).await;
        assert_nothing_armed();
    }
}

async fn run<S: AsyncRead + AsyncWrite>(
    case: Case,
    operation: Operation,
    io: &Scripted,
    stream: S,
) {
    let context = format!("{operation:?} of {}", std::any::type_name::<S>());
    let mut stream = task::spawn(stream);
    let poll = |stream: &mut task::Spawn<S>| stream.enter(|cx, stream| operation.poll(stream, cx));
    io.script().budget = case.budget;
    if case.waits {
        assert_pending!(poll(&mut stream), "{context}");
        sleep(case.timeout - MS).await;
        // What was not tried is polled again.
        let is_tried_again = case.budget == Budget::UsesUp;
        assert!(is_tried_again || !stream.is_woken(), "{context} is early");
        sleep(MS).await;
        assert!(stream.is_woken(), "{context} hangs");
    }
    if case.is_ready {
        operation.script(io);
    }
    sleep(SECOND).await;
    if case.is_spent {
        assert_pending!(without_a_budget(|| poll(&mut stream)).await, "{context}");
        assert!(stream.is_woken(), "{context} hangs");
    }
    let polled = assert_ready!(poll(&mut stream), "{context}");
    if case.is_ready {
        polled.unwrap();
    } else {
        assert_timed_out(polled);
    }
    if case.timeout.is_zero() {
        assert_timed_out(assert_ready!(poll(&mut stream)));
    }
    yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_hangs_times_out() {
    on_each_stream(HANGS).await;
}

#[tokio::test(start_paused = true)]
async fn a_ready_operation_wins_though_the_budget_was_used_up() {
    let wins = Case {
        is_ready: true,
        is_spent: true,
        ..HANGS
    };
    on_each_stream(wins).await;
    let over_zero = Case {
        timeout: Duration::ZERO,
        waits: false,
        ..wins
    };
    on_each_stream(over_zero).await;
}

#[tokio::test(start_paused = true)]
async fn silence_is_told_as_soon_as_there_is_a_budget_again() {
    for budget in [Budget::Obeys, Budget::Ignores] {
        on_each_stream(Case {
            is_spent: true,
            budget,
            ..HANGS
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_uses_its_budget_up_times_out_in_the_same_poll() {
    on_each_stream(Case {
        budget: Budget::UsesUp,
        ..HANGS
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_direction_that_was_not_tried_is_told_too() {
    let mut stream = task::spawn(IdleTimeout::new(Scripted::default(), SECOND));
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

#[tokio::test(start_paused = true)]
async fn vectored_writes_are_passed_through() {
    async fn check<S: AsyncWrite>(io: Scripted, stream: S) {
        assert!(stream.is_write_vectored());
        io.script().writes.push_back(Ok(2));
        let bufs = [IoSlice::new(b"a"), IoSlice::new(b"b")];
        assert_eq!(pin!(stream).write_vectored(&bufs).await.unwrap(), 2);
        assert_eq!(io.script().vectored_writes, 1);
    }
    let io = Scripted::default;
    let made = io();
    check(made.clone(), IdleTimeout::new(made, SECOND)).await;
    let made = io();
    check(made.clone(), TimeoutStream::new(made)).await;
    let plain = || tokio_test::io::Builder::new().build();
    assert!(!plain().is_write_vectored());
    assert!(!IdleTimeout::new(plain(), SECOND).is_write_vectored());
    assert!(!TimeoutStream::new(plain()).is_write_vectored());
}

#[tokio::test(start_paused = true)]
async fn the_inner_value_can_be_reached_shown_and_taken_back() {
    fn assert_all<T: Send + Sync + Unpin + Debug>(_: &T) {}
    macro_rules! check {
        ($within:expr) => {
            let (stream, mut peer) = duplex(8);
            let mut stream = $within(stream);
            assert_all(&stream);
            stream.get_mut().write_u8(1).await.unwrap();
            let within = Pin::new(&mut stream).get_pin_mut();
            within.get_mut().write_u8(2).await.unwrap();
            let _: &DuplexStream = stream.get_ref();
            stream.into_inner().write_u8(3).await.unwrap();
            assert_eq!(peer.read_u16().await.unwrap(), 0x0102);
            assert_eq!(peer.read_u8().await.unwrap(), 3);
        };
    }
    let timer = Timer::builder().build().unwrap();
    check!(|stream| IdleTimeout::new_on(&timer, stream, SECOND));
    assert_eq!(timer.metrics().pending, 0, "the deadline was dropped");
    check!(|stream| TimeoutStream::new_on(&timer, stream));
}
