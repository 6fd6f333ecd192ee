//! tower's layers in tonic: a server with the deadline of the request, and a client that passes on
//! what is left, with real connections over loopback.
//!
//! Invariant: after each scenario nothing stays armed on the timer of the layer.
//!
//! tonic has a timeout of its own for the same header, in its server and in its client. Its answer
//! is `Cancelled`; the layer's here is `DeadlineExceeded`.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use tickwheel::error::Elapsed;
use tickwheel::tower::{GrpcTimeout, GrpcTimeoutLayer, TimeoutLayer, grpc_timeout};
use tickwheel::{Instant, Timer, remaining, scope, timeout};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::{Layer, Service, service_fn};

/// How long a test waits for what must happen, and fails after that.
const PATIENCE: Duration = Duration::from_secs(30);

/// A service with one method of text to text, as generated code would make it.
#[derive(Clone)]
struct Unary<H>(H);

impl<H> NamedService for Unary<H> {
    const NAME: &'static str = "test.Unary";
}

impl<H, F> Service<http::Request<Body>> for Unary<H>
where
    H: FnMut(Request<String>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<String>, Status>> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let handler = service_fn(self.0.clone());
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<String, String>::default());
            Ok(grpc.unary(handler, request).await)
        })
    }
}

/// Serves the method. A call has a hundredth of what its caller waits, so that the answer is there
/// long before tonic's own timeouts.
async fn serve<H, F>(timer: &Timer, handler: H) -> SocketAddr
where
    H: FnMut(Request<String>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<String>, Status>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let deadlines = TimeoutLayer::per_request(|request: &http::Request<Body>| {
        grpc_timeout(request).map(|waits| waits / 100)
    })
    .with_timer(timer.clone())
    .on_elapsed(|_| Ok(Status::deadline_exceeded("the layer's").into_http()));
    let server = Server::builder()
        .layer(deadlines)
        .add_service(Unary(handler));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

async fn call(
    client: impl Service<
        http::Request<Body>,
        Response = http::Response<Body>,
        Error: Into<tickwheel::tower::BoxError>,
    >,
    request: Request<String>,
) -> Result<String, Status> {
    let mut client = tonic::client::Grpc::new(client);
    client
        .ready()
        .await
        .map_err(|error| Status::from_error(error.into()))?;
    let method = PathAndQuery::from_static("/test.Unary/Call");
    let codec = ProstCodec::<String, String>::default();
    let called = tokio::time::timeout(PATIENCE, client.unary(request, method, codec)).await;
    called.expect("it is answered").map(Response::into_inner)
}

fn waiting(duration: Duration) -> Request<String> {
    let mut request = Request::new(String::new());
    request.set_timeout(duration);
    request
}

async fn assert_nothing_stays_armed(timer: &Timer) {
    let gone = async {
        while timer.metrics().pending > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone = tokio::time::timeout(PATIENCE, gone).await;
    gone.expect("nothing stays armed");
}

#[tokio::test]
async fn a_method_that_hangs_exceeds_its_deadline() {
    let timer = Timer::new();
    let address = serve(&timer, async |_| pending().await).await;
    let start = Instant::now();
    let status = call(connect(address).await, waiting(Duration::from_secs(20))).await;
    let status = status.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::DeadlineExceeded, "the layer's")
    );
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn a_method_is_told_before_its_deadline_ends_it() {
    let timer = Timer::new();
    let address = serve(&timer, async |_| {
        let query: Result<(), Elapsed> = timeout(PATIENCE, pending()).await;
        Ok(Response::new(format!("{}", query.unwrap_err())))
    })
    .await;
    let answer = call(connect(address).await, waiting(Duration::from_secs(20))).await;
    assert_eq!(answer.unwrap(), "deadline has elapsed");
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn a_call_within_a_call_is_sent_what_is_left() {
    let timer = Timer::new();
    let back = serve(&timer, async |request: Request<String>| {
        let header = request.metadata().get("grpc-timeout").unwrap();
        Ok(Response::new(header.to_str().unwrap().to_owned()))
    });
    let backend = GrpcTimeoutLayer::new().layer(connect(back.await).await);
    let front = serve(&timer, move |_| {
        let backend = backend.clone();
        async move {
            let before = remaining().expect("the layer opened a scope");
            let header = call(backend, Request::new(String::new())).await?;
            Ok(Response::new(format!("{} {header}", before.as_micros())))
        }
    });
    let client = connect(front.await).await;

    let answer = call(client, waiting(Duration::from_secs(2_000)))
        .await
        .unwrap();
    let (before, header) = answer.split_once(' ').unwrap();
    let before: u64 = before.parse().unwrap();
    let sent: u64 = header.strip_suffix('u').unwrap().parse().unwrap();
    assert!(sent <= before && before <= 20_000_000, "{sent} <= {before}");
    assert!(sent > 0);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn a_client_with_nothing_left_does_not_call() {
    let timer = Timer::new();
    let address = serve(&timer, async |_| panic!("nobody calls")).await;
    let client = GrpcTimeout::new(connect(address).await);
    let called = scope(Instant::now(), call(client, Request::new(String::new()))).await;
    assert!(called.is_err() || called.unwrap().is_err());
    assert_eq!(timer.metrics().armed, 0, "the server's layer saw nothing");
}

#[tokio::test]
async fn a_caller_that_vanishes_leaves_nothing_armed() {
    let timer = Timer::new();
    let address = serve(&timer, async |_| pending().await).await;
    let client = connect(address).await;
    let vanishes = tokio::spawn(call(client, waiting(Duration::from_secs(20_000))));
    while timer.metrics().pending == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    vanishes.abort();
    assert_nothing_stays_armed(&timer).await;
}
