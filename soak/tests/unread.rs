//! After a stall what lies unread is read first: in every idiom in which users race a message
//! against a timer, and though they changed nothing but a `use`.
//!
//! Each stall blocks the only thread that drives the runtime and polls its tasks, for much longer
//! than the 50 ms that make a stall. Messages come within it, before any timer is due. A machine
//! that is slow makes a stall longer, and nothing else.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::future::Future;
use std::pin::{Pin, pin};
use std::thread;

use tickwheel::time::{self, Duration, Instant, timeout};
use tickwheel::{Sleep, Timer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::{self, Runtime};
use tokio::sync::mpsc;
use tokio::task::yield_now;

use crate::common::{MS, poll_once};

/// How long a server waits for the next message.
const IDLE: Duration = Duration::from_millis(200);

/// Nothing but this runs on the thread meanwhile.
fn stall() {
    thread::sleep(2 * IDLE);
}

/// Runtimes whose only worker reads sockets and drives the timers.
fn runtimes() -> [Runtime; 2] {
    let builders = [
        runtime::Builder::new_current_thread(),
        runtime::Builder::new_multi_thread(),
    ];
    builders.map(|mut builder| builder.worker_threads(1).enable_all().build().unwrap())
}

/// Whether a server reads its next message in time. Each is written as users write it.
type Idiom = fn(UnixStream) -> Pin<Box<dyn Future<Output = bool> + Send>>;

const IDIOMS: [(&str, Idiom); 6] = [
    ("a timeout around a read", |mut socket| {
        Box::pin(async move { timeout(IDLE, socket.read_u8()).await.is_ok() })
    }),
    ("a pinned sleep in a `select!`", |mut socket| {
        Box::pin(async move {
            let mut idle = pin!(time::sleep(IDLE));
            tokio::select! {
                () = &mut idle => false,
                read = socket.read_u8() => read.is_ok(),
            }
        })
    }),
    ("the same, which asks the sleep first", |mut socket| {
        Box::pin(async move {
            let mut idle = pin!(time::sleep(IDLE));
            tokio::select! {
                biased;
                () = &mut idle => false,
                read = socket.read_u8() => read.is_ok(),
            }
        })
    }),
    ("a sleep that was reset", |mut socket| {
        Box::pin(async move {
            let mut idle = pin!(time::sleep(IDLE / 2));
            assert!(poll_once(&mut idle).is_pending());
            idle.as_mut().reset(Instant::now() + IDLE);
            tokio::select! {
                biased;
                () = &mut idle => false,
                read = socket.read_u8() => read.is_ok(),
            }
        })
    }),
    ("a fresh sleep in a `select!`", |mut socket| {
        Box::pin(async move {
            tokio::select! {
                () = time::sleep(IDLE) => false,
                read = socket.read_u8() => read.is_ok(),
            }
        })
    }),
    ("a time at which it was last seen", |mut socket| {
        Box::pin(async move {
            let (read, mut reads) = tokio::sync::watch::channel(());
            let reader = tokio::spawn(async move {
                while socket.read_u8().await.is_ok() {
                    read.send_replace(());
                }
            });
            time::sleep(IDLE).await;
            let was_seen = reads.has_changed().unwrap();
            reads.mark_unchanged();
            reader.abort();
            was_seen
        })
    }),
];

/// So many servers of each idiom whose messages come within a stall. The error is an idiom in which
/// one lay unread.
async fn servers(number: usize) -> Result<(), &'static str> {
    let mut servers = Vec::new();
    let mut senders = Vec::new();
    for (name, idiom) in IDIOMS {
        for _ in 0..number {
            let (sender, socket) = UnixStream::pair().unwrap();
            senders.push(sender);
            servers.push((name, tokio::spawn(idiom(socket))));
        }
    }
    // Each has polled its timer.
    for _ in 0..3 {
        yield_now().await;
    }
    for sender in &mut senders {
        sender.write_all(&[7]).await.unwrap();
    }
    stall();
    for (name, server) in servers {
        server.await.unwrap().then_some(()).ok_or(name)?;
    }
    Ok(())
}

/// A machine may be so busy that the tasks do not read within the longest wait.
fn read_in_one_of_some_tries(number: usize) {
    for kind in 0..2 {
        let mut unread = Vec::new();
        let are_read = (0..20).any(|_| {
            let runtime = runtimes().into_iter().nth(kind).unwrap();
            let tried = runtime.block_on(async { tokio::spawn(servers(number)).await.unwrap() });
            unread.extend(tried.err());
            tried.is_ok()
        });
        assert!(are_read, "messages lay unread: {unread:?}");
    }
}

#[test]
fn a_message_that_came_within_a_stall_is_read_before_the_timer_fires() {
    read_in_one_of_some_tries(1);
}

/// More than tokio hands out in one round of its driver, and than a worker polls between two.
#[test]
fn so_are_the_messages_of_very_many_tasks() {
    read_in_one_of_some_tries(70);
}

/// It has not been polled before the stall, so the poll finds it overdue.
#[test]
fn a_sleep_that_is_first_polled_after_a_stall_lets_tasks_run_too() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let server = async {
                let (mut sender, mut socket) = UnixStream::pair().unwrap();
                // The driver knows of the stall by this one.
                let mut other = time::sleep(IDLE);
                assert!(poll_once(&mut other).is_pending());
                let mut idle = time::sleep(IDLE);
                sender.write_all(&[7]).await.unwrap();
                stall();
                assert!(!idle.is_elapsed());
                tokio::select! {
                    biased;
                    () = &mut idle => false,
                    read = socket.read_u8() => read.is_ok(),
                }
            };
            assert!(tokio::spawn(server).await.unwrap());
        });
    }
}

/// A thread that blocks in each round delays its timers, but loses none and starves none.
#[test]
fn a_thread_that_stalls_without_end_still_has_its_timers() {
    for runtime in runtimes() {
        let blocks = runtime.spawn(async {
            loop {
                thread::sleep(60 * MS);
                yield_now().await;
            }
        });
        let sleeps = runtime.spawn(async {
            for _ in 0..5 {
                time::sleep(10 * MS).await;
            }
        });
        runtime.block_on(sleeps).unwrap();
        blocks.abort();
    }
}

/// The longest that a turn waits.
const LONGEST: Duration = Duration::from_millis(100);

/// Tasks that are always ready delay the round, but not beyond the bound.
#[test]
fn a_wait_for_tasks_that_never_come_to_an_end_is_bounded() {
    for kind in 0..2 {
        let is_bounded = (0..20).any(|_| {
            // Of its own: soon after a wait there is no other.
            let runtime = runtimes().into_iter().nth(kind).unwrap();
            let busy = runtime.spawn(async {
                loop {
                    let start = Instant::now();
                    while start.elapsed() < 3 * MS {
                        std::hint::spin_loop();
                    }
                    yield_now().await;
                }
            });
            let late = runtime.spawn(async {
                let mut idle = time::sleep(MS);
                assert!(poll_once(&mut idle).is_pending());
                stall();
                let start = Instant::now();
                idle.await;
                start.elapsed()
            });
            let late = runtime.block_on(late).unwrap();
            busy.abort();
            late < LONGEST + 50 * MS
        });
        assert!(is_bounded, "or the machine is too slow");
    }
}

/// As under a CPU quota, which gives a process some milliseconds and then none again.
#[test]
fn a_wait_that_is_held_up_goes_on() {
    for kind in 0..2 {
        let is_read = (0..20).any(|_| {
            let runtime = runtimes().into_iter().nth(kind).unwrap();
            let reads = runtime.spawn(async {
                let (sender, mut receiver) = mpsc::channel(1);
                let server = tokio::spawn(async move { timeout(IDLE, receiver.recv()).await });
                yield_now().await;
                stall();
                // The driver comes round, and a wait begins.
                tokio::time::sleep(MS).await;
                thread::sleep(LONGEST + 50 * MS);
                // Once more, after the longest wait. The message is there soon.
                tokio::time::sleep(MS).await;
                sender.send(()).await.unwrap();
                server.await.unwrap().is_ok()
            });
            runtime.block_on(reads).unwrap()
        });
        assert!(is_read, "or the machine is too busy");
    }
}

/// What is shut down while a turn waits ends, and tasks that waited are dropped.
#[test]
fn a_runtime_that_ends_while_a_turn_waits_ends_its_timers() {
    for runtime in runtimes() {
        let timer = runtime.block_on(async { Timer::current() });
        let overdue: Vec<Sleep> = (0..3).map(|_| timer.sleep(IDLE / 2)).collect();
        let deadline = timer.deadline(Duration::from_secs(3600));
        runtime.block_on(async {
            tokio::spawn(async move {
                let mut overdue = overdue;
                for sleep in &mut overdue {
                    assert!(poll_once(sleep).is_pending());
                }
                tokio::spawn(async move {
                    for sleep in overdue {
                        sleep.await;
                    }
                });
                stall();
            })
            .await
            .unwrap();
        });
        drop(runtime);
        let end = futures::executor::block_on(deadline);
        assert!(end.unwrap_err().is_shutdown());
    }
}

/// A lease must not outlive its time, so its timer waits for nothing.
#[test]
fn a_timer_without_a_grace_does_not_wait() {
    for runtime in runtimes() {
        let timer = Timer::builder().stall_grace(false);
        let timer = timer.build_on(runtime.handle()).unwrap();
        let lease = async move {
            let (mut sender, mut socket) = UnixStream::pair().unwrap();
            let mut lease = timer.sleep(IDLE);
            assert!(poll_once(&mut lease).is_pending());
            sender.write_all(&[7]).await.unwrap();
            stall();
            tokio::select! {
                biased;
                () = &mut lease => true,
                read = socket.read_u8() => read.is_err(),
            }
        };
        assert!(
            runtime.block_on(runtime.spawn(lease)).unwrap(),
            "it is over"
        );
    }
}
