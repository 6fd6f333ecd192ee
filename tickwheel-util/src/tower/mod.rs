//! tower with tickwheel's timers: timeouts for services, and deadlines that calls pass on.
//!
//! | layer | for | what |
//! |---|---|---|
//! | [`TimeoutLayer::new`] | any service | one timeout for each call |
//! | [`TimeoutLayer::per_request`] | a server | a timeout that the request decides; the call runs [with that deadline](tickwheel::with_deadline()) |
//! | [`GrpcTimeoutLayer`] | a client | passes the open deadline on in the `grpc-timeout` header |
//!
//! A call that is not answered in time fails with a boxed [`Elapsed`](tickwheel::error::Elapsed),
//! unless [`TimeoutLayer::on_elapsed`] answers it in the service's own types. axum requires that,
//! and so does a gRPC server: tonic turns a foreign error into `INTERNAL_ERROR`.
//!
//! ```text
//! let timeout = TimeoutLayer::new(Duration::from_secs(10)) // axum
//!     .on_elapsed(|_| Ok(StatusCode::GATEWAY_TIMEOUT.into_response()));
//! let deadline = TimeoutLayer::per_request(grpc_timeout) // tonic
//!     .on_elapsed(|_| Ok(Status::deadline_exceeded("the deadline has passed").into_http()));
//! ```
//!
//! [Recipes](https://docs.rs/tickwheel/latest/tickwheel/docs/recipes/) has a chain of services that
//! pass a deadline on.

mod grpc;
mod timeout;

pub use grpc::{GrpcResponseFuture, GrpcTimeout, GrpcTimeoutLayer, grpc_timeout};
pub use timeout::{Answer, Bound, ResponseFuture, Timeout, TimeoutLayer};

/// An error of any type: the same type as tower's `BoxError`.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
