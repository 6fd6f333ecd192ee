//! The idle timeout for I/O, on tokio's duplex and on a stream made by hand.

mod idle_timeout;
mod operations;
mod scripted;

use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, DuplexStream, duplex};

use crate::common::{SECOND, assert_timed_out};
use operations::Operation;
use scripted::Scripted;

/// Every operation has the one timeout.
fn bounded(io: Scripted, _: Operation, timeout: Duration) -> IdleTimeout<Scripted> {
    IdleTimeout::new(io, timeout)
}

/// A stream with an idle timeout of a second, and its peer. Either way takes eight bytes.
fn idle_of_a_second() -> (IdleTimeout<DuplexStream>, DuplexStream) {
    let (stream, peer) = duplex(8);
    (IdleTimeout::new(stream, SECOND), peer)
}

/// A read waits for that time, no more and no less, and then times out.
async fn read_times_out_in(time: Duration, mut stream: impl AsyncRead + Unpin) {
    let start = Instant::now();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), time);
}
