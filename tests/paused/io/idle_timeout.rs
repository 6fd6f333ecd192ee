//! `IdleTimeout`, polled by one task or by one for each direction: both learn of the end, whichever
//! of them polled last, and after that a goodbye has its time.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, ready};

use futures::FutureExt;
use proptest::prelude::*;
use tickwheel::io::IdleTimeout;
use tickwheel::{Duration, Instant, Timer, sleep};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio_test::{assert_pending, assert_ready, task};

use super::operations::Operation;
use super::scripted::Scripted;
use super::{idle_of_a_second, read_times_out_in};
use crate::common::{
    HOUR, MS, SECOND, arm, assert_cancelled, assert_nothing_armed, assert_timed_out,
    current_thread, poll_once, waker_fn, without_a_budget,
};
use crate::paused_clock::{move_the_clock_only, paused};

#[tokio::test(start_paused = true)]
async fn results_without_a_byte_push_nothing_back() {
    let io = Scripted::default();
    let mut stream = pin!(IdleTimeout::new(io.clone(), SECOND));
    sleep(600 * MS).await;
    let fails = || Err(ErrorKind::Other.into());
    io.script().reads.extend([Ok(0), fails()]);
    io.script().writes.extend([Ok(0), Ok(0), fails()]);
    io.script().flushes.push_back(Ok(()));
    io.script().shutdowns.push_back(Ok(()));
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(stream.write(&[]).await.unwrap(), 0);
    assert_eq!(stream.write_vectored(&[]).await.unwrap(), 0);
    stream.flush().await.unwrap();
    stream.shutdown().await.unwrap();
    for end in [stream.read(&mut [0]).await, stream.write(&[0]).await] {
        assert_eq!(end.unwrap_err().kind(), ErrorKind::Other);
    }
    assert_eq!(stream.handle().remaining(), Some(400 * MS));
}

#[tokio::test(start_paused = true)]
async fn bytes_push_the_deadline_back_whichever_call_moves_them() {
    let io = Scripted::default();
    let mut stream = pin!(IdleTimeout::new(io.clone(), SECOND));
    for is_vectored in [false, true] {
        sleep(600 * MS).await;
        io.script().writes.push_back(Ok(1));
        let written = if is_vectored {
            stream.write_vectored(&[IoSlice::new(&[7])]).await
        } else {
            stream.write(&[7]).await
        };
        assert_eq!(written.unwrap(), 1);
        assert_eq!(stream.handle().remaining(), Some(SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_goes_on_has_the_whole_timeout_again() {
    let (mut stream, mut peer) = idle_of_a_second();
    for pause in [Duration::ZERO, 10 * SECOND, Duration::ZERO] {
        sleep(pause).await;
        read_times_out_in(SECOND, &mut stream).await;
        assert!(!stream.handle().is_pending());
        assert_nothing_armed();
    }
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7);
    assert_eq!(stream.handle().remaining(), Some(SECOND));
    read_times_out_in(SECOND, &mut stream).await;
    stream.write_all(b"bye").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut heard = String::new();
    peer.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "bye");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_can_be_changed_while_a_read_waits() {
    let (mut stream, _peer) = idle_of_a_second();
    let handle = stream.handle();
    tokio::spawn(async move {
        sleep(300 * MS).await;
        // It stays due after a second, and then is due earlier.
        assert!(handle.set_timeout(5 * SECOND) && handle.set_timeout(500 * MS));
    });
    read_times_out_in(800 * MS, &mut stream).await;
    stream.handle().set_timeout(2 * SECOND);
    assert_eq!(stream.handle().timeout(), 2 * SECOND);
    read_times_out_in(2 * SECOND, &mut stream).await;
}

#[tokio::test(start_paused = true)]
async fn errors_without_end_take_the_tasks_budget() {
    let mut stream = pin!(IdleTimeout::new(Scripted::default(), SECOND));
    assert!(stream.handle().cancel());
    let mut errors = 0;
    poll_fn(|cx| {
        while errors < 1_000 {
            ready!(stream.as_mut().poll_read(cx, &mut ReadBuf::new(&mut [0]))).unwrap_err();
            errors += 1;
        }
        Poll::Ready(())
    })
    .now_or_never();
    assert!((1..1_000).contains(&errors), "{errors}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_stream_waits_for_nothing() {
    let (mut stream, mut peer) = idle_of_a_second();
    let handle = stream.handle();
    tokio::spawn(async move {
        sleep(100 * MS).await;
        assert!(handle.cancel());
    });
    assert!(!assert_cancelled(stream.read_u8().await).is_shutdown());
    stream.write_all(b"bye").await.unwrap();
    assert_cancelled(stream.write_all(b"more than eight").await);
    peer.write_u8(7).await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), 7, "what is ready passes");
    assert_cancelled(stream.read_u8().await);
    assert_nothing_armed();
    stream.restart();
    read_times_out_in(SECOND, &mut stream).await;
}

#[test]
fn the_end_of_the_timers_runtime_is_an_error() {
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let stream = IdleTimeout::new_on(&timer, Box::pin(Scripted::default()), HOUR);
    let mut stream = task::spawn(stream);
    let poll = |stream: &mut task::Spawn<IdleTimeout<_>>| {
        stream.enter(|cx, mut stream| pin!(stream.read(&mut [0])).poll(cx))
    };
    assert_pending!(poll(&mut stream));
    drop(runtime);
    for _ in 0..2 {
        assert!(assert_cancelled(assert_ready!(poll(&mut stream))).is_shutdown());
    }
    stream.enter(|_, mut stream| stream.restart());
    assert!(assert_cancelled(assert_ready!(poll(&mut stream))).is_shutdown());
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_finds_the_expiry_wakes_the_reader() {
    let mut halves = Halves::new();
    assert_pending!(halves.poll(Way::Read));
    halves.stream.restart();
    move_the_clock_only(SECOND);
    assert_timed_out(assert_ready!(halves.poll(Way::Write)));
    assert_eq!(halves.run_woken(), [Way::Read]);
}

#[tokio::test(start_paused = true)]
async fn a_byte_clears_the_error_that_the_other_half_has_yet_to_see() {
    for way in Way::BOTH {
        let mut halves = Halves::new();
        assert_pending!(halves.poll(Way::Read));
        assert_pending!(halves.poll(Way::Write));
        sleep(SECOND).await;
        assert_timed_out(assert_ready!(halves.poll(way)));
        match way {
            Way::Read => halves.io.script().reads.push_back(Ok(1)),
            Way::Write => halves.io.script().writes.push_back(Ok(1)),
        }
        assert_eq!(assert_ready!(halves.poll(way)).unwrap(), 1);
        let other = if way == Way::Read {
            Way::Write
        } else {
            Way::Read
        };
        assert_pending!(halves.poll(other));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_waker_keeps_the_other_half_from_nothing() {
    let mut halves = Halves::new();
    let waker = waker_fn(|| std::panic::resume_unwind(Box::new("on purpose")));
    arm(&mut pin!(halves.stream.read(&mut [0])), &waker);
    assert_pending!(halves.poll(Way::Write));
    sleep(SECOND).await;
    assert_eq!(halves.run_woken(), [Way::Write]);
}

#[tokio::test(start_paused = true)]
async fn a_direction_that_goes_to_another_task_wakes_that_one() {
    for way in Way::BOTH {
        let mut halves = Halves::new();
        assert_pending!(halves.poll(way));
        let side = &mut halves.sides[way as usize];
        let former = std::mem::replace(&mut side.task, task::spawn(()));
        assert_pending!(halves.poll(way));
        sleep(SECOND).await;
        assert!(!former.is_woken());
        assert_eq!(halves.run_woken(), [way]);
    }
}

/// One of the two tasks, polled by hand.
struct Side {
    task: task::Spawn<()>,
    waits: bool,
}

/// What a test does with the halves.
#[derive(Clone, Copy, Debug)]
enum Step {
    Poll(Way),
    /// The next poll moves a byte.
    Move(Way),
    Pass(u64),
    Reset,
    Expire,
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Read,
    Write,
}

impl Way {
    const BOTH: [Way; 2] = [Way::Read, Way::Write];
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let way = prop::sample::select(Way::BOTH.to_vec());
    let step = prop_oneof![
        5 => way.clone().prop_map(Step::Poll),
        3 => way.prop_map(Step::Move),
        3 => (0_u64..1500).prop_map(Step::Pass),
        1 => Just(Step::Reset),
        1 => Just(Step::Expire),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

struct Halves {
    io: Scripted,
    stream: IdleTimeout<Pin<Box<Scripted>>>,
    sides: [Side; 2],
    /// Those that waited when the other one got the error. No byte was moved since then.
    owed: Vec<Way>,
}

impl Halves {
    fn new() -> Halves {
        let io = Scripted::default();
        let side = || Side {
            task: task::spawn(()),
            waits: false,
        };
        Halves {
            stream: IdleTimeout::new(Box::pin(io.clone()), SECOND),
            io,
            sides: [side(), side()],
            owed: Vec::new(),
        }
    }

    fn poll(&mut self, way: Way) -> Poll<io::Result<usize>> {
        let stream = &mut self.stream;
        let side = &mut self.sides[way as usize];
        let result = side.task.enter(|cx, _| match way {
            Way::Read => pin!(stream.read(&mut [0])).poll(cx),
            Way::Write => pin!(stream.write(&[0])).poll(cx),
        });
        side.waits = result.is_pending();
        result
    }

    /// Polls, as a runtime does, each task that was woken. Returns those that got the error.
    fn run_woken(&mut self) -> Vec<Way> {
        let mut ended = Vec::new();
        for way in Way::BOTH {
            let side = &self.sides[way as usize];
            if side.waits && side.task.is_woken() {
                if let Poll::Ready(result) = self.poll(way) {
                    assert_timed_out(result);
                    ended.push(way);
                }
            }
        }
        ended
    }

    fn waits(&self) -> Vec<Way> {
        let waits = |way: &Way| self.sides[*way as usize].waits;
        Way::BOTH.into_iter().filter(waits).collect()
    }
}

/// Whatever is polled in whatever order: once the time is over, each task that waits gets
/// the error, both of them, and none before.
async fn each_waiting_direction_gets_the_error(steps: Vec<Step>) {
    let mut halves = Halves::new();
    for step in steps {
        let waiting = halves.waits();
        let handle = halves.stream.handle();
        match step {
            Step::Poll(way) => {
                let was_pending = handle.is_pending();
                let owed = std::mem::take(&mut halves.owed);
                if let Poll::Ready(result) = halves.poll(way) {
                    assert_timed_out(result);
                    assert!(!was_pending || owed.contains(&way), "too early");
                    if !owed.contains(&way) {
                        halves.owed = halves.waits();
                    }
                } else {
                    assert!(!owed.contains(&way), "owed and not reported");
                    halves.owed = owed;
                }
            }
            Step::Move(way) => {
                let mut script = halves.io.script();
                match way {
                    Way::Read => script.reads.push_back(Ok(1)),
                    Way::Write => script.writes.push_back(Ok(1)),
                }
                drop(script);
                assert_eq!(assert_ready!(halves.poll(way)).unwrap(), 1);
                assert_eq!(handle.remaining(), Some(SECOND));
                halves.owed.clear();
            }
            Step::Pass(ms) => {
                let left = handle.remaining();
                sleep(ms as u32 * MS).await;
                let ended = halves.run_woken();
                if left.is_some_and(|left| left <= ms as u32 * MS) {
                    assert_eq!(ended, waiting, "the time was over");
                } else if left.is_some() {
                    assert_eq!(ended, halves.owed, "the time was not over");
                }
                halves.owed.clear();
            }
            Step::Reset => drop(handle.reset()),
            Step::Expire => drop(handle.expire()),
            Step::Restart => {
                halves.stream.restart();
                halves.owed.clear();
            }
        }
    }
    // Both wait now, maybe after they got the error of what was before: of an expiry that they are
    // owed, and of one that came after it.
    for way in Way::BOTH {
        for _ in 0..2 {
            if let Poll::Ready(result) = halves.poll(way) {
                assert_timed_out(result);
            }
        }
        assert_pending!(halves.poll(way), "each expiry is reported once");
    }
    for _ in 0..2 {
        // One of them may have had the error before, and then waits again.
        sleep(HOUR).await;
        halves.run_woken();
    }
    assert_eq!(halves.waits(), [], "both get the error");
    drop(halves);
    assert_nothing_armed();
}

proptest! {
    #[test]
    fn each_waiting_direction_gets_the_error_in_any_order(steps in steps()) {
        paused().block_on(each_waiting_direction_gets_the_error(steps));
    }
}

/// As an executor without a queue does.
#[tokio::test(start_paused = true)]
async fn a_reader_may_poll_within_its_wake() {
    let stream = Box::pin(IdleTimeout::new(Scripted::default(), SECOND));
    let stream = Arc::new(Mutex::new(stream));
    let (woken, (sender, receiver)) = (stream.clone(), mpsc::channel());
    let waker = waker_fn(move || {
        let read = poll_once(&mut pin!(woken.lock().unwrap().read(&mut [0])));
        sender.send(read.is_ready()).unwrap();
    });
    arm(&mut pin!(stream.lock().unwrap().read(&mut [0])), &waker);
    sleep(SECOND).await;
    assert_eq!(
        receiver.try_recv(),
        Ok(true),
        "it got the error within its wake"
    );
}

/// A client has sent its end, and the server of a relay stays silent, as both have since.
#[tokio::test(start_paused = true)]
async fn a_relay_that_is_wrapped_on_one_side_may_wait_for_ever() {
    for far_timeout in [SECOND, Duration::MAX] {
        let (mut near, mut client) = idle_of_a_second();
        let (far, _server) = duplex(8);
        let mut far = IdleTimeout::new(far, far_timeout);
        client.shutdown().await.unwrap();
        let relay = tokio::io::copy_bidirectional(&mut near, &mut far);
        match tokio::time::timeout(HOUR, relay).await {
            Ok(relayed) => assert_timed_out(relayed),
            Err(_) => assert_eq!(far_timeout, Duration::MAX, "it waits"),
        }
    }
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
    let io = Scripted::default();
    let stream = IdleTimeout::new(io.clone(), SECOND);
    assert!(stream.is_write_vectored());
    io.script().writes.push_back(Ok(2));
    let bufs = [IoSlice::new(b"a"), IoSlice::new(b"b")];
    assert_eq!(pin!(stream).write_vectored(&bufs).await.unwrap(), 2);
    assert_eq!(io.script().vectored_writes, 1);
    let plain = tokio_test::io::Builder::new().build();
    assert!(!plain.is_write_vectored());
    assert!(!IdleTimeout::new(plain, SECOND).is_write_vectored());
}

#[tokio::test(start_paused = true)]
async fn the_inner_value_can_be_reached_shown_and_taken_back() {
    fn assert_all<T: Send + Sync + Unpin + Debug>(_: &T) {}
    let timer = Timer::builder().build().unwrap();
    let (stream, mut peer) = duplex(8);
    let mut stream = IdleTimeout::new_on(&timer, stream, SECOND);
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

/// A server that pushes a byte every ten seconds to a peer that has gone.
#[tokio::test(start_paused = true)]
async fn a_push_to_a_peer_that_has_gone_counts_until_the_buffer_is_full() {
    async fn push(mut to: impl AsyncWrite + Unpin) -> io::Error {
        loop {
            sleep(10 * SECOND).await;
            if let Err(end) = to.write_all(&[7]).await {
                return end;
            }
        }
    }
    let (whole, _gone) = duplex(16);
    let start = Instant::now();
    let end = push(IdleTimeout::new(whole, 60 * SECOND)).await;
    assert_eq!(end.kind(), ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), (16 * 10 + 60) * SECOND);

    let (whole, _gone) = duplex(16);
    let (reading, writing) = tokio::io::split(whole);
    let start = Instant::now();
    let mut reading = IdleTimeout::new(reading, 60 * SECOND);
    tokio::select! {
        end = push(writing) => panic!("{end}"),
        end = reading.read_u8() => assert_eq!(end.unwrap_err().kind(), ErrorKind::TimedOut),
    }
    assert_eq!(start.elapsed(), 60 * SECOND);
}
