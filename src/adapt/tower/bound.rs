//! What bounds a call: one duration for all, or what the request says.
//!
//! Invariant: the bound is known before the request is handed to the service.

use std::any::type_name;
use std::fmt;
use std::time::Duration;

use sealed::Call;

/// What tells the timeout of a call: [`Fixed`] or [`PerRequest`].
///
/// It is sealed: a closure for [`TimeoutLayer::per_request`](super::TimeoutLayer::per_request) can
/// tell anything.
pub trait Bound<Request>: sealed::Bound<Request> {}

/// The same timeout for each call: [`TimeoutLayer::new`](super::TimeoutLayer::new).
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub(super) Duration);

/// The timeout that a closure reads in the request:
/// [`TimeoutLayer::per_request`](super::TimeoutLayer::per_request).
#[derive(Clone, Copy)]
pub struct PerRequest<F>(pub(super) F);

pub(super) mod sealed {
    use std::time::Duration;

    /// How a call is bounded.
    #[derive(Debug)]
    pub enum Call {
        /// It may take any time.
        Unbounded,
        /// By a timeout.
        Timeout(Duration),
        /// By a scope that is open from the call on.
        Scope(Duration),
    }

    pub trait Bound<Request> {
        fn bound(&self, request: &Request) -> Call;
    }
}

impl<Request> sealed::Bound<Request> for Fixed {
    fn bound(&self, _: &Request) -> Call {
        Call::Timeout(self.0)
    }
}

impl<Request> Bound<Request> for Fixed {}

impl<F, Request> sealed::Bound<Request> for PerRequest<F>
where
    F: Fn(&Request) -> Option<Duration>,
{
    fn bound(&self, request: &Request) -> Call {
        (self.0)(request).map_or(Call::Unbounded, Call::Scope)
    }
}

impl<F, Request> Bound<Request> for PerRequest<F> where F: Fn(&Request) -> Option<Duration> {}

impl<F> fmt::Debug for PerRequest<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerRequest")
            .field(&type_name::<F>())
            .finish()
    }
}
