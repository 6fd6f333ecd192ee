//! [tickwheel](https://docs.rs/tickwheel)'s timers in the types of other crates.
//!
//! The two crates are divided as tokio and tokio-util are. So a program moves by one rule: `tokio`
//! becomes `tickwheel`, and `tokio_util` becomes `tickwheel_util`, in the paths to their timers.
//!
//! | feature | module | in place of |
//! |---|---|---|
//! | `time` | `time`: [`DelayQueue`](https://docs.rs/tickwheel-util/latest/tickwheel_util/time/), delayed values of one owner; `future`: timeouts as methods of a future | tokio-util's |
//! | `io` | `io`: [`TimeoutStream`](https://docs.rs/tickwheel-util/latest/tickwheel_util/io/), separate timeouts for reading and writing | tokio-io-timeout's |
//! | `stream` | `stream`: [`StreamExt`](https://docs.rs/tickwheel-util/latest/tickwheel_util/stream/), timeouts, chunks and a throttle for streams, and the ticks of an interval as a stream | tokio-stream's |
//! | `http-body` | `http_body`: [`TimeoutBody`](https://docs.rs/tickwheel-util/latest/tickwheel_util/http_body/), an idle timeout between the frames of a body, and a total one | tower-http's |
//! | `tower` | `tower`: [`TimeoutLayer`](https://docs.rs/tickwheel-util/latest/tickwheel_util/tower/), timeouts for services, fixed or chosen by the request, and deadlines in gRPC's header | tower's |
//! | `full` | all of these | |
//!
//! An idle timeout for sockets is [`tickwheel::io::IdleTimeout`], and hyper's timer is tickwheel's
//! feature `hyper`.
//!
//! # Which timer
//!
//! There is one way to choose: `new`, or the method of an extension trait, takes the current
//! runtime's own timer, and `new_on(&timer, ..)` the given one. `per_request` and `per_request_on`
//! differ in the same way, and an interval brings its own timer. `DelayQueue` and `FutureExt` have
//! tokio-util's signatures, and take the current runtime's.
//!
//! # The order of polls
//!
//! A timeout polls its inner value first, and the time only if that value has to wait. So what is
//! ready wins over a deadline that is due, and arms no timer. There are two exceptions. A body
//! whose total timeout has elapsed fails even if a frame is ready. A stream's `IdleTimeout` is
//! armed when it is made.
//!
//! A breaking release of tickwheel, or of `tower-layer`, `tower-service` or `futures-core`, which
//! have no 1.0 yet, leads to one of this crate.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(
    feature = "http-body",
    feature = "io",
    feature = "stream",
    feature = "tower"
))]
mod access;
#[cfg(any(
    feature = "http-body",
    feature = "io",
    feature = "stream",
    feature = "tower"
))]
mod budget;
#[cfg(feature = "time")]
pub mod future;
#[cfg(feature = "http-body")]
pub mod http_body;
#[cfg(feature = "io")]
pub mod io;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "time")]
pub mod time;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(any(feature = "http-body", feature = "io"))]
mod wait_timeout;

/// The README's example, compiled with the documentation's.
#[cfg(all(doctest, feature = "time"))]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
