//! A stream whose operations end as a test says, and wait when it says nothing.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Default)]
pub(crate) struct Script {
    /// How many bytes a read or a write moves.
    pub(crate) reads: VecDeque<io::Result<usize>>,
    pub(crate) writes: VecDeque<io::Result<usize>>,
    pub(crate) flushes: VecDeque<io::Result<()>>,
    pub(crate) shutdowns: VecDeque<io::Result<()>>,
    pub(crate) vectored_writes: usize,
}

/// It is not `Unpin`, so what wraps it must not ask for that. It wakes nobody: tests poll by hand.
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

fn next<R>(steps: &mut VecDeque<io::Result<R>>) -> Poll<io::Result<R>> {
    steps.pop_front().map_or(Poll::Pending, Poll::Ready)
}

impl AsyncRead for Scripted {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        next(&mut self.script().reads).map_ok(|bytes| buf.put_slice(&vec![b'x'; bytes]))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        next(&mut self.script().writes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        next(&mut self.script().flushes)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        next(&mut self.script().shutdowns)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut script = self.script();
        script.vectored_writes += 1;
        next(&mut script.writes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
