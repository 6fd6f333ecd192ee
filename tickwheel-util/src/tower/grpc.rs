//! The `grpc-timeout` header: read by a server, written by a client.
//!
//! Invariant: a written header never promises more time than is left.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use tickwheel::error::Elapsed;
use tickwheel::time_left;

use super::BoxError;
use crate::access::access_within;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The most digits of a header, and the greatest number with that many.
const DIGITS: usize = 8;
const GREATEST: u128 = 99_999_999;

/// The units of the header, the finest first, with their nanoseconds.
const UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

/// Returns how long the caller waits, by the `grpc-timeout` header of its request.
///
/// `None` if the header is missing or malformed. Of several headers, the shortest time counts. It
/// is for [`TimeoutLayer::per_request`](super::TimeoutLayer::per_request).
///
/// # Examples
///
/// ```
/// use tickwheel::Duration;
/// use tickwheel_util::tower::grpc_timeout;
///
/// let request = http::Request::builder().header("grpc-timeout", "250m").body(())?;
/// assert_eq!(grpc_timeout(&request), Some(Duration::from_millis(250)));
/// # Ok::<(), http::Error>(())
/// ```
pub fn grpc_timeout<B>(request: &Request<B>) -> Option<Duration> {
    shortest(request.headers()).map(|(timeout, _)| timeout)
}

fn shortest(headers: &HeaderMap) -> Option<(Duration, &HeaderValue)> {
    let headers = headers.get_all(GRPC_TIMEOUT).into_iter();
    let well_formed = headers.filter_map(|header| Some((read(header)?, header)));
    well_formed.min_by_key(|(timeout, _)| *timeout)
}

fn read(header: &HeaderValue) -> Option<Duration> {
    let (unit, digits) = header.as_bytes().split_last()?;
    let is_short = (1..=DIGITS).contains(&digits.len());
    if !is_short || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let (_, nanos) = UNITS.iter().find(|(letter, _)| letter == unit)?;
    Duration::from_nanos(*nanos).checked_mul(number)
}

/// In the finest unit with room for it, rounded down.
fn written(left: Duration) -> HeaderValue {
    let nanos = left.as_nanos();
    let numbers = UNITS.map(|(unit, length)| (unit, nanos / u128::from(length)));
    let fits = numbers.into_iter().find(|(_, number)| *number <= GREATEST);
    let (unit, number) = fits.unwrap_or((b'H', GREATEST));
    let text = format!("{number}{}", char::from(unit));
    HeaderValue::try_from(text).expect("digits and a letter are a header's text")
}

/// Wraps a client in a [`GrpcTimeout`]. Place it outside of layers such as tower's `Buffer`, which
/// call the client in another task.
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "a layer does nothing until a service is given to it"]
pub struct GrpcTimeoutLayer(());

impl GrpcTimeoutLayer {
    /// Makes a layer for a client's service.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tickwheel::{Duration, Instant, with_deadline};
    /// use tickwheel_util::tower::{BoxError, GrpcTimeoutLayer, grpc_timeout};
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// # tokio_test::block_on(async {
    /// let server = service_fn(async |request: Request<()>| {
    ///     Ok::<_, BoxError>(Response::new(grpc_timeout(&request)))
    /// });
    /// let client = ServiceBuilder::new().layer(GrpcTimeoutLayer::new()).service(server);
    /// let second = Instant::now() + Duration::from_secs(1);
    /// let answer = with_deadline(second, client.oneshot(Request::new(()))).await??;
    /// assert!(answer.into_body() <= Some(Duration::from_secs(1)));
    /// # Ok::<(), BoxError>(()) }).unwrap();
    /// ```
    pub const fn new() -> GrpcTimeoutLayer {
        GrpcTimeoutLayer(())
    }
}

impl<S> Layer<S> for GrpcTimeoutLayer {
    type Service = GrpcTimeout<S>;

    fn layer(&self, inner: S) -> GrpcTimeout<S> {
        GrpcTimeout::new(inner)
    }
}

/// A client that passes on the deadline that is [open](tickwheel::with_deadline()) where it is
/// called.
///
/// - It writes the [`time_left`] into the `grpc-timeout` header, rounded down. A shorter header of
///   the request stays. Where no deadline is open, the request passes unchanged.
/// - It does not bound the call. The deadline does, which is open only in the task that polls it.
/// - If no time is left it is ready at once, without asking the inner service, and the next call
///   fails, even where the deadline is not open. If the deadline passes between `poll_ready` and
///   `call`, the inner service stays reserved until the next call.
///
/// # Errors
///
/// A boxed [`Elapsed`] if no time is left, or the inner service's error, boxed.
///
/// # Examples
///
/// ```
/// # use http::{Request, Response};
/// # use tickwheel::{Duration, Instant, with_deadline};
/// # use tickwheel_util::tower::GrpcTimeout;
/// # use tower::{ServiceExt, service_fn};
/// # tokio_test::block_on(async {
/// let server = service_fn(async |request: Request<()>| {
///     Ok::<_, std::io::Error>(Response::new(request.headers().contains_key("grpc-timeout")))
/// });
/// let second = Instant::now() + Duration::from_secs(1);
/// let call = GrpcTimeout::new(server).oneshot(Request::new(()));
/// assert!(with_deadline(second, call).await??.into_body());
/// # Ok::<(), tickwheel_util::tower::BoxError>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct GrpcTimeout<S> {
    inner: S,
    /// Whether the last `poll_ready` asked the inner service.
    is_inner_ready: bool,
}

impl<S> GrpcTimeout<S> {
    /// Makes a client that passes deadlines on.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{Request, Response};
    /// use tickwheel_util::tower::{BoxError, GrpcTimeout, grpc_timeout};
    /// use tower::{ServiceExt, service_fn};
    ///
    /// # tokio_test::block_on(async {
    /// let server = service_fn(async |request: Request<()>| {
    ///     Ok::<_, BoxError>(Response::new(grpc_timeout(&request)))
    /// });
    /// let answer = GrpcTimeout::new(server).oneshot(Request::new(())).await?;
    /// assert_eq!(answer.into_body(), None, "no deadline is open here");
    /// # Ok::<(), BoxError>(()) }).unwrap();
    /// ```
    pub const fn new(inner: S) -> GrpcTimeout<S> {
        GrpcTimeout {
            inner,
            is_inner_ready: true,
        }
    }

    access_within!(inner: S);
}

impl<S, B> Service<Request<B>> for GrpcTimeout<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = GrpcResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Not an error, which would mean that this service can never be called again.
        self.is_inner_ready = time_left() != Some(Duration::ZERO);
        if !self.is_inner_ready {
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let left = time_left();
        if !self.is_inner_ready || left == Some(Duration::ZERO) {
            return GrpcResponseFuture { call: None };
        }
        if let Some(left) = left {
            let headers = request.headers_mut();
            let header = match shortest(headers) {
                Some((asked, header)) if asked <= left => header.clone(),
                _ => written(left),
            };
            headers.insert(GRPC_TIMEOUT, header);
        }
        GrpcResponseFuture {
            call: Some(self.inner.call(request)),
        }
    }
}

pin_project! {
    /// The response future of [`GrpcTimeout`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct GrpcResponseFuture<F> {
        // None if no time was left.
        #[pin]
        call: Option<F>,
    }
}

impl<F, Response, Error> Future for GrpcResponseFuture<F>
where
    F: Future<Output = Result<Response, Error>>,
    Error: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().call.as_pin_mut() {
            Some(call) => call.poll(cx).map_err(Into::into),
            None => Poll::Ready(Err(Elapsed::new().into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Duration> {
        let request = Request::builder().header("grpc-timeout", text);
        grpc_timeout(&request.body(()).unwrap())
    }

    #[test]
    fn every_unit_is_read() {
        for (text, expected) in [
            ("2H", Duration::from_secs(7200)),
            ("3M", Duration::from_secs(180)),
            ("4S", Duration::from_secs(4)),
            ("5m", Duration::from_millis(5)),
            ("6u", Duration::from_micros(6)),
            ("7n", Duration::from_nanos(7)),
            ("0n", Duration::ZERO),
            ("00000001S", Duration::from_secs(1)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
        ] {
            assert_eq!(parsed(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn malformed_headers_are_no_timeout() {
        let malformed = "|S|5|5s|5h|-5S|+5S|5.0S| 5S|5 S|5SS|123456789S|5\u{b5}".split('|');
        for text in malformed {
            assert_eq!(parsed(text), None, "{text:?}");
        }
        assert_eq!(grpc_timeout(&Request::new(())), None);
    }

    #[test]
    fn a_written_timeout_is_rounded_down_to_the_finest_unit_with_room() {
        for (nanos, text) in [
            (0, "0n"),
            (99_999_999, "99999999n"),
            (100_000_999, "100000u"),
            (99_999_999_999, "99999999u"),
            (100_000_999_999, "100000m"),
            (100_000_999_999_999, "100000S"),
            (600_000_000_000_000_000, "10000000M"),
            (u64::MAX, "5124095H"),
        ] {
            assert_eq!(written(Duration::from_nanos(nanos)), text);
        }
        assert_eq!(written(Duration::MAX), "99999999H");
    }
}
