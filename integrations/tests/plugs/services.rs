//! Crates that take a tower layer, or whose client is a tower service.

use std::convert::Infallible;
use std::error::Error;
use std::future::pending;
use std::iter;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{Request, StatusCode};
use tickwheel::error::Elapsed;
use tickwheel::{Instant, Timer};
use tickwheel_util::tower::{GrpcTimeoutLayer, TimeoutLayer, grpc_timeout};
use tokio::net::TcpListener;
use tonic::Status;
use tonic::transport::{Endpoint, Server};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::{PATIENCE, assert_nothing_stays_armed};

const WITHIN: Duration = Duration::from_secs(5);

/// Short, for what waits in real time.
const SHORT: Duration = Duration::from_millis(100);

/// A layer on this timer.
fn layer(timer: &Timer, within: Duration) -> TimeoutLayer {
    TimeoutLayer::new_on(timer, within)
}

/// Whether the error, or what it came from, is the layer's.
fn is_elapsed(error: &(dyn Error + 'static)) -> bool {
    iter::successors(Some(error), |&error| error.source()).any(|error| error.is::<Elapsed>())
}

/// An HTTP server that takes connections and never answers.
async fn silent_server() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            open.push(socket);
        }
    });
    url
}

#[tokio::test(start_paused = true)]
async fn tower_layer() {
    let timer = Timer::current();
    let service = ServiceBuilder::new()
        .layer(layer(&timer, WITHIN))
        .service(service_fn(|()| pending::<Result<(), Infallible>>()));
    let start = Instant::now();
    assert!(service.oneshot(()).await.unwrap_err().is::<Elapsed>());
    assert_eq!(start.elapsed(), WITHIN);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn axum_layer() {
    let timer = Timer::current();
    let too_late =
        layer(&timer, WITHIN).on_elapsed(|_| Ok(StatusCode::GATEWAY_TIMEOUT.into_response()));
    let routes = Router::new()
        .route("/", get(pending::<String>))
        .layer(too_late);
    let answer = routes.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn tonic_server() {
    let timer = Timer::current();
    let deadline = TimeoutLayer::per_request_on(&timer, grpc_timeout)
        .on_elapsed(|_| Ok(Status::deadline_exceeded("too late").into_http()));
    let hangs = Router::new().route("/test.Unary/Hangs", get(pending::<String>));
    let routes = tonic::service::Routes::from(hangs);

    // The whole server, which is not run here.
    let server = Server::builder()
        .layer(deadline.clone())
        .add_routes(routes.clone());
    drop(server.serve(([127, 0, 0, 1], 0).into()));

    // What it does with each request.
    let request = Request::builder()
        .uri("/test.Unary/Hangs")
        .header("grpc-timeout", "5S")
        .body(tonic::body::Body::empty());
    let service = ServiceBuilder::new().layer(deadline).service(routes);
    let start = Instant::now();
    let answer = service.oneshot(request.unwrap()).await.unwrap();
    assert_eq!(answer.headers()["grpc-status"], "4");
    assert_eq!(start.elapsed(), WITHIN);
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn tonic_client() {
    let timer = Timer::current();
    let channel = Endpoint::from_shared(silent_server().await).unwrap();
    let channel = ServiceBuilder::new()
        .layer(layer(&timer, SHORT))
        .layer(GrpcTimeoutLayer::new())
        .service(channel.connect_lazy());
    // Generated clients take the channel in the same way.
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<String, String>::default();
    let path = http::uri::PathAndQuery::from_static("/test.Unary/Hangs");
    let call = client.unary(tonic::Request::new(String::new()), path, codec);
    let status = tokio::time::timeout(PATIENCE, call).await.unwrap();
    assert!(is_elapsed(&status.unwrap_err()));
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn reqwest_service() {
    let timer = Timer::current();
    let mut client = ServiceBuilder::new()
        .layer(layer(&timer, SHORT))
        .service(reqwest::Client::builder().no_proxy().build().unwrap());
    let url = silent_server().await.parse().unwrap();
    let request = reqwest::Request::new(reqwest::Method::GET, url);
    let call = client.ready().await.unwrap().call(request);
    let answer = tokio::time::timeout(PATIENCE, call).await.unwrap();
    assert!(answer.unwrap_err().is::<Elapsed>());
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn reqwest_connector() {
    let timer = Timer::current();
    // A layer further in that never connects, as a network that loses all packets.
    let never = tower::layer::layer_fn(|connect| {
        tower::util::MapFuture::new(connect, |_connecting| pending())
    });
    let client = reqwest::Client::builder()
        .connector_layer(never)
        .connector_layer(layer(&timer, SHORT))
        .build()
        .unwrap();
    let call = client.get("http://127.0.0.1:1/").send();
    let answer = tokio::time::timeout(PATIENCE, call).await.unwrap();
    assert!(is_elapsed(&answer.unwrap_err()));
    drop(client);
    assert_nothing_stays_armed(&timer).await;
}
