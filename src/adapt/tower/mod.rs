//! tower with this crate's timers: timeouts for services, and deadlines that calls pass on.
//!
//! | layer | for | what |
//! |---|---|---|
//! | [`TimeoutLayer::new`] | any service | one timeout for each call |
//! | [`TimeoutLayer::per_request`] | a server | a timeout that the request decides; the call is a [`scope`](crate::scope) |
//! | [`GrpcTimeoutLayer`] | a client | passes the scope's deadline on in the `grpc-timeout` header |
//!
//! Invariant: readiness is passed through, and a call goes to the very instance that was ready.
//!
//! A call that is not answered in time fails with a boxed [`Elapsed`](crate::error::Elapsed).
//! [`TimeoutLayer::on_elapsed`] answers it instead, and keeps the service's error type. axum
//! requires that, and so does a gRPC server: tonic turns a foreign error into `INTERNAL_ERROR`.
//!
//! ```text
//! let timeout = TimeoutLayer::new(Duration::from_secs(10)) // axum
//!     .on_elapsed(|_| Ok(StatusCode::GATEWAY_TIMEOUT.into_response()));
//! let deadline = TimeoutLayer::per_request(grpc_timeout) // tonic
//!     .on_elapsed(|_| Ok(Status::deadline_exceeded("the deadline has passed").into_http()));
//! ```
//!
//! Each call looks up the current runtime's own timer, unless `with_timer` was given one. When the
//! runtime of that timer has shut down, a call that waits fails with a boxed
//! [`Cancelled`](crate::error::Cancelled), or is answered by the closure.
//!
//! # Examples
//!
//! A timeout with a boxed error:
//!
//! ```
//! use tickwheel::{Duration, error::Elapsed, tower::TimeoutLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # tokio_test::block_on(async { tokio::time::pause();
//! let service = ServiceBuilder::new()
//!     .layer(TimeoutLayer::new(Duration::from_secs(1)))
//!     .service(service_fn(|()| std::future::pending::<Result<(), std::io::Error>>()));
//! assert!(service.oneshot(()).await.unwrap_err().is::<Elapsed>());
//! # });
//! ```
//!
//! A server whose calls end when their caller has stopped waiting, and pass on what is left:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tickwheel::tower::BoxError> {
//! use http::{Request, Response};
//! use tickwheel::tower::{GrpcTimeoutLayer, TimeoutLayer, grpc_timeout};
//! use tickwheel::{Duration, sleep};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//!
//! // The last service of the chain answers with the header that it got.
//! let backend = ServiceBuilder::new()
//!     .layer(GrpcTimeoutLayer::new())
//!     .service(service_fn(async |request: Request<()>| {
//!         Ok::<_, BoxError>(Response::new(request.headers()["grpc-timeout"].clone()))
//!     }));
//! let server = ServiceBuilder::new()
//!     .layer(TimeoutLayer::per_request(grpc_timeout))
//!     .service(service_fn(move |request: Request<()>| {
//!         let backend = backend.clone();
//!         async move {
//!             sleep(Duration::from_millis(500)).await;
//!             backend.oneshot(Request::new(request.into_body())).await
//!         }
//!     }));
//! let request = Request::builder().header("grpc-timeout", "2S").body(())?;
//! let answer = server.oneshot(request).await?;
//! assert_eq!(answer.into_body(), "1500000u");
//! # Ok(())
//! # }
//! ```

mod grpc;
mod timeout;

pub use grpc::{GrpcResponseFuture, GrpcTimeout, GrpcTimeoutLayer, grpc_timeout};
pub use timeout::{ResponseFuture, Timeout, TimeoutLayer};

/// An error of any type, as tower has it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
