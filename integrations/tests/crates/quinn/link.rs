//! The [`Link`]: a UDP socket that loses packets on purpose.
//!
//! Invariant: what is lost is lost silently. The sender is told that it was sent, as on a network.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

/// A real socket, of whose packets every n-th is lost.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Arc<dyn AsyncUdpSocket>,
    loses: Option<usize>,
    sent: AtomicUsize,
    lost: AtomicUsize,
    has_vanished: AtomicBool,
}

impl Link {
    /// Every `loses`-th packet that is sent is lost, if any.
    pub(crate) fn new(socket: Arc<dyn AsyncUdpSocket>, loses: Option<usize>) -> Link {
        Link {
            socket,
            loses,
            sent: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
            has_vanished: AtomicBool::new(false),
        }
    }

    /// From now on every packet that is sent is lost.
    pub(crate) fn vanish(&self) {
        self.has_vanished.store(true, Ordering::Relaxed);
    }

    /// So many packets were lost.
    pub(crate) fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }

    fn loses_now(&self) -> bool {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let loses_one = self.loses.is_some_and(|loses| number.is_multiple_of(loses));
        loses_one || self.has_vanished.load(Ordering::Relaxed)
    }
}

impl AsyncUdpSocket for Link {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.socket.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.loses_now() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// One packet at a time, so that each is lost or sent on its own.
    fn max_transmit_segments(&self) -> usize {
        1
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}
