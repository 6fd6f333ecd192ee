//! tower's layers in tonic: a server with the deadline of the request, and a client that passes on
//! what is left, with real connections over loopback.
//!
//! Invariant: after each scenario nothing stays armed on the timer of the layer.
//!
//! tonic has a timeout of its own for the same header, in its server and in its client. Its answer
//! is `Cancelled`; the layer's here is `DeadlineExceeded`. Some tests call the server by HTTP/2
//! alone, because tonic's client makes a status of whatever it gets.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tickwheel::error::Elapsed;
use tickwheel::tower::{BoxError, GrpcTimeout, GrpcTimeoutLayer, TimeoutLayer, grpc_timeout};
use tickwheel::{Instant, Timer, remaining, scope};
use tokio::net::{TcpListener, TcpStream};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::buffer::Buffer;
use tower::spawn_ready::SpawnReady;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{PATIENCE, assert_nothing_stays_armed};

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
    client: impl Service<http::Request<Body>, Response = http::Response<Body>, Error: Into<BoxError>>,
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

/// Serves a method that hangs behind a layer, calls it with a `grpc-timeout` header by HTTP/2, and
/// gives the head of the answer.
async fn call_by_http2<L, B>(layer: L, timeout: &str) -> hyper::Result<http::response::Parts>
where
    L: Layer<Routes> + Clone + Send + 'static,
    L::Service: Service<http::Request<Body>, Response = http::Response<B>, Error: Into<BoxError> + Send>
        + Clone
        + Send
        + 'static,
    <L::Service as Service<http::Request<Body>>>::Future: Send,
    B: http_body::Body<Data = bytes::Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hangs = async |_| pending::<Result<Response<String>, Status>>().await;
    let server = Server::builder().layer(layer).add_service(Unary(hangs));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
    tokio::spawn(connection);
    let request = http::Request::post(format!("http://{address}/test.Unary/Call"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", timeout)
        .body(Full::new(bytes::Bytes::from_static(&[0; 5])));
    let answer = client.send_request(request.unwrap());
    let answer = tokio::time::timeout(PATIENCE, answer).await;
    let (head, body) = answer.expect("it is answered")?.into_parts();
    assert!(body.collect().await?.to_bytes().is_empty());
    Ok(head)
}

/// The recipe of the module's page, and that of the migration guide with a bound of its own.
#[tokio::test]
async fn the_recipes_answer_with_the_status_of_a_deadline() {
    const LONGEST: Duration = Duration::from_millis(200);
    let recipe = TimeoutLayer::per_request(grpc_timeout)
        .on_elapsed(|_| Ok(Status::deadline_exceeded("the deadline has passed").into_http()));
    let bounded = TimeoutLayer::per_request(|request: &http::Request<Body>| {
        Some(grpc_timeout(request).map_or(LONGEST, |asked| asked.min(LONGEST)))
    })
    .on_elapsed(|_| Ok(Status::deadline_exceeded("the deadline has passed").into_http()));
    let start = Instant::now();
    let at_once = call_by_http2(recipe.clone(), "0n").await;
    let in_time = call_by_http2(recipe, "200m").await;
    assert!(start.elapsed() >= LONGEST);
    let by_bound = call_by_http2(bounded, "1H").await;
    assert!(start.elapsed() >= 2 * LONGEST);
    for head in [at_once, in_time, by_bound] {
        let head = head.unwrap();
        assert_eq!(head.status, http::StatusCode::OK);
        assert_eq!(head.headers["content-type"], "application/grpc");
        assert_eq!(head.headers["grpc-status"], "4");
    }
    assert_nothing_stays_armed(&Timer::current()).await;
}

/// tonic makes a status of its own errors only, and another one.
#[tokio::test]
async fn an_error_of_the_layer_resets_the_stream_and_tonics_own_timeout_answers_cancelled() {
    let deadline = TimeoutLayer::per_request(grpc_timeout::<Body>);
    let error = call_by_http2(deadline, "200m").await.unwrap_err();
    assert!(format!("{error:?}").contains("INTERNAL_ERROR"), "{error:?}");
    let head = call_by_http2(tower::layer::util::Identity::new(), "200m").await;
    assert_eq!(head.unwrap().headers["grpc-status"], "1");
}

/// The recipe of the migration guide for a client.
#[tokio::test]
async fn a_clients_layer_can_answer_with_a_status_too() {
    let timer = Timer::new();
    let address = serve(&timer, async |_| pending().await).await;
    for (has_status, code) in [(false, Code::Unknown), (true, Code::DeadlineExceeded)] {
        let layer = TimeoutLayer::new(Duration::from_millis(100)).with_timer(timer.clone());
        let channel = connect(address).await;
        let status = if has_status {
            let layer = layer.on_elapsed(|_| Ok(Status::deadline_exceeded("too late").into_http()));
            call(layer.layer(channel), Request::new(String::new())).await
        } else {
            call(layer.layer(channel), Request::new(String::new())).await
        };
        let status = status.unwrap_err();
        assert_eq!(status.code(), code);
        let source = std::error::Error::source(&status);
        assert_eq!(
            source.is_some_and(|source| source.is::<Elapsed>()),
            !has_status
        );
    }
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

/// Answers whether it was sent the header.
#[derive(Clone)]
struct Echo;

impl Service<http::Request<()>> for Echo {
    type Response = bool;
    type Error = BoxError;
    type Future = std::future::Ready<Result<bool, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<()>) -> Self::Future {
        std::future::ready(Ok(request.headers().contains_key("grpc-timeout")))
    }
}

/// A `Buffer` calls the client in a task of its own. A `SpawnReady` only waits for it there.
#[tokio::test]
async fn a_client_that_is_called_by_another_task_sends_no_header() {
    let clients = [
        (GrpcTimeout::new(Echo).boxed(), true),
        (Buffer::new(GrpcTimeout::new(Echo), 1).boxed(), false),
        (GrpcTimeout::new(Buffer::new(Echo, 1)).boxed(), true),
        (SpawnReady::new(GrpcTimeout::new(Echo)).boxed(), true),
    ];
    for (client, is_sent) in clients {
        let called = client.oneshot(http::Request::new(()));
        let called = scope(Instant::now() + PATIENCE, called).await;
        assert_eq!(called.unwrap().unwrap(), is_sent);
    }
}
