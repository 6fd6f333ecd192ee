//! Loops as the users of tokio write them, each compiled with `tokio::time` and with
//! `tickwheel::time`: the text is one, and the `use` differs.
//!
//! A task sends messages over a bounded channel, and another receives them. Nothing times out. The
//! last two are workloads of tokio's own repository, `benches/time_timeout.rs` and
//! `benches/time_many_timers.rs`; a sleep that is made and dropped is an idiom and a workload.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;

use crate::harness::TIMEOUT;

/// What a program does with its timers.
pub struct Idiom {
    pub id: &'static str,
    pub title: &'static str,
    /// On how many workers it has a row. 0 is a runtime on the current thread.
    pub workers: &'static [usize],
    pub tokio: Program,
    pub tickwheel: Program,
    /// The same messages, or turns of a loop, without a timer.
    pub no_timer: Program,
}

impl Idiom {
    /// Its row with so many workers.
    pub fn row(&self, workers: usize) -> String {
        format!("idiom-{}-{workers}", self.id.replace('_', "-"))
    }
}

/// Runs so many times in so many tasks at once.
pub type Program = fn(tasks: usize, times: usize) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many messages a channel holds.
const CAPACITY: usize = 32;

macro_rules! written_with {
    ($module:ident, $($time:ident)::+) => {
        mod $module {
            use std::future::{Future as _, poll_fn};
            use std::hint::black_box;
            use std::task::Poll;

            use tokio::select;
            use tokio::sync::mpsc::Receiver;
            use tokio::time::Instant;
            use $($time)::+::{interval, sleep, timeout};

            use super::TIMEOUT;

            type Messages = Receiver<usize>;

            pub(super) async fn timeout_each(mut messages: Messages) {
                while let Ok(Some(message)) = timeout(TIMEOUT, messages.recv()).await {
                    black_box(message);
                }
            }

            pub(super) async fn select_sleep(mut messages: Messages) {
                loop {
                    select! {
                        message = messages.recv() => match message {
                            Some(message) => _ = black_box(message),
                            None => break,
                        },
                        () = sleep(TIMEOUT) => break,
                    }
                }
            }

            pub(super) async fn select_pinned(mut messages: Messages) {
                let idle = sleep(TIMEOUT);
                tokio::pin!(idle);
                loop {
                    select! {
                        message = messages.recv() => match message {
                            Some(message) => {
                                black_box(message);
                                idle.as_mut().reset(Instant::now() + TIMEOUT);
                            }
                            None => break,
                        },
                        () = &mut idle => break,
                    }
                }
            }

            pub(super) async fn select_biased(mut messages: Messages) {
                let idle = sleep(TIMEOUT);
                tokio::pin!(idle);
                loop {
                    select! {
                        biased;
                        () = &mut idle => break,
                        message = messages.recv() => match message {
                            Some(message) => {
                                black_box(message);
                                idle.as_mut().reset(Instant::now() + TIMEOUT);
                            }
                            None => break,
                        },
                    }
                }
            }

            pub(super) async fn select_interval(mut messages: Messages) {
                let mut ticks = interval(TIMEOUT);
                loop {
                    select! {
                        message = messages.recv() => match message {
                            Some(message) => _ = black_box(message),
                            None => break,
                        },
                        _ = ticks.tick() => {}
                    }
                }
            }

            pub(super) async fn interval_reset(mut messages: Messages) {
                let mut ticks = interval(TIMEOUT);
                loop {
                    select! {
                        message = messages.recv() => match message {
                            Some(message) => {
                                black_box(message);
                                ticks.reset();
                            }
                            None => break,
                        },
                        _ = ticks.tick() => {}
                    }
                }
            }

            pub(super) async fn timeout_hundred(mut messages: Messages) {
                let mut hundred = async || {
                    for _ in 0..100 {
                        black_box(messages.recv().await?);
                    }
                    Some(())
                };
                while let Ok(Some(())) = timeout(TIMEOUT, hundred()).await {}
            }

            pub(super) async fn made(times: usize) {
                for _ in 0..times {
                    let _made = black_box(sleep(TIMEOUT));
                }
            }

            pub(super) async fn ready(times: usize) {
                for _ in 0..times {
                    assert!(timeout(TIMEOUT, async { black_box(1) }).await.is_ok());
                }
            }

            pub(super) async fn many(times: usize) {
                let mut sleeps = Vec::with_capacity(times);
                sleeps.extend((0..times).map(|_| Box::pin(sleep(TIMEOUT))));
                for mut sleep in sleeps {
                    let _ = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
                }
            }
        }
    };
}

written_with!(with_tokio, tokio::time);
written_with!(with_tickwheel, tickwheel::time);

async fn received(mut messages: Receiver<usize>) {
    while let Some(message) = messages.recv().await {
        black_box(message);
    }
}

async fn looped(times: usize) {
    (0..times).for_each(|time| _ = black_box(time));
}

/// A sender and a receiver for each of the tasks.
async fn pairs<F>(tasks: usize, times: usize, receive: fn(Receiver<usize>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut receivers = JoinSet::new();
    for _ in 0..tasks {
        let (sender, messages) = channel(CAPACITY);
        tokio::spawn(async move {
            for message in 0..times {
                sender.send(message).await.expect("the receiver is there");
            }
        });
        receivers.spawn(receive(messages));
    }
    receivers.join_all().await;
}

async fn alone<F>(tasks: usize, times: usize, run: fn(usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks: JoinSet<()> = (0..tasks).map(|_| run(times)).collect();
    tasks.join_all().await;
}

/// The idioms, in the order of the tables.
macro_rules! idioms {
    ($($how:ident $bare:ident $id:ident $workers:expr, $title:expr;)+) => {
        pub const IDIOMS: &[Idiom] = &[$(Idiom {
            id: stringify!($id),
            title: $title,
            workers: &$workers,
            tokio: |tasks, times| Box::pin($how(tasks, times, with_tokio::$id)),
            tickwheel: |tasks, times| Box::pin($how(tasks, times, with_tickwheel::$id)),
            no_timer: |tasks, times| Box::pin($how(tasks, times, $bare)),
        }),+];
    };
}

idioms! {
    pairs received timeout_each [0, 1, 2], "`timeout(30 s, rx.recv())` for each message";
    pairs received select_sleep [0, 1, 2], "`select!` of `rx.recv()` and a fresh `sleep(30 s)`";
    pairs received select_pinned [0, 1, 2], "`select!` with a pinned sleep that each message resets";
    pairs received select_biased [0, 1, 2], "the same, `biased`, the sleep first";
    pairs received select_interval [0, 1, 2], "`select!` with an interval";
    pairs received interval_reset [0, 1, 2], "`select!` with an interval that each message resets";
    pairs received timeout_hundred [0, 1, 2], "one `timeout` around a hundred messages";
    alone looped made [0, 1, 2, 8], "`sleep(30 s)`, made and dropped";
    alone looped ready [0, 8], "`timeout` around a ready future";
    alone looped many [0, 8], "many sleeps, each polled once and dropped";
}
