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
use tickwheel::{Instant, Timer, time_left, with_deadline};
use tickwheel_util::tower::{BoxError, GrpcTimeout, GrpcTimeoutLayer, TimeoutLayer, grpc_timeout};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::server::NamedService;
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
pub(crate) async fn serve<H, F>(timer: &Timer, handler: H) -> SocketAddr
where
    H: FnMut(Request<String>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<String>, Status>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let deadlines = TimeoutLayer::per_request_on(timer, |request: &http::Request<Body>| {
        grpc_timeout(request).map(|waits| waits / 100)
    })
    .on_elapsed(|_| Ok(Status::deadline_exceeded("the layer's").into_http()));
    let server = Server::builder()
        .layer(deadlines)
        .add_service(Unary(handler));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}

pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

pub(crate) async fn call(
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

pub(crate) fn waiting(duration: Duration) -> Request<String> {
    let mut request = Request::new(String::new());
    request.set_timeout(duration);
    request
}

#[tokio::test]
async fn a_method_that_hangs_exceeds_its_deadline() {
    let timer = Timer::current();
    let address = serve(&timer, async |_| pending().await).await;
    let start = Instant::now();
    let status = call(connect(address).await, waiting(Duration::from_secs(20))).await;
    let status = status.unwrap_err();
    let told = (status.code(), status.message());
    assert_eq!(told, (Code::DeadlineExceeded, "the layer's"));
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_nothing_stays_armed(&timer).await;
}

/// The recipe of the migration guide for a client.
#[tokio::test]
async fn a_clients_layer_can_answer_with_a_status_too() {
    let timer = Timer::current();
    let address = serve(&timer, async |_| pending().await).await;
    let layer = TimeoutLayer::new_on(&timer, Duration::from_millis(100))
        .on_elapsed(|_| Ok(Status::deadline_exceeded("too late").into_http()));
    let client = layer.layer(connect(address).await);
    let called = call(client, Request::new(String::new())).await;
    assert_eq!(called.unwrap_err().code(), Code::DeadlineExceeded);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn a_call_within_a_call_is_sent_what_is_left() {
    let timer = Timer::current();
    let back = serve(&timer, async |request: Request<String>| {
        let header = request.metadata().get("grpc-timeout").unwrap();
        Ok(Response::new(header.to_str().unwrap().to_owned()))
    });
    let backend = GrpcTimeoutLayer::new().layer(connect(back.await).await);
    let front = serve(&timer, move |_| {
        let backend = backend.clone();
        async move {
            let before = time_left().expect("the layer opened a deadline");
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

/// A `Buffer` calls the client in a task of its own. A `SpawnReady` only waits for it there.
#[tokio::test]
async fn a_client_that_is_called_by_another_task_sends_no_header() {
    let is_sent = |request: http::Request<()>| {
        let is_sent = request.headers().contains_key("grpc-timeout");
        std::future::ready(Ok::<_, BoxError>(is_sent))
    };
    let echo = service_fn(is_sent);
    let clients = [
        (GrpcTimeout::new(echo).boxed(), true),
        (Buffer::new(GrpcTimeout::new(echo), 1).boxed(), false),
        (GrpcTimeout::new(Buffer::new(echo, 1)).boxed(), true),
        (SpawnReady::new(GrpcTimeout::new(echo)).boxed(), true),
    ];
    for (client, is_sent) in clients {
        let called = client.oneshot(http::Request::new(()));
        let called = with_deadline(Instant::now() + PATIENCE, called).await;
        assert_eq!(called.unwrap().unwrap(), is_sent);
    }
}
