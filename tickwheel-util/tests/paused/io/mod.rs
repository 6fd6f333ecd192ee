//! Separate timeouts for I/O, on tokio's duplex and on a stream made by hand.

#[path = "../../../../tests/paused/io/operations.rs"]
mod operations;
#[path = "../../../../tests/paused/io/scripted.rs"]
mod scripted;
mod timeout_stream;

use tickwheel::{Duration, Instant};
use tickwheel_util::io::TimeoutStream;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::common::assert_timed_out;
use operations::Operation;
use scripted::Scripted;

/// The other direction has no timeout.
fn bounded(io: Scripted, operation: Operation, timeout: Duration) -> TimeoutStream<Scripted> {
    let mut stream = TimeoutStream::new(io);
    match operation {
        Operation::Read => stream.set_read_timeout(Some(timeout)),
        _ => stream.set_write_timeout(Some(timeout)),
    }
    stream
}

/// A read waits for that time, no more and no less, and then times out.
async fn read_times_out_in(time: Duration, mut stream: impl AsyncRead + Unpin) {
    let start = Instant::now();
    assert_timed_out(stream.read_u8().await);
    assert_eq!(start.elapsed(), time);
}
