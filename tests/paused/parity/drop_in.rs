//! A program written for `tokio::time` compiles and runs after no more than a change of its `use`
//! lines: the items, their signatures and traits, and what they do.

use std::fmt::{Debug, Display};
use std::future::{Future, IntoFuture, Ready, pending, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The program, which needs the exact shapes of tokio's items.
macro_rules! program {
    ($name:ident, $($time:ident)::+) => {
        program!($name, $($time)::+, $($time)::+);
    };
    ($name:ident, $($time:ident)::+, $($within:ident)::+) => {
        mod $name {
            use super::*;

            // Every public item of tokio::time 1.54. `advance`, `pause` and `resume` are of its
            // `test-util`.
            #[cfg(feature = "test-util")]
            use $($time)::+::{advance, pause, resume};
            use $($time)::+::{
                self as time, Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout,
                interval, interval_at, sleep, sleep_until, timeout, timeout_at,
            };
            use $($within)::+::error::{self, Elapsed, Error};

            pin_project_lite::pin_project! {
                /// As tokio-stream's: reset through a projection that is not `mut`.
                struct Rearmed {
                    #[pin]
                    sleep: Sleep,
                    rounds: u32,
                }
            }

            impl Rearmed {
                fn rearm(self: Pin<&mut Self>, deadline: Instant) {
                    let this = self.project();
                    this.sleep.reset(deadline);
                }
            }

            impl Future for Rearmed {
                type Output = Instant;

                fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Instant> {
                    while Future::poll(self.as_mut().project().sleep, cx).is_ready() {
                        let deadline = self.sleep.deadline();
                        if self.rounds == 0 {
                            return Poll::Ready(deadline);
                        }
                        *self.as_mut().project().rounds -= 1;
                        self.as_mut().rearm(deadline + Duration::from_millis(5));
                    }
                    Poll::Pending
                }
            }

            /// As quinn's: a trait whose methods have the names of the type's own.
            trait AsyncTimer: Send + Debug + 'static {
                fn reset(self: Pin<&mut Self>, i: Instant);
                fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
            }

            impl AsyncTimer for Sleep {
                fn reset(self: Pin<&mut Self>, i: Instant) {
                    Self::reset(self, i);
                }

                fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
                    Future::poll(self, cx)
                }
            }

            pub(super) async fn run() -> Vec<(Duration, String)> {
                let start = Instant::now();
                let mut trace = Vec::new();
                let mut note = |said: String| trace.push((start.elapsed(), said));

                let elapsed = timeout(Duration::from_millis(20), pending::<()>()).await;
                let elapsed = elapsed.unwrap_err();
                note(format!("{elapsed}, {elapsed:?}"));
                let error = std::io::Error::from(elapsed);
                note(format!("{:?}: {error}", error.kind()));
                note(format!("{:?}", timeout_at(start, Request).await));
                let mut exchanged = timeout(Duration::ZERO, ready(3));
                *exchanged.get_mut() = ready(4);
                note(exchanged.get_ref().clone().await.to_string());
                note(exchanged.into_inner().await.to_string());

                let rearmed = Rearmed { sleep: sleep(Duration::from_millis(3)), rounds: 4 };
                note(format!("{:?}", rearmed.await - start));
                let mut timer: Pin<Box<dyn AsyncTimer>> = Box::pin(sleep(Duration::from_secs(60 * 60)));
                timer.as_mut().reset(start + Duration::from_millis(350));
                std::future::poll_fn(|cx| timer.as_mut().poll(cx)).await;
                note("a boxed timer".to_owned());
                let far = sleep(Duration::MAX);
                note(format!("{:?}", timeout(Duration::from_millis(5), far).await));
                trace
            }

            pub(super) fn items() {
                type Value = Ready<u8>;
                let _: fn(Duration) -> Sleep = sleep;
                let _: fn(Instant) -> Sleep = sleep_until;
                let _: fn(Duration, Value) -> Timeout<Value> = timeout::<Value>;
                let _: fn(Instant, Value) -> Timeout<Value> = timeout_at::<Value>;
                let _: fn(Duration) -> Interval = interval;
                let _: fn(Instant, Duration) -> Interval = interval_at;
                #[cfg(feature = "test-util")]
                {
                    let _: (fn(), fn()) = (pause, resume);
                    drop::<Pin<Box<dyn Future<Output = ()> + Send>>>(Box::pin(advance(Duration::ZERO)));
                }

                let _: fn(&Sleep) -> Instant = Sleep::deadline;
                let _: fn(&Sleep) -> bool = Sleep::is_elapsed;
                let _: fn(Pin<&mut Sleep>, Instant) = Sleep::reset;

                let _: fn(&Timeout<u8>) -> &u8 = Timeout::get_ref;
                let _: fn(&mut Timeout<u8>) -> &mut u8 = Timeout::get_mut;
                let _: fn(Timeout<u8>) -> u8 = Timeout::into_inner;

                let _: fn(&mut Interval, &mut Context<'_>) -> Poll<Instant> = Interval::poll_tick;
                let _: fn(&mut Interval) = Interval::reset;
                let _: fn(&mut Interval) = Interval::reset_immediately;
                let _: fn(&mut Interval, Duration) = Interval::reset_after;
                let _: fn(&mut Interval, Instant) = Interval::reset_at;
                let _: fn(&Interval) -> MissedTickBehavior = Interval::missed_tick_behavior;
                let _: fn(&mut Interval, MissedTickBehavior) = Interval::set_missed_tick_behavior;
                let _: fn(&Interval) -> Duration = Interval::period;
                let _ = async |interval: &mut Interval| -> Instant { interval.tick().await };

                let _: [fn() -> Error; 3] = [Error::shutdown, Error::at_capacity, Error::invalid];
                let _: [fn(&Error) -> bool; 3] = [Error::is_shutdown, Error::is_at_capacity, Error::is_invalid];

                shared::<Sleep>();
                shared::<Interval>();
                shared::<Timeout<Ready<u8>>>();
                unpin::<Interval>();
                // What a Timeout holds decides, as with tokio's.
                sent::<Timeout<Pin<Box<dyn Future<Output = ()> + Send>>>>();
                future::<Sleep, ()>();
                future::<Timeout<Ready<u8>>, Result<u8, Elapsed>>();
                an_error::<Elapsed>();
                an_error::<Error>();
                let _: fn(Elapsed) -> std::io::Error = From::from;
                let _: fn(&Elapsed, &Elapsed) -> bool = PartialEq::eq;
                let _: fn(&Error) -> Error = Clone::clone;
                let _: fn(&Error) -> error::Error = |error| *error;
                // The vocabulary is tokio's own, so that values go from one to the other.
                let _: fn(time::Instant) -> tokio::time::Instant = |instant| instant;
                let _: fn(time::Duration) -> std::time::Duration = |duration| duration;
                let _: fn(time::MissedTickBehavior) -> tokio::time::MissedTickBehavior = |behavior| behavior;
            }
        }
    };
}

/// Not a future, but it becomes one.
struct Request;

impl IntoFuture for Request {
    type Output = u8;
    type IntoFuture = Ready<u8>;

    fn into_future(self) -> Ready<u8> {
        ready(9)
    }
}

fn shared<T: Send + Sync + Debug>() {}
fn sent<T: Send>() {}
fn unpin<T: Unpin>() {}
fn future<T: Future<Output = O>, O>() {}
fn an_error<T: std::error::Error + Display + Send + Sync + 'static>() {}

program!(with_tokio, tokio::time);
// The root has the other items too. `Error` is in `time` alone.
program!(with_the_crate, tickwheel, tickwheel::time);
program!(with_its_time, tickwheel::time);

#[test]
fn functions_methods_and_traits_are_tokios() {
    with_tokio::items();
    with_the_crate::items();
    with_its_time::items();
}

#[tokio::test(start_paused = true)]
async fn a_program_that_changes_its_use_lines_behaves_the_same() {
    let expected = with_tokio::run().await;
    assert_eq!(with_the_crate::run().await, expected);
    assert_eq!(with_its_time::run().await, expected);
}
