//! An [`IdleTimeout`] over a pipe in memory: one end reads with a timeout, the other writes now and
//! then.

use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tickwheel::io::IdleTimeout;
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::time::Duration;

use super::{Lengths, alone, yield_now};
use crate::finding::Kind;
use crate::life::{Call, timed};
use crate::program::{Clock, Program};
use crate::world::Place;

struct Reader {
    stream: IdleTimeout<DuplexStream>,
    timeout: Duration,
    /// The call that let the whole timeout count from then on.
    since: Call,
}

pub async fn run(program: Arc<Program>, mut random: fastrand::Rng) {
    // The pipe is tokio's, and wakes in its drop. A waker that panics there would end the process.
    if program.faults.wakers {
        return;
    }
    let lengths = Lengths::random(&mut random);
    let clock = program.clocks[random.usize(..program.clocks.len())].clone();
    let (ours, theirs) = tokio::io::duplex(64);
    let timeout = lengths.draw(&mut random);
    let (stream, since) = timed(|| IdleTimeout::new_on(&clock.timer, ours, timeout));
    let writer = write(program.clone(), theirs, lengths, random.fork());
    // A blocking pause between two writes blocks nobody else there.
    program.start(Place::Plain, writer);
    let mut reader = Reader {
        stream,
        timeout,
        since,
    };
    while program.is_busy() {
        let due = reader.since.after + timeout;
        let has_room = random.u8(1..64);
        let wait = alone::waits("a read with an idle timeout", due, &clock);
        let reading = Box::pin(async move {
            let result = reader.read(has_room).await;
            (reader, result)
        });
        let read = program.wait(&mut random, &clock, wait, reading).await;
        let Some((back, (result, call))) = read else {
            return;
        };
        reader = back;
        match result {
            Ok(0) => return,
            Ok(_) => reader.since = call,
            Err(ErrorKind::TimedOut) => {
                reader.judge_end(&program, &clock, call);
                ((), reader.since) = timed(|| reader.stream.restart());
            }
            Err(_) if program.told(clock.runtime).is_some() => return,
            Err(kind) => program.accuse(Kind::WrongAnswer, &format!("a read gave {kind}")),
        }
    }
}

/// Writes until nobody reads.
async fn write(
    program: Arc<Program>,
    mut pipe: DuplexStream,
    lengths: Lengths,
    mut random: fastrand::Rng,
) {
    while program.is_busy() {
        let bytes = [0; 200];
        let some = random.usize(1..bytes.len());
        if pipe.write_all(&bytes[..some]).await.is_err() {
            return;
        }
        std::thread::sleep(lengths.draw(&mut random));
        yield_now().await;
    }
}

impl Reader {
    /// Reads once. Gives the clock around the poll that was ready.
    async fn read(&mut self, has_room: u8) -> (Result<usize, ErrorKind>, Call) {
        let mut bytes = [0; 64];
        std::future::poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut bytes[..has_room.into()]);
            let (polled, call) = timed(|| self.poll(cx, &mut buffer));
            polled.map(|result| {
                let result = result.map(|()| buffer.filled().len());
                (result.map_err(|error| error.kind()), call)
            })
        })
        .await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }

    fn judge_end(&self, program: &Program, clock: &Clock, call: Call) {
        let due = self.since.before + self.timeout;
        if call.after < due {
            let text = format!("a read timed out {:?} early", due - call.after);
            program.accuse(Kind::Early, &text);
        }
        let left = self.stream.handle().remaining();
        if left.is_some() && program.told(clock.runtime).is_none() {
            let text = format!("a stream that has timed out has {left:?} left");
            program.accuse(Kind::WrongAnswer, &text);
        }
    }
}
