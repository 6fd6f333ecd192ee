//! Loops as the users of tokio write them, each compiled with `tokio::time` and with
//! `tickwheel::time`: the text is one, and the `use` differs.
//!
//! [`IDIOMS`] begins with what README's table shows. In most of them a task sends messages over a
//! bounded channel, and another receives them. The others are loops of one task. A timeout around a
//! ready future and many sleeps are workloads of tokio's own repository, `benches/time_timeout.rs`
//! and `benches/time_many_timers.rs`. Nothing times out.
//!
//! [`ALONE`] and [`PAST`] are loops of the same kind with a table of their own.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;

use crate::harness::{TIMEOUT, pending_once};

/// What a program does with its timers.
pub struct Idiom {
    /// What the ids of its rows begin with, but for `_` in the place of `-`.
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
        format!("{}-{workers}", self.id.replace('_', "-"))
    }
}

/// Runs so many times in so many tasks at once.
pub type Program = fn(tasks: usize, times: usize) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many messages a channel holds.
const CAPACITY: usize = 32;
const MILLISECOND: Duration = Duration::from_millis(1);
/// Sleeps that are there at once.
const MANY: usize = 10_000;
/// Ticks that are due at once.
const BURST: u32 = 2_000;

macro_rules! written_with {
    ($module:ident, $($time:ident)::+) => {
        mod $module {
            use std::future::{self, Future as _, pending, poll_fn};
            use std::hint::black_box;
            use std::task::Poll;
            use std::time::Duration;

            use tokio::select;
            use tokio::sync::mpsc::Receiver;
            use tokio::time::Instant;
            use $($time)::+::{interval, interval_at, sleep, sleep_until, timeout};

            use super::{BURST, MANY, MILLISECOND, TIMEOUT, pending_once};

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

            pub(super) async fn timeout_pending(times: usize) {
                for _ in 0..times {
                    assert!(timeout(TIMEOUT, pending_once()).await.is_ok());
                }
            }

            pub(super) async fn timeout_dropped(times: usize) {
                for time in 0..times {
                    select! {
                        biased;
                        _ = timeout(TIMEOUT, pending::<()>()) => unreachable!("it is in time"),
                        time = future::ready(time) => { black_box(time); }
                    }
                }
            }

            pub(super) async fn many(times: usize) {
                let mut left = times;
                while left > 0 {
                    let count = left.min(MANY);
                    let mut sleeps = Vec::with_capacity(count);
                    sleeps.extend((0..count).map(|_| Box::pin(sleep(TIMEOUT))));
                    for mut sleep in sleeps {
                        let _ = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
                    }
                    left -= count;
                }
            }

            pub(super) async fn past_reset(times: usize) {
                let mut now = Box::pin(sleep_until(Instant::now() - MILLISECOND));
                now.as_mut().await;
                for _ in 0..times {
                    now.as_mut().reset(Instant::now() - MILLISECOND);
                    now.as_mut().await;
                }
            }

            pub(super) async fn past_reset_armed(times: usize) {
                let mut now = Box::pin(sleep(TIMEOUT));
                for _ in 0..times {
                    now.as_mut().reset(Instant::now() + TIMEOUT);
                    let polled = poll_fn(|cx| Poll::Ready(now.as_mut().poll(cx))).await;
                    assert!(polled.is_pending());
                    now.as_mut().reset(Instant::now() - MILLISECOND);
                    now.as_mut().await;
                }
            }

            pub(super) async fn past_fresh(times: usize) {
                for _ in 0..times {
                    sleep_until(Instant::now() - MILLISECOND).await;
                }
            }

            pub(super) async fn burst_tick(times: usize) {
                let mut left = times as u32;
                while left > 0 {
                    let burst = left.min(BURST);
                    let stall: Duration = MILLISECOND * burst;
                    let mut ticks = interval_at(Instant::now() - stall, MILLISECOND);
                    for _ in 0..burst {
                        ticks.tick().await;
                    }
                    left -= burst;
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

async fn yielded(times: usize) {
    for _ in 0..times {
        pending_once().await;
    }
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

async fn in_tasks<F>(tasks: usize, times: usize, run: fn(usize) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks: JoinSet<()> = (0..tasks).map(|_| run(times)).collect();
    tasks.join_all().await;
}

/// Lists of loops: the ids begin with the prefix.
macro_rules! loops {
    ($(
        $(#[$about:meta])*
        $list:ident, $prefix:literal {
            $($how:ident $bare:ident $program:ident $workers:expr, $title:expr;)+
        }
    )+) => {$(
        $(#[$about])*
        pub const $list: &[Idiom] = &[$(Idiom {
            id: concat!($prefix, stringify!($program)),
            title: $title,
            workers: &$workers,
            tokio: |tasks, times| Box::pin($how(tasks, times, with_tokio::$program)),
            tickwheel: |tasks, times| Box::pin($how(tasks, times, with_tickwheel::$program)),
            no_timer: |tasks, times| Box::pin($how(tasks, times, $bare)),
        }),+];
    )+};
}

loops! {
    /// What a change of `use` gives, in the order of the tables.
    IDIOMS, "idiom-" {
        pairs received timeout_each [0, 1, 2], "`timeout(30 s, rx.recv())` for each message";
        pairs received select_sleep [0, 1, 2], "`select!` of `rx.recv()` and a fresh `sleep(30 s)`";
        pairs received select_pinned [0, 1, 2], "`select!` with a pinned sleep that each message resets";
        pairs received select_biased [0, 1, 2], "the same, `biased`, the sleep first";
        pairs received select_interval [0, 1, 2], "`select!` with an interval";
        pairs received interval_reset [0, 1, 2], "`select!` with an interval that each message resets";
        pairs received timeout_hundred [0, 1, 2], "one `timeout` around a hundred messages";
        in_tasks looped made [0, 1, 2, 8], "`sleep(30 s)`, made and dropped";
        in_tasks looped ready [0, 1, 2, 8], "`timeout` around a ready future";
        in_tasks yielded timeout_pending [0, 1, 2, 8], "`timeout` around a future that is pending once";
        in_tasks looped timeout_dropped [0, 1, 2, 8], "`timeout`, armed and dropped in a `select!`";
        in_tasks looped many [0, 1, 2, 8], "many sleeps, each polled once and dropped";
    }

    /// The same without the standing sleep: the only timers of their runtime. It is no state of a
    /// server.
    ALONE, "idiom-alone-" {
        in_tasks looped many [0, 1, 2], "nothing else armed in the runtime: many sleeps, each polled once and dropped";
    }

    /// What is due already, and awaited: an event loop's "now", and the ticks after a stall.
    PAST, "" {
        in_tasks looped past_reset [0, 1], "a sleep that was ready, reset to the past and awaited";
        in_tasks looped past_reset_armed [0, 1], "a sleep that is armed, reset to the past and awaited";
        in_tasks looped past_fresh [0, 1], "`sleep_until` an instant in the past, awaited";
        in_tasks looped burst_tick [0, 1], "a tick of an interval that catches up after 2 s";
    }
}
