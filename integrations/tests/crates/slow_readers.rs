//! A reader that works between two frames is no silent peer. Which timeouts know that, and which
//! take the one for the other.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2 as client;
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tickwheel::io::IdleTimeout;
use tickwheel::{sleep, timeout};
use tickwheel_util::http_body::TimeoutBody;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;

use crate::PATIENCE;

const MINUTE: Duration = Duration::from_secs(60);
/// More than the windows of HTTP/2 hold.
const LONG: usize = 4 << 20;

/// Sends two chunks and the end at once, to each client.
async fn two_chunks() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let _ = client.read(&mut [0; 4096]).await;
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            for part in [&head[..], b"5\r\nfirst\r\n", b"6\r\nsecond\r\n0\r\n\r\n"] {
                let _ = client.write_all(part).await;
            }
        }
    });
    url
}

/// The limit is a second, and the reader works for longer between the two chunks, which have come.
#[tokio::test]
async fn reqwests_read_timeout_counts_the_readers_work_and_an_idle_timeout_not() {
    let limit = Duration::from_secs(1);
    let work = limit * 3 / 2;
    let url = two_chunks().await;

    let of_reqwest = reqwest::Client::builder().no_proxy().read_timeout(limit);
    let mut answer = of_reqwest.build().unwrap().get(&url).send().await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "first");
    sleep(work).await;
    assert!(answer.chunk().await.unwrap_err().is_timeout());

    let plain = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer: http::Response<reqwest::Body> = plain.get(&url).send().await.unwrap().into();
    let mut body = TimeoutBody::new(answer.into_body()).idle_timeout(limit);
    let first = body.frame().await.unwrap().unwrap();
    assert_eq!(first.into_data().unwrap(), "first");
    sleep(work).await;
    let rest = body.collect().await.unwrap();
    assert_eq!(rest.to_bytes(), "second");
}

/// A long answer from a server of HTTP/2.
async fn long_answer<S>(socket: S, peer: DuplexStream) -> Response<Incoming>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let answer = service_fn(async |_: Request<Incoming>| {
            let long = Full::new(Bytes::from(vec![0; LONG]));
            Ok::<_, Infallible>(Response::new(long))
        });
        let server = server::Builder::new(TokioExecutor::new());
        let _ = server.serve_connection(TokioIo::new(peer), answer).await;
    });
    let connecting = client::handshake(TokioExecutor::new(), TokioIo::new(socket));
    let (mut requests, connection) = connecting.await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://a/").body(Empty::<Bytes>::new());
    requests.send_request(request.unwrap()).await.unwrap()
}

/// The bytes that arrive, if the reader works for longer than a minute after the first frame.
async fn read_slowly(mut body: Incoming) -> Result<usize, hyper::Error> {
    let mut read = 0;
    while let Some(frame) = timeout(MINUTE, body.frame())
        .await
        .expect("no wait is long")
    {
        if read == 0 {
            sleep(2 * MINUTE).await;
        }
        read += frame?.into_data().unwrap().len();
    }
    Ok(read)
}

/// While the window is full no byte moves, and the server has all that it is allowed to send.
#[tokio::test(start_paused = true)]
async fn an_idle_socket_is_no_silent_server_while_the_client_of_http2_works() {
    let transfers = async {
        let (socket, peer) = duplex(1 << 16);
        let healthy = read_slowly(long_answer(socket, peer).await.into_body());
        assert_eq!(healthy.await.unwrap(), LONG);

        let (socket, peer) = duplex(1 << 16);
        let socket = IdleTimeout::new(socket, MINUTE);
        let cut_off = read_slowly(long_answer(socket, peer).await.into_body());
        assert!(cut_off.await.is_err(), "taken for a silent server");
    };
    tokio::time::timeout(100 * PATIENCE, transfers)
        .await
        .unwrap();
}
