//! What a call gives that was not answered in time: a boxed error, or what a closure makes of it.
//!
//! Invariant: the service's own answers and errors are never mapped by the closure.

use std::any::type_name;
use std::fmt;

use super::BoxError;
use crate::error::{Cancelled, Elapsed};

/// What becomes of a call that was not answered in time: [`Boxed`] or [`Mapped`].
///
/// It is sealed: a closure for [`TimeoutLayer::on_elapsed`](super::TimeoutLayer::on_elapsed) can
/// give anything.
pub trait OnElapsed<Response, Error>: sealed::OnElapsed<Response, Error> {}

/// [`Elapsed`] in a box, beside the service's own errors in boxes. [`Cancelled`] in a box once the
/// runtime that drives the timer has shut down.
#[derive(Clone, Copy, Debug, Default)]
pub struct Boxed;

/// What a closure gives, in the service's own types:
/// [`TimeoutLayer::on_elapsed`](super::TimeoutLayer::on_elapsed).
#[derive(Clone, Copy)]
pub struct Mapped<F>(pub(super) F);

pub(super) mod sealed {
    pub trait OnElapsed<Response, Error> {
        /// The error of the service with the timeout.
        type Error;

        /// What becomes of the service's own error.
        fn error(error: Error) -> Self::Error;

        /// What becomes of a call that was not answered in time.
        fn elapsed(self) -> Result<Response, Self::Error>;

        /// What becomes of a call that waits when the runtime shuts down.
        fn shut_down(self) -> Result<Response, Self::Error>;
    }
}

impl<Response, Error: Into<BoxError>> sealed::OnElapsed<Response, Error> for Boxed {
    type Error = BoxError;

    fn error(error: Error) -> BoxError {
        error.into()
    }

    fn elapsed(self) -> Result<Response, BoxError> {
        Err(Elapsed::new().into())
    }

    fn shut_down(self) -> Result<Response, BoxError> {
        Err(Cancelled::SHUTDOWN.into())
    }
}

impl<Response, Error: Into<BoxError>> OnElapsed<Response, Error> for Boxed {}

impl<F, Response, Error> sealed::OnElapsed<Response, Error> for Mapped<F>
where
    F: FnOnce(Elapsed) -> Result<Response, Error>,
{
    type Error = Error;

    fn error(error: Error) -> Error {
        error
    }

    fn elapsed(self) -> Result<Response, Error> {
        (self.0)(Elapsed::new())
    }

    fn shut_down(self) -> Result<Response, Error> {
        // The closure gives the only answer in the service's own types.
        (self.0)(Elapsed::new())
    }
}

impl<F, Response, Error> OnElapsed<Response, Error> for Mapped<F> where
    F: FnOnce(Elapsed) -> Result<Response, Error>
{
}

impl<F> fmt::Debug for Mapped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mapped").field(&type_name::<F>()).finish()
    }
}
