//! tower's layers around axum's handlers, with a real client over loopback.
//!
//! Invariant: after each scenario nothing stays armed on the timer of the layer.

use std::future::pending;
use std::time::Duration;

use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use tickwheel::error::Elapsed;
use tickwheel::{Instant, Timer};
use tickwheel_util::tower::{BoxError, TimeoutLayer};
use tokio::net::TcpListener;
use tower::ServiceBuilder;

use crate::{PATIENCE, assert_nothing_stays_armed};

/// Short, for what waits in real time.
const SHORT: Duration = Duration::from_millis(100);

/// Serves the routes, and gives their address.
pub(crate) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn routes() -> Router {
    Router::new()
        .route("/fast", get(async || "fast"))
        .route("/hangs", get(async || pending::<String>().await))
        .route("/panics", get(async || -> String { panic!("on purpose") }))
}

pub(crate) async fn get_text(url: String) -> (StatusCode, String) {
    let answer = tokio::time::timeout(PATIENCE, reqwest::get(url)).await;
    let answer = answer.expect("it is answered").unwrap();
    (answer.status(), answer.text().await.unwrap())
}

#[tokio::test]
async fn a_handler_that_hangs_is_answered_for() {
    let timer = Timer::current();
    let layer = TimeoutLayer::new_on(&timer, SHORT);
    let by_layer = layer.clone();
    let by_layer =
        by_layer.on_elapsed(|_| Ok((StatusCode::GATEWAY_TIMEOUT, "too late").into_response()));
    // As a boxed error it goes through axum's own handler of errors.
    let by_axum = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(async |error: BoxError| {
            assert!(error.is::<Elapsed>());
            (StatusCode::GATEWAY_TIMEOUT, "too late")
        }))
        .layer(layer);
    for routes in [routes().layer(by_layer), routes().layer(by_axum)] {
        let server = serve(routes).await;
        let start = Instant::now();
        let answer = get_text(format!("{server}/hangs")).await;
        assert_eq!(answer, (StatusCode::GATEWAY_TIMEOUT, "too late".to_owned()));
        assert!(start.elapsed() >= SHORT);
        let answer = get_text(format!("{server}/fast")).await;
        assert_eq!(answer, (StatusCode::OK, "fast".to_owned()));
    }
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test]
async fn panics_and_clients_that_vanish_leave_nothing_armed() {
    let timer = Timer::current();
    let layer = TimeoutLayer::new_on(&timer, PATIENCE)
        .on_elapsed(|_| Ok(StatusCode::GATEWAY_TIMEOUT.into_response()));
    let server = serve(routes().layer(layer)).await;
    assert!(reqwest::get(format!("{server}/panics")).await.is_err());
    let vanishes = tokio::spawn(reqwest::get(format!("{server}/hangs")));
    while timer.metrics().pending() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    vanishes.abort();
    assert_nothing_stays_armed(&timer).await;
    let text = get_text(format!("{server}/fast")).await.1;
    assert_eq!(text, "fast", "it serves on");
}
