//! What `docs/RECIPES.md` and `docs/TESTING.md` say, by the blocks as they stand there.
//!
//! Invariant: each sentence of RECIPES below a block that names a number or an outcome has an
//! assertion here. The blocks of TESTING are tests themselves.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use axum::Router;
use axum::body::Body;
use axum::response::sse::Event;
use axum::routing::{MethodRouter, get};
use backon::{BackoffBuilder, ExponentialBuilder};
use futures::{StreamExt, stream};
use http::StatusCode;
use jiff::ZonedDateTime;
use tempfile::TempDir;
use tickwheel::error::Elapsed;
use tickwheel::wall_clock::WallClock;
use tickwheel::{DeadlineMap, DelayMap, Duration, Instant, Timer, time_left, with_deadline};
use tickwheel_util::tower::TimeoutLayer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep, sleep_until, timeout};
use tokio_tungstenite::{WebSocketStream, client_async};
use tonic::{Code, Request, Response};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::axum::{get_text, serve};
use crate::tonic::{call, connect, serve as serve_grpc, waiting};
use crate::{PATIENCE, assert_nothing_stays_armed};

mod ping_close {
    include!(concat!(env!("OUT_DIR"), "/ping_close.rs"));
}
mod job_lease {
    include!(concat!(env!("OUT_DIR"), "/job_lease.rs"));
}

mod one_session {
    include!(concat!(env!("OUT_DIR"), "/one_session.rs"));
}
mod sse_stop {
    include!(concat!(env!("OUT_DIR"), "/sse_stop.rs"));
}
mod debounce {
    include!(concat!(env!("OUT_DIR"), "/debounce.rs"));
}
mod drain {
    include!(concat!(env!("OUT_DIR"), "/drain.rs"));
}
mod retry {
    include!(concat!(env!("OUT_DIR"), "/retry.rs"));
}
mod http_deadline {
    include!(concat!(env!("OUT_DIR"), "/http_deadline.rs"));
}
mod durable_queue {
    include!(concat!(env!("OUT_DIR"), "/durable_queue.rs"));
}
mod sessions {
    include!(concat!(env!("OUT_DIR"), "/sessions.rs"));
}
mod each_morning {
    include!(concat!(env!("OUT_DIR"), "/each_morning.rs"));
}
mod routes {
    include!(concat!(env!("OUT_DIR"), "/routes.rs"));
}
mod tonic_client {
    include!(concat!(env!("OUT_DIR"), "/tonic_client.rs"));
}
mod paused {
    include!(concat!(env!("OUT_DIR"), "/paused.rs"));
}
mod outside {
    include!(concat!(env!("OUT_DIR"), "/outside.rs"));
}
mod by_key {
    include!(concat!(env!("OUT_DIR"), "/by_key.rs"));
}
mod stall {
    include!(concat!(env!("OUT_DIR"), "/stall.rs"));
}

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A client, and what the server's task returns.
async fn websocket(
    timer: &Timer,
) -> (
    WebSocketStream<DuplexStream>,
    impl Future<Output = Option<bool>>,
) {
    let (ours, theirs) = duplex(1 << 16);
    let timer = timer.clone();
    let (report, mut reported) = unbounded_channel();
    let attending = tokio::spawn(async move { ping_close::attend(theirs, &timer).await });
    tokio::spawn(async move { report.send(attending.await.unwrap().ok()) });
    let client = client_async("ws://localhost/", ours).await.unwrap().0;
    (client, async move { reported.recv().await.unwrap() })
}

#[tokio::test(start_paused = true)]
async fn a_second_log_in_ends_the_first_session_or_is_refused() {
    use one_session::{End, first_wins, newest_wins};
    let users = DeadlineMap::new(&Timer::current());
    let serve = |name: &'static str| {
        let users = users.clone();
        tokio::spawn(async move { newest_wins(&users, name).await.unwrap() })
    };
    let begin = Instant::now();
    let (first, bob) = (serve("alice"), serve("bob"));
    sleep(Duration::from_secs(1)).await;
    let second = serve("alice");
    assert_eq!(first.await.unwrap(), End::LoggedInElsewhere);
    assert!(first_wins(&users, "alice").is_err() && users.reset("alice"));
    assert!(users.remove("bob"));
    assert_eq!(bob.await.unwrap(), End::LoggedOut);
    assert_eq!(second.await.unwrap(), End::Silent);
    assert_eq!(begin.elapsed(), Duration::from_secs(61));

    let mut own = first_wins(&users, "alice").unwrap();
    assert!(users.expire("alice") && first_wins(&users, "alice").is_err());
    let newer = serve("alice");
    sleep(Duration::from_secs(1)).await;
    own.restart();
    drop(own);
    assert!(
        users.contains_key("alice"),
        "the newer session has the name"
    );
    users.close();
    assert_eq!(newer.await.unwrap(), End::ServerCloses);
    assert!(first_wins(&users, "alice").is_err());
    let users = DeadlineMap::new(&Timer::current());
    let own = first_wins(&users, "alice").unwrap();
    drop(own);
    assert!(!users.contains_key("alice"));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_pings_stays_open() {
    let timer = Timer::current();
    let (mut client, ended) = websocket(&timer).await;
    let mut pings = 0;
    let reading = async {
        while let Some(Ok(message)) = client.next().await {
            pings += usize::from(message.is_ping());
        }
    };
    let reading = tokio::time::timeout(600 * SECOND, reading).await;
    assert!(reading.is_err(), "it is open after ten minutes");
    assert!((11..=12).contains(&pings), "{pings}");
    client.close(None).await.unwrap();
    assert_eq!(ended.await, Some(true));
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_gets_a_ping_and_then_a_close() {
    let timer = Timer::current();
    let (mut client, ended) = websocket(&timer).await;
    let start = Instant::now();
    // It reads no messages, so it answers nothing.
    assert_eq!(ended.await, Some(false));
    assert_eq!(start.elapsed(), 60 * SECOND);
    let mut frames = Vec::new();
    client.get_mut().read_to_end(&mut frames).await.unwrap();
    assert_eq!(frames, b"\x89\0\x88\0", "a ping and a close");
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_shake_hands_is_let_go() {
    let timer = Timer::current();
    let (_client, theirs) = duplex(1);
    let start = Instant::now();
    assert!(ping_close::attend(theirs, &timer).await.is_err());
    assert_eq!(start.elapsed(), 10 * SECOND);
}

/// Twenty streams of the server, of each of which one event was read.
async fn open_streams(url: &str) -> Vec<reqwest::Response> {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = client.get(url).send().await.unwrap();
        let event = stream.chunk().await.unwrap().unwrap();
        assert_eq!(event, "data: first\n\n");
        streams.push(stream);
    }
    streams
}

async fn assert_streams_end(streams: Vec<reqwest::Response>) {
    for mut stream in streams {
        let end = timeout(PATIENCE, stream.chunk()).await;
        assert_eq!(end.expect("it ends").unwrap(), None);
    }
}

#[tokio::test]
async fn a_stop_ends_each_event_stream_and_refuses_new_ones() {
    let events = || stream::iter([Event::default().data("first")]).chain(stream::pending());
    let timer = Timer::current();
    let open = DeadlineMap::new(&timer);
    let of_route = open.clone();
    let routes = get(async move || sse_stop::until_stop(&of_route, events()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    let stopped = async move { stopped.await.unwrap() };
    let routes = Router::new().route("/", routes);
    let served = tokio::spawn(sse_stop::serve(listener, routes, open.clone(), stopped));

    let streams = open_streams(&url).await;
    assert_eq!(open.expire_all(), 20);
    assert_streams_end(streams).await;

    let streams = open_streams(&url).await;
    stop.send(()).unwrap();
    assert_streams_end(streams).await;
    let served = timeout(PATIENCE, served).await.expect("the server stops");
    served.unwrap().unwrap();
    let late = sse_stop::until_stop(&open, events()).err();
    assert_eq!(late, Some(StatusCode::SERVICE_UNAVAILABLE));
    assert_nothing_stays_armed(&timer).await;
}

#[tokio::test(start_paused = true)]
async fn a_build_follows_when_its_file_is_quiet_or_after_two_seconds() {
    let (changes, quiet) = DelayMap::new(&Timer::current());
    let change = |path| debounce::changed(&changes, path).unwrap();
    let start = Instant::now();
    let (report, mut reported) = unbounded_channel();
    let build = move |path: String| {
        report.send((path, start.elapsed().as_millis())).unwrap();
        sleep(SECOND)
    };
    tokio::spawn(async move { debounce::build_each(quiet, build).await });
    let built = |path: &str, millis| Some((path.to_owned(), millis));

    change("quiet");
    sleep(150 * MS).await;
    change("quiet");
    assert_eq!(reported.recv().await, built("quiet", 350));

    sleep_until(start + 2 * SECOND).await;
    for _ in 0..20 {
        change("busy");
        sleep(99 * MS).await;
    }
    assert_eq!(reported.recv().await, built("busy", 4000));

    // The builder is busy for a second. What is due waits for it, and no change puts it off.
    while start.elapsed() < 4900 * MS {
        change("waits");
        sleep(251 * MS).await;
    }
    assert_eq!(reported.recv().await, built("waits", 5000));
    change("waits");
    assert_eq!(reported.recv().await, built("waits", 6000));
    sleep(10 * SECOND).await;
    assert!(reported.is_empty(), "each change was built");
}

/// A server by the recipe, whose answers come from the test: what it was asked, where the answer
/// goes, how to stop it, and what it returns.
struct Draining {
    address: SocketAddr,
    asked: UnboundedReceiver<(String, oneshot::Sender<String>)>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<usize>,
}

impl Draining {
    async fn start() -> Draining {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ask, asked) = unbounded_channel();
        let answer = move |request| {
            let (answer, answered) = oneshot::channel();
            ask.send((request, answer)).unwrap();
            async move { answered.await.unwrap() }
        };
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { stopped.await.unwrap() };
        let served = tokio::spawn(drain::serve(listener, stopped, answer));
        Draining {
            address,
            asked,
            stop,
            served,
        }
    }

    /// A client, and where the answer to its request goes.
    async fn ask(&mut self) -> (TcpStream, oneshot::Sender<String>) {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(b"hello\n").await.unwrap();
        let (request, answer) = self.asked.recv().await.unwrap();
        assert_eq!(request, "hello");
        (client, answer)
    }
}

/// What a client reads until the end of its connection.
async fn read_to_end(mut client: TcpStream) -> String {
    let mut text = String::new();
    let read = timeout(PATIENCE, client.read_to_string(&mut text)).await;
    read.expect("it is closed").unwrap();
    text
}

#[tokio::test]
async fn a_drain_closes_idle_connections_and_answers_the_others() {
    let mut server = Draining::start().await;
    let (idle, answer) = server.ask().await;
    answer.send("done\n".to_owned()).unwrap();
    let (busy, answer) = server.ask().await;
    server.stop.send(()).unwrap();
    assert_eq!(read_to_end(idle).await, "done\n");
    assert!(!server.served.is_finished(), "one has yet to be answered");
    answer.send("done too\n".to_owned()).unwrap();
    assert_eq!(read_to_end(busy).await, "done too\n");
    let cut_off = timeout(PATIENCE, server.served).await;
    assert_eq!(cut_off.expect("it stops").unwrap(), 0);
}

#[tokio::test]
async fn a_drain_cuts_off_what_has_no_answer_in_ten_seconds() {
    let mut server = Draining::start().await;
    let (mut idle, answer) = server.ask().await;
    answer.send("done\n".to_owned()).unwrap();
    idle.read_exact(&mut [0; 5]).await.unwrap();
    let (busy, _never) = server.ask().await;
    server.stop.send(()).unwrap();
    assert_eq!(read_to_end(idle).await, "");
    tokio::time::pause(); // no byte is awaited any more
    assert_eq!(server.served.await.unwrap(), 1);
    tokio::time::resume();
    assert_eq!(read_to_end(busy).await, "");
}

#[tokio::test]
async fn a_connection_ends_after_an_answer_longer_than_its_idle_time() {
    let mut server = Draining::start().await;
    let (client, answer) = server.ask().await;
    tokio::time::pause();
    advance(61 * SECOND).await;
    tokio::time::resume();
    answer.send("late\n".to_owned()).unwrap();
    assert_eq!(read_to_end(client).await, "late\n");
}

/// The outcome of a retry within five seconds, the number of tries, and the milliseconds.
async fn retried(
    call: impl AsyncFn(u32) -> io::Result<()>,
) -> (Result<io::Result<()>, Elapsed>, u32, u128) {
    let (start, mut tries) = (Instant::now(), 0);
    let pauses = std::iter::successors(Some(100 * MS), |pause| Some(*pause * 2));
    let retrying = retry::retry(pauses, || {
        tries += 1;
        call(tries)
    });
    let ended = with_deadline(start + 5 * SECOND, retrying).await;
    (ended, tries, start.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn retries_end_with_the_budget_and_tell_the_last_error() {
    let fails = || io::Error::from(io::ErrorKind::ConnectionRefused);
    let third = retried(async |nth| if nth < 3 { Err(fails()) } else { Ok(()) }).await;
    assert!(third.0.unwrap().is_ok());
    assert_eq!((third.1, third.2), (3, 300));

    // After 3.1 seconds a pause of 3.2 is next.
    let (ended, tries, millis) = retried(async |_| Err(fails())).await;
    let error = ended.expect("it does not wait for the deadline");
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!((tries, millis), (6, 3100));

    // Two tries of two seconds each, and the third one ends with the budget.
    let (ended, tries, millis) = retried(async |_| pending().await).await;
    assert!(ended.is_err() || ended.unwrap().is_err());
    assert_eq!((tries, millis), (3, 5000));

    let (pauses, mut tries) = (ExponentialBuilder::default().with_jitter(), 0);
    let thrice: io::Result<()> = retry::retry(pauses.with_max_times(2).build(), || {
        tries += 1;
        ready(Err(fails()))
    })
    .await;
    assert!(thrice.is_err() && time_left().is_none());
    assert_eq!(tries, 3);
}

/// As in a handler of axum, whose future has to be `Send`. The call borrows.
#[tokio::test(start_paused = true)]
async fn a_task_retries_until_no_pause_fits_into_the_budget() {
    async fn asks(name: &str) -> io::Result<String> {
        retry::retry([SECOND, Duration::MAX], || async {
            Err(io::Error::other(name.to_owned()))
        })
        .await
    }
    let start = Instant::now();
    let asks = with_deadline(start + 5 * SECOND, async { asks("eve").await });
    let error = tokio::spawn(asks).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "eve");
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test]
async fn a_deadline_goes_on_to_a_call_over_plain_http() {
    let left = get(async || time_left().unwrap().as_millis().to_string());
    let downstream = serve(http_deadline::bounded(Router::new().route("/", left))).await;
    let hangs = Router::new().route("/", get(pending::<String>));
    let hangs = serve(http_deadline::bounded(hangs)).await;
    let (fast, slow) = (downstream.clone(), hangs.clone());
    let via = |url: String| {
        get(async move || {
            sleep(100 * MS).await;
            let client = reqwest::Client::new();
            http_deadline::call(&client, &url).await.unwrap()
        })
    };
    let front = Router::new()
        .route("/fast", via(fast))
        .route("/slow", via(slow));
    let front = serve(http_deadline::bounded(front)).await;
    let (_, left) = get_text(format!("{front}/fast")).await;
    let left: u64 = left.parse().unwrap();
    assert!(left <= 9_900, "{left} ms of 10 s, of which 100 ms are over");

    for (asked, most) in [("300", 300), ("31536000000", 10_000)] {
        let client = reqwest::Client::new();
        let start = Instant::now();
        let ask = |url: &str| client.get(url).header("x-timeout-ms", asked).send();
        let left = ask(&downstream).await.unwrap().text().await.unwrap();
        assert!(left.parse::<u64>().unwrap() <= most, "{left}");
        if most < 1_000 {
            let answer = ask(&format!("{front}/slow")).await.unwrap();
            assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
            assert!(start.elapsed() >= 300 * MS);
        }
    }
}

/// Opens the queue, and runs it until nothing was due for a while. A job's first runs end as
/// `outcomes` tells: `Some` whether it is done, and `None` by a crash of the process.
async fn run_queue(path: &Path, outcomes: &[Option<bool>]) -> Vec<String> {
    let timer = Timer::current();
    let (queue, expirations) = durable_queue::Queue::open(path, &timer).unwrap();
    let (ran, mut runs) = unbounded_channel();
    let (crash, mut crashed) = unbounded_channel();
    let outcomes = Mutex::new(outcomes.iter().copied());
    let work = async |key: String, payload: String| {
        ran.send(format!("{key}: {payload}")).unwrap();
        let outcome = outcomes.lock().unwrap().next().unwrap_or(Some(true));
        let Some(is_done) = outcome else {
            crash.send(()).unwrap();
            return pending().await;
        };
        is_done
    };
    tokio::select! {
        ended = queue.run(expirations, work) => panic!("{ended:?}"),
        _ = crashed.recv() => {}
        () = sleep(3600 * SECOND) => {}
    }
    runs.close();
    let mut seen = Vec::new();
    while let Some(run) = runs.recv().await {
        seen.push(run);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_job_survives_each_crash_until_it_is_done() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("jobs");
    {
        // Two jobs are added, and the process ends before they are due.
        let (queue, _) = durable_queue::Queue::open(&path, &Timer::current()).unwrap();
        queue.add("a", "mail bob", SECOND).unwrap();
        queue.add("b", "mail eve", 2 * SECOND).unwrap();
    }
    // It crashes within the first run.
    let runs = run_queue(&path, &[None]).await;
    assert_eq!(runs, ["a: mail bob"]);
    // The other one is done, and the crashed one fails once more before it is done.
    let outcomes = [Some(true), Some(false)];
    let runs = run_queue(&path, &outcomes).await;
    assert_eq!(runs, ["b: mail eve", "a: mail bob", "a: mail bob"]);
    assert!(run_queue(&path, &[]).await.is_empty(), "nothing is left");

    // A queue runs in a task too.
    let (queue, expirations) = durable_queue::Queue::open(&path, &Timer::current()).unwrap();
    let work = |_, _| ready(true);
    let running = tokio::spawn(async move { queue.run(expirations, work).await.is_ok() });
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_longer_than_its_retry_runs_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("jobs");
    let (queue, expirations) = durable_queue::Queue::open(&path, &Timer::current()).unwrap();
    queue.add("a", "mail bob", SECOND).unwrap();
    let (runs, mut ran) = unbounded_channel();
    let work = async |key: String, _| {
        runs.send(key).unwrap();
        sleep(40 * SECOND).await;
        true
    };
    tokio::select! {
        ended = queue.run(expirations, work) => panic!("{ended:?}"),
        () = sleep(3600 * SECOND) => {}
    }
    assert_eq!(ran.recv().await.as_deref(), Some("a"));
    assert!(ran.is_empty(), "the store knows that it is done");
}

/// A handler that takes 1.5 s of the route's 2 s.
async fn slow() -> String {
    sleep(1500 * MS).await;
    "slow".to_owned()
}

/// The answers to two requests at once, and when the second one comes.
async fn statuses(route: MethodRouter) -> ([StatusCode; 2], Duration) {
    // Each clone builds the layers of the route again, as axum does for each connection.
    let routes = Router::new().route("/", route);
    let ask = || routes.clone().oneshot(http::Request::new(Body::empty()));
    let start = Instant::now();
    let (first, second) = tokio::join!(ask(), ask());
    let statuses = [first.unwrap().status(), second.unwrap().status()];
    (statuses, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn each_route_has_a_limit_of_its_own() {
    let routes = routes::routes(pending::<String>, pending::<String>);
    for (path, limit) in [("/", 2 * SECOND), ("/report", 60 * SECOND)] {
        let request = http::Request::builder()
            .uri(path)
            .body(Body::empty())
            .unwrap();
        let start = Instant::now();
        let answer = routes.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(start.elapsed(), limit, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_permit_counts_as_the_layers_stand() {
    let (ok, late) = (StatusCode::OK, StatusCode::GATEWAY_TIMEOUT);
    let counts = routes::waiting_counts(get(slow));
    assert_eq!(statuses(counts).await, ([ok, late], 2 * SECOND));
    let is_free = routes::waiting_is_free(get(slow));
    assert_eq!(statuses(is_free).await, ([ok, ok], 3 * SECOND));
}

/// The rows of the table that have no axum. Whether the second of two calls is answered.
#[tokio::test(start_paused = true)]
async fn a_buffer_takes_the_call_and_waits_for_the_permit() {
    let work = service_fn(async |()| {
        sleep(1500 * MS).await;
        Ok::<_, Infallible>(())
    });
    let within = TimeoutLayer::new(2 * SECOND);
    let stacks = [
        (
            ServiceBuilder::new()
                .layer(within.clone())
                .concurrency_limit(1)
                .service(work)
                .boxed_clone(),
            true,
        ),
        (
            ServiceBuilder::new()
                .layer(within.clone())
                .buffer(8)
                .concurrency_limit(1)
                .service(work.boxed())
                .boxed_clone(),
            false,
        ),
        (
            ServiceBuilder::new()
                .buffer(8)
                .layer(within)
                .concurrency_limit(1)
                .service(work.boxed())
                .boxed_clone(),
            true,
        ),
    ];
    for (stack, is_answered) in stacks {
        let (first, second) = tokio::join!(stack.clone().oneshot(()), stack.oneshot(()));
        assert!(first.is_ok());
        assert_eq!(second.is_ok(), is_answered);
    }
}

#[tokio::test]
async fn within_a_buffer_no_deadline_is_open() {
    let left = service_fn(|()| ready(Ok::<_, Infallible>(time_left().is_some())));
    let limit = TimeoutLayer::per_request(|(): &()| Some(SECOND));
    let mut outside = ServiceBuilder::new()
        .layer(limit.clone())
        .buffer(1)
        .service(left);
    let mut inside = ServiceBuilder::new().buffer(1).layer(limit).service(left);
    let outside = outside.ready().await.unwrap().call(()).await.unwrap();
    let inside = inside.ready().await.unwrap().call(()).await.unwrap();
    assert_eq!((outside, inside), (false, true));
}

/// A server that takes connections and never answers.
async fn silent_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            open.push(socket);
        }
    });
    address
}

#[tokio::test]
async fn tonics_own_timer_ends_with_status_1_and_the_recipe_with_4() {
    let channel = connect(silent_server().await).await;
    let alone = call(channel.clone(), waiting(200 * MS)).await.unwrap_err();
    let told = (alone.code(), alone.message());
    assert_eq!(told, (Code::Cancelled, "Timeout expired"));

    let client = tonic_client::bounded(channel);
    let start = Instant::now();
    let asked = call(client.clone(), waiting(200 * MS)).await.unwrap_err();
    assert_eq!(asked.code(), Code::DeadlineExceeded);
    assert!(start.elapsed() >= 200 * MS);

    let within = call(client.clone(), Request::new(String::new()));
    // Or the deadline itself is first.
    if let Ok(answer) = with_deadline(Instant::now() + 200 * MS, within).await {
        assert_eq!(answer.unwrap_err().code(), Code::DeadlineExceeded);
    }
}

#[tokio::test]
async fn the_recipe_for_tonic_sends_its_own_limit() {
    let timer = Timer::current();
    let address = serve_grpc(&timer, async |request: Request<String>| {
        let header = request.metadata().get("grpc-timeout").unwrap();
        Ok(Response::new(header.to_str().unwrap().to_owned()))
    });
    let client = tonic_client::bounded(connect(address.await).await);
    // In a task, as users call it.
    let header = tokio::spawn(call(client, Request::new(String::new())));
    let header = header.await.unwrap().unwrap();
    let micros: u64 = header.strip_suffix('u').unwrap().parse().unwrap();
    assert!((1..=5_000_000).contains(&micros), "{header}");
}

/// The mornings at which the job ran, each with the hours from the one before, or from the start.
/// The wall clock is moved by so many hours after so many.
async fn mornings(start: &str, days: u32, jumps: Vec<(f64, f64)>) -> Vec<(String, f64)> {
    let start: ZonedDateTime = start.parse().unwrap();
    let (zone, begun) = (start.time_zone().clone(), Instant::now());
    let clock = move || {
        let passed = begun.elapsed();
        let hours = passed.as_secs_f64() / 3_600.0;
        let moved: f64 = jumps
            .iter()
            .filter(|(at, _)| *at <= hours)
            .map(|(_, by)| by)
            .sum();
        let time = SystemTime::try_from(start.timestamp()).unwrap() + passed;
        let by = Duration::from_secs_f64(moved.abs() * 3_600.0);
        let time = if moved < 0.0 { time - by } else { time + by };
        WallClock::at(Instant::now(), time)
    };
    let ran = Mutex::new((begun, Vec::new()));
    let job = async |morning: ZonedDateTime| {
        let (last, ran) = &mut *ran.lock().unwrap();
        let hours = (last.elapsed().as_secs_f64() / 36.0).round() / 100.0;
        *last = Instant::now();
        ran.push((morning.datetime().to_string(), hours));
    };
    let ends = each_morning::each_morning(zone, clock, job);
    let ended = tokio::time::timeout(24 * 3_600 * SECOND * days, ends).await;
    assert!(ended.is_err(), "it never ends");
    ran.into_inner().unwrap().1
}

fn at_nine(ran: &[(&str, f64)]) -> Vec<(String, f64)> {
    let ran = ran.iter();
    ran.map(|(day, hours)| (format!("{day}T09:00:00"), *hours))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_at_nine_over_a_change_of_daylight_saving() {
    let ran = mornings("2027-03-26T12:00[Europe/Berlin]", 4, Vec::new()).await;
    let days = ["2027-03-27", "2027-03-28", "2027-03-29", "2027-03-30"];
    let hours = [21.0, 23.0, 24.0, 24.0];
    assert_eq!(ran, at_nine(&[0, 1, 2, 3].map(|at| (days[at], hours[at]))));
    let ran = mornings("2027-10-30T08:00[Europe/Berlin]", 3, Vec::new()).await;
    let days = ["2027-10-30", "2027-10-31", "2027-11-01"];
    assert_eq!(
        ran,
        at_nine(&[(days[0], 1.0), (days[1], 25.0), (days[2], 24.0)])
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_once_each_morning_on_a_clock_that_is_set() {
    // Back by an hour, half an hour after the job.
    let ran = mornings("2027-06-01T08:00[Europe/Berlin]", 2, vec![(1.5, -1.0)]).await;
    assert_eq!(ran, at_nine(&[("2027-06-01", 1.0), ("2027-06-02", 25.0)]));
    // Suspended from noon on for three days, and awake at noon.
    let ran = mornings("2027-06-01T10:00[Europe/Berlin]", 1, vec![(2.0, 72.0)]).await;
    let expected = at_nine(&[("2027-06-02", 2.0), ("2027-06-05", 21.0)]);
    assert_eq!(ran.len(), 2);
    assert_eq!(ran[0].0, expected[0].0);
    assert!((2.0..=2.02).contains(&ran[0].1), "within a minute: {ran:?}");
    assert_eq!(ran[1].0, expected[1].0);
}

#[tokio::test(start_paused = true)]
async fn a_former_owner_keeps_no_lease_alive() {
    use job_lease::{acquire, offer_lost, release, renew};
    let (leases, lost) = DelayMap::new(&Timer::current());
    let (offers, mut offered) = tokio::sync::mpsc::channel(8);
    let offering = tokio::spawn(offer_lost(lost, offers));
    assert!(acquire(&leases, "job", 1) && !acquire(&leases, "job", 2));
    for _ in 0..4 {
        sleep(20 * SECOND).await;
        assert!(renew(&leases, "job", 1) && !renew(&leases, "job", 2));
    }
    // The first worker stalls, and the second one gets the job.
    assert_eq!(offered.recv().await.as_deref(), Some("job"));
    assert!(!renew(&leases, "job", 1) && acquire(&leases, "job", 2));
    let begin = Instant::now();
    for _ in 0..3 {
        assert!(!renew(&leases, "job", 1) && !release(&leases, "job", 1));
        sleep(9 * SECOND).await;
    }
    assert_eq!(
        offered.recv().await.as_deref(),
        Some("job"),
        "no former owner renewed it"
    );
    assert!(begin.elapsed() < 31 * SECOND);
    assert!(acquire(&leases, "job", 3) && release(&leases, "job", 3));
    drop(leases);
    offering.await.unwrap();
    assert!(offered.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn saved_sessions_go_on_and_the_time_in_between_counts() {
    use sessions::{log_in, restore, save, used_by};
    const MINUTE: Duration = Duration::from_secs(60);
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sessions");
    let timer = Timer::current();
    let stopped = SystemTime::now();
    {
        let (sessions, _) = restore(&path, &timer, stopped).unwrap();
        log_in(&sessions, "a", "alice").unwrap();
        log_in(&sessions, "b", "bob of two words").unwrap();
        sleep(10 * MINUTE).await;
        assert_eq!(used_by(&sessions, "b").as_deref(), Some("bob of two words"));
        save(&sessions, &path, stopped).unwrap();
        assert!(log_in(&sessions, "c", "carol").is_err(), "it has stopped");
    }
    // Of the half hour alice has used ten minutes, and bob none.
    let started = stopped + 25 * MINUTE;
    let (sessions, mut ended) = restore(&path, &timer, started).unwrap();
    assert_eq!(ended.recv().await.unwrap().key, "a");
    let start = Instant::now();
    let left = sessions.deadline("b").unwrap() - start;
    let saved = 5 * MINUTE; // in whole milliseconds of the wall clock
    assert!(left <= saved && left >= saved - 3 * MS, "{left:?}");
    while used_by(&sessions, "b").is_some() {
        sleep(4 * MINUTE).await;
    }
    // Of its twelve hours ten minutes had gone at the stop, and 25 more at the start.
    let lived = start.elapsed();
    assert!(
        lived >= 685 * MINUTE - 3 * MS && lived <= 690 * MINUTE,
        "{lived:?}"
    );
    assert_eq!(ended.recv().await.unwrap().key, "b");
    let (sessions, _) = restore(&path, &timer, started).unwrap();
    assert!(sessions.is_empty(), "the file was read once");
}

/// What the recipe says of a keepalive that the peer negotiates.
#[tokio::test(start_paused = true)]
async fn a_longer_timeout_takes_effect_at_the_next_reset() {
    let idle = Timer::current().deadline(60 * SECOND);
    let keepalive = idle.handle();
    assert!(keepalive.set_timeout(90 * SECOND));
    assert_eq!(keepalive.remaining(), Some(60 * SECOND));
    assert!(keepalive.reset());
    assert_eq!(keepalive.remaining(), Some(90 * SECOND));
    assert!(keepalive.set_timeout(20 * SECOND));
    assert_eq!(
        keepalive.remaining(),
        Some(20 * SECOND),
        "a shorter one does at once"
    );
}
