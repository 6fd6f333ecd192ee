//! Every operation of a stream that has a timeout for it: one that hangs, and one in a task whose
//! budget was used up before it was polled. The two crates' tests share this. Each makes the stream
//! by a function `bounded` in the file next to this one.
//!
//! tokio's I/O does not try what it is asked to do once the budget is used up. It answers that it
//! has to wait, and that says nothing of the bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tickwheel::{Duration, sleep};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio_test::{assert_pending, assert_ready, task};

use super::bounded;
use super::scripted::{Budget, Scripted};
use crate::common::{MS, SECOND, assert_nothing_armed, assert_timed_out, without_a_budget};

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
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
    pub(super) fn poll<S: AsyncRead + AsyncWrite>(
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

/// Runs a case for each operation, on the stream that has a timeout for it.
async fn on_each_operation(case: Case) {
    for operation in OPERATIONS {
        let io = Scripted::default();
        run(
            case,
            operation,
            &io,
            bounded(io.clone(), operation, case.timeout),
        )
        .await;
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
    on_each_operation(HANGS).await;
}

#[tokio::test(start_paused = true)]
async fn a_ready_operation_wins_though_the_budget_was_used_up() {
    let wins = Case {
        is_ready: true,
        is_spent: true,
        ..HANGS
    };
    on_each_operation(wins).await;
    let over_zero = Case {
        timeout: Duration::ZERO,
        waits: false,
        ..wins
    };
    on_each_operation(over_zero).await;
}

#[tokio::test(start_paused = true)]
async fn silence_is_reported_as_soon_as_there_is_a_budget_again() {
    for budget in [Budget::Obeys, Budget::Ignores] {
        on_each_operation(Case {
            is_spent: true,
            budget,
            ..HANGS
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_uses_its_budget_up_times_out_in_the_same_poll() {
    on_each_operation(Case {
        budget: Budget::UsesUp,
        ..HANGS
    })
    .await;
}
