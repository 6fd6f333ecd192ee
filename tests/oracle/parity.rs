//! The same program on `tokio::time` and on this crate, line by line: what was ready when, what
//! each thing reported, and at which instants each task was woken. Some things are polled by hand,
//! by one of two wakers. Others are tasks of their own, which use a sleep as `idioms` says.
//!
//! These differences are legitimate, and the programs or the comparison leave them out. Each is in
//! `docs/MIGRATION.md`.
//!
//! - **Sleeps that one turn of the driver fires wake their tasks in any order.** Neither crate
//!   promises one, and neither keeps to the order of the deadlines.
//! - **A first poll looks at the clock here**, and there only at what the driver has seen. So here
//!   it is ready if the clock has moved since then, and wakes no task.
//! - **What is too far to be counted saturates elsewhere**, because the wheels differ.

use std::cell::Cell;
use std::future::Future;
use std::mem::take;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tickwheel::{Duration, Instant};

use crate::common::{catch, waker_fn};
use crate::idioms::{Idiom, Message, Tasks};
use crate::paused::program::{self, Op, duration};
use crate::paused::shrink;
use crate::paused::{Gate, gate};
use crate::paused_clock::{paused, paused_local};

/// What both clocks show: nanoseconds from the start, negative before it.
fn nanos(start: Instant, at: Instant) -> i128 {
    match at.checked_duration_since(start) {
        Some(since) => since.as_nanos() as i128,
        None => -((start - at).as_nanos() as i128),
    }
}

fn from_now(micros: i64) -> Instant {
    let distance = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 {
        Instant::now() - distance
    } else {
        Instant::now() + distance
    }
}

/// The interpreter, once for each of the two.
macro_rules! interpreter {
    ($name:ident, $($time:ident)::+) => {
        mod $name {
            use super::*;
            use $($time)::+::{Interval, MissedTickBehavior, Sleep, Timeout};
            use $($time)::+ as time;

            enum Made {
                Sleep(Pin<Box<Sleep>>),
                Timeout(Pin<Box<Timeout<Gate>>>, Rc<Cell<bool>>),
                Interval(Interval),
                Tasks(Tasks),
            }

            struct Waiting {
                made: Made,
                /// When each of its two wakers was woken.
                wakes: [Arc<Mutex<Vec<Instant>>>; 2],
            }

            impl Waiting {
                fn new(made: Made) -> Waiting {
                    Waiting { made, wakes: Default::default() }
                }

                fn poll(&mut self, which: usize, start: Instant) -> String {
                    let wakes = self.wakes[which].clone();
                    let waker = waker_fn(move || wakes.lock().unwrap().push(Instant::now()));
                    let made = &mut self.made;
                    let mut said = String::new();
                    let unconstrained = tokio::task::unconstrained(std::future::poll_fn(|cx| {
                        said = match made {
                            Made::Sleep(sleep) => format!("{:?}", sleep.as_mut().poll(cx)),
                            Made::Timeout(timeout, _) => {
                                format!("{:?}", timeout.as_mut().poll(cx).map(|result| result.is_ok()))
                            }
                            Made::Interval(interval) => {
                                let tick = interval.poll_tick(cx);
                                format!("{:?}", tick.map(|tick| nanos(start, tick)))
                            }
                            Made::Tasks(tasks) => {
                                tasks.send(which, Message::Poke);
                                String::new()
                            }
                        };
                        Poll::Ready(())
                    }));
                    let _ = pin!(unconstrained).poll(&mut Context::from_waker(&waker));
                    said
                }

                /// Which of its tasks were woken and when, and what it reports.
                fn state(&mut self, start: Instant) -> String {
                    let at = |at: Instant| nanos(start, at);
                    let wakes = self.wakes.each_ref().map(|wakes| {
                        let wakes = take(&mut *wakes.lock().unwrap());
                        wakes.into_iter().map(at).collect::<Vec<_>>()
                    });
                    match &self.made {
                        Made::Sleep(sleep) => {
                            let deadline = nanos(start, sleep.deadline());
                            let is_elapsed = sleep.is_elapsed();
                            format!("{wakes:?} {is_elapsed} {deadline}")
                        }
                        Made::Tasks(tasks) => {
                            let mut log = tasks.log.lock().unwrap();
                            // The sleeps of one instant wake in any order.
                            log.events.sort_by_key(|&(event, at)| (at, event));
                            let events = log.events.drain(..);
                            let events = events.map(|(event, when)| (event, at(when)));
                            format!("{:?}", events.collect::<Vec<_>>())
                        }
                        _ => format!("{wakes:?}"),
                    }
                }
            }

            fn make(op: &Op) -> Option<Made> {
                Some(match *op {
                    Op::Sleep(_, after) => Made::Sleep(Box::pin(time::sleep(duration(after)))),
                    Op::SleepUntil(_, at) => {
                        Made::Sleep(Box::pin(time::sleep_until(from_now(at))))
                    }
                    Op::Timeout(_, after) => {
                        let (gate, is_open) = gate();
                        Made::Timeout(Box::pin(time::timeout(duration(after), gate)), is_open)
                    }
                    Op::TimeoutAt(_, at) => {
                        let (gate, is_open) = gate();
                        Made::Timeout(Box::pin(time::timeout_at(from_now(at), gate)), is_open)
                    }
                    Op::Interval(_, at, period, behavior) => {
                        let mut interval = time::interval_at(from_now(at), duration(period));
                        interval.set_missed_tick_behavior(match behavior {
                            0 => MissedTickBehavior::Burst,
                            1 => MissedTickBehavior::Delay,
                            _ => MissedTickBehavior::Skip,
                        });
                        Made::Interval(interval)
                    }
                    Op::Tasks(idiom, at) => {
                        let idiom = Idiom::ALL[usize::from(idiom) % Idiom::ALL.len()];
                        Made::Tasks(Tasks::spawn::<Sleep>(idiom, from_now(at)))
                    }
                    _ => return None,
                })
            }

            /// Returns a line for each operation, and one for the state of each thing after it.
            pub(super) async fn run(ops: &[Op]) -> Vec<String> {
                let start = Instant::now();
                let mut all: Vec<Waiting> = Vec::new();
                let mut trace = Vec::new();
                for op in ops {
                    let mut said = String::new();
                    all.extend(make(op).map(Waiting::new));
                    let count = all.len();
                    let of = |nth: u16| usize::from(nth) % count.max(1);
                    match *op {
                        Op::Advance(by) => {
                            tokio::time::advance(duration(by)).await;
                        }
                        Op::RunFor(by) => {
                            tokio::time::sleep(duration(by)).await;
                        }
                        Op::Poll(nth, waker) if count > 0 => {
                            said = all[of(nth)].poll(waker.into(), start);
                        }
                        Op::PollAll(waker) => {
                            for waiting in &mut all {
                                said += &waiting.poll(waker.into(), start);
                            }
                        }
                        Op::Finish(nth) if count > 0 => {
                            if let Made::Timeout(_, is_open) = &all[of(nth)].made {
                                is_open.set(true);
                            }
                        }
                        Op::SleepResetAt(nth, at) if count > 0 => {
                            match &mut all[of(nth)].made {
                                Made::Sleep(sleep) => sleep.as_mut().reset(from_now(at)),
                                Made::Interval(interval) => interval.reset_at(from_now(at)),
                                Made::Tasks(tasks) => {
                                    let due = Message::Reset(from_now(at));
                                    tasks.send(nth.into(), due);
                                }
                                Made::Timeout(..) => {}
                            }
                        }
                        Op::IntervalReset(nth) if count > 0 => {
                            if let Made::Interval(interval) = &mut all[of(nth)].made {
                                interval.reset();
                            }
                        }
                        Op::IntervalResetImmediately(nth) if count > 0 => {
                            if let Made::Interval(interval) = &mut all[of(nth)].made {
                                interval.reset_immediately();
                            }
                        }
                        Op::DropSleeper(nth) if count > 0 => drop(all.swap_remove(of(nth))),
                        _ => {}
                    }
                    for _ in 0..8 {
                        tokio::task::yield_now().await;
                    }
                    let now = nanos(start, Instant::now());
                    trace.push(format!("{now}: {op:?} {said}"));
                    let states = all.iter_mut().map(|waiting| waiting.state(start));
                    trace.push(states.collect::<Vec<_>>().join(", "));
                }
                trace
            }
        }
    };
}

interpreter!(on_tokio, tokio::time);
interpreter!(on_tickwheel, tickwheel::time);

/// What the two run on. The clock of both is paused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    CurrentThread,
    LocalRuntime,
}

fn trace(on: On, run: impl Future<Output = Vec<String>>) -> Vec<String> {
    let trace = catch(|| match on {
        On::CurrentThread => paused().block_on(run),
        On::LocalRuntime => paused_local().block_on(run),
    });
    trace.unwrap_or_else(|(message, _)| vec![message])
}

/// How the two differ, if they do.
fn compare(on: On, ops: &[Op]) -> Result<(), String> {
    let expected = trace(on, on_tokio::run(ops));
    let actual = trace(on, on_tickwheel::run(ops));
    let differs = expected
        .iter()
        .zip(&actual)
        .find(|(expected, actual)| expected != actual);
    match differs {
        Some((expected, actual)) => Err(format!("tokio:     {expected}\ntickwheel: {actual}")),
        None if expected.len() != actual.len() => Err("one of the two ends early".to_owned()),
        None => Ok(()),
    }
}

pub(crate) fn run(on: On, seed: u64, operations: usize) -> Result<(), String> {
    let ops = program::random_for_both(seed, operations);
    shrink(ops, |ops| compare(on, ops))
        .map_err(|(ops, message)| format!("{on:?}, seed {seed}: {ops:#?}\n{message}"))
}
