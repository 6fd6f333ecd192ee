//! A stream whose operations end as a test says, and wait when it says nothing. Unless set
//! otherwise it obeys the budget of its task, as tokio's own I/O does: without any left, it waits
//! whatever the test says.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

use crate::common::use_up_the_budget;

#[derive(Default)]
pub(crate) struct Script {
    /// How many bytes a read or a write moves.
    pub(crate) reads: VecDeque<io::Result<usize>>,
    pub(crate) writes: VecDeque<io::Result<usize>>,
    pub(crate) flushes: VecDeque<io::Result<()>>,
    pub(crate) shutdowns: VecDeque<io::Result<()>>,
    pub(crate) vectored_writes: usize,
    pub(crate) budget: Budget,
}

/// What an operation does with the budget of its task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Budget {
    #[default]
    Obeys,
    /// As I/O that is not tokio's.
    Ignores,
    /// An operation that waits leaves nothing of it.
    UsesUp,
}

/// It is not `Unpin`, so what wraps it must not ask for that. It wakes no task: tests poll by hand.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    script: Arc<Mutex<Script>>,
    _pinned: PhantomPinned,
}

impl Scripted {
    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }
}

fn next<R>(
    cx: &mut Context<'_>,
    budget: Budget,
    steps: &mut VecDeque<io::Result<R>>,
) -> Poll<io::Result<R>> {
    if budget == Budget::Ignores {
        return steps.pop_front().map_or(Poll::Pending, Poll::Ready);
    }
    let unit = ready!(coop::poll_proceed(cx));
    if let Some(step) = steps.pop_front() {
        unit.made_progress();
        return Poll::Ready(step);
    }
    drop(unit);
    if budget == Budget::UsesUp {
        use_up_the_budget(cx);
    }
    Poll::Pending
}

impl AsyncRead for Scripted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let script = &mut *self.script();
        let read = next(cx, script.budget, &mut script.reads);
        read.map_ok(|bytes| buf.put_slice(&vec![b'x'; bytes]))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        let script = &mut *self.script();
        next(cx, script.budget, &mut script.writes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let script = &mut *self.script();
        next(cx, script.budget, &mut script.flushes)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let script = &mut *self.script();
        next(cx, script.budget, &mut script.shutdowns)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        _: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let script = &mut *self.script();
        script.vectored_writes += 1;
        next(cx, script.budget, &mut script.writes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
