//! `TimeoutBody` polled by hand, under the paused clock.
#![cfg(feature = "http-body")]

use std::collections::VecDeque;
use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tickwheel::http_body::{Error, TimeoutBody};
use tickwheel::{Duration, Instant, Timer, sleep};
use tokio_test::{assert_pending, assert_ready, task};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

type Step = Result<Frame<&'static [u8]>, std::io::Error>;

/// A body that waits where it has no frame.
#[derive(Debug, Default)]
struct Scripted {
    frames: VecDeque<Option<Step>>,
    is_endless: bool,
    ends_with_its_frames: bool,
}

impl Body for Scripted {
    type Data = &'static [u8];
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Step>> {
        if self.is_endless {
            return Poll::Ready(Some(data()));
        }
        self.frames.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn is_end_stream(&self) -> bool {
        self.ends_with_its_frames && self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(42)
    }
}

fn data() -> Step {
    Ok(Frame::data(b"data"))
}

async fn next<B: Body + Unpin>(body: &mut B) -> Option<Result<Frame<B::Data>, B::Error>> {
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

#[track_caller]
fn assert_nothing_armed() {
    assert_eq!(Timer::current().metrics().pending, 0, "timers are armed");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_gives_no_frame_is_idle() {
    let start = Instant::now();
    let mut body = TimeoutBody::new(Scripted::default()).idle_timeout(SECOND);
    assert!(matches!(next(&mut body).await, Some(Err(Error::Idle))));
    assert_eq!(start.elapsed(), SECOND);
    assert_nothing_armed();
    assert!(next(&mut body).await.is_none(), "at its end");
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn each_frame_has_the_whole_idle_timeout() {
    let mut body = TimeoutBody::new(Scripted::default()).idle_timeout(SECOND);
    for _ in 0..5 {
        assert_pending!(task::spawn(next(&mut body)).poll());
        sleep(SECOND - Duration::from_millis(1)).await;
        body.get_mut().frames.push_back(Some(data()));
        assert!(next(&mut body).await.unwrap().is_ok());
    }
    let start = Instant::now();
    assert!(matches!(next(&mut body).await, Some(Err(Error::Idle))));
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_nobody_asks_does_not_count() {
    let mut body = TimeoutBody::new(Scripted::default()).idle_timeout(SECOND);
    for _ in 0..2 {
        assert_pending!(task::spawn(next(&mut body)).poll());
        body.get_mut().frames.push_back(Some(data()));
        assert!(next(&mut body).await.unwrap().is_ok());
        sleep(HOUR).await;
        assert_nothing_armed();
    }
    let start = Instant::now();
    assert!(matches!(next(&mut body).await, Some(Err(Error::Idle))));
    assert_eq!(start.elapsed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_total_ends_a_body_that_drips() {
    let start = Instant::now();
    let body = TimeoutBody::new(Scripted::default());
    let mut body = body.idle_timeout(SECOND).total_timeout(10 * SECOND);
    let error = loop {
        let frame = tokio::select! {
            frame = next(&mut body) => frame.unwrap(),
            () = sleep(SECOND / 2) => {
                body.get_mut().frames.push_back(Some(data()));
                continue;
            }
        };
        if let Err(error) = frame {
            break error;
        }
    };
    assert!(matches!(error, Error::Total) && error.is_timeout());
    assert_eq!(start.elapsed(), 10 * SECOND);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn the_total_ends_a_body_that_is_always_ready() {
    let endless = Scripted {
        is_endless: true,
        ..Scripted::default()
    };
    let mut body = TimeoutBody::new(endless).total_timeout(SECOND);
    assert!(next(&mut body).await.unwrap().is_ok());
    sleep(SECOND).await;
    assert!(matches!(next(&mut body).await, Some(Err(Error::Total))));
}

#[tokio::test(start_paused = true)]
async fn zero_lets_pass_what_is_ready_and_the_longest_all() {
    let start = Instant::now();
    let mut body = TimeoutBody::new(Scripted::default()).idle_timeout(Duration::ZERO);
    body.get_mut().frames.push_back(Some(data()));
    assert!(next(&mut body).await.unwrap().is_ok());
    assert!(matches!(next(&mut body).await, Some(Err(Error::Idle))));
    let mut body = TimeoutBody::new(String::from("x")).total_timeout(Duration::ZERO);
    assert!(matches!(next(&mut body).await, Some(Err(Error::Total))));
    assert_eq!(start.elapsed(), Duration::ZERO);

    let body = TimeoutBody::new(Scripted::default());
    let mut body = body
        .idle_timeout(Duration::MAX)
        .total_timeout(Duration::MAX);
    assert_pending!(task::spawn(next(&mut body)).poll());
    sleep(100_000 * HOUR).await;
    assert_pending!(task::spawn(next(&mut body)).poll());
}

#[tokio::test(start_paused = true)]
async fn frames_trailers_hints_and_errors_pass_through() {
    let mut body = TimeoutBody::new(Scripted::default())
        .idle_timeout(SECOND)
        .total_timeout(SECOND);
    assert_eq!(body.size_hint().exact(), Some(42));
    assert!(!body.is_end_stream());
    assert!(TimeoutBody::new(String::new()).is_end_stream());
    let frames = &mut body.get_mut().frames;
    frames.push_back(Some(Ok(Frame::trailers(Default::default()))));
    frames.push_back(Some(Err(std::io::ErrorKind::BrokenPipe.into())));
    assert!(next(&mut body).await.unwrap().unwrap().is_trailers());
    let error = next(&mut body).await.unwrap().unwrap_err();
    assert!(!error.is_timeout());
    let source: &std::io::Error = error.source().unwrap().downcast_ref().unwrap();
    assert_eq!(source.kind(), std::io::ErrorKind::BrokenPipe);
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn the_end_leaves_nothing_armed() {
    let mut body = TimeoutBody::new(Scripted::default())
        .idle_timeout(SECOND)
        .total_timeout(SECOND);
    assert_pending!(task::spawn(next(&mut body)).poll());
    assert_eq!(Timer::current().metrics().pending, 2);
    body.get_mut().frames.push_back(None);
    assert!(next(&mut body).await.is_none());
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_whole_body_is_whole_however_late_its_end_is_asked() {
    let body = TimeoutBody::new(String::from("whole"));
    let mut body = body.idle_timeout(SECOND).total_timeout(SECOND);
    assert!(next(&mut body).await.unwrap().is_ok());
    assert!(body.is_end_stream());
    assert_nothing_armed();
    sleep(HOUR).await;
    assert!(next(&mut body).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_last_frame_disarms_what_a_wait_has_armed() {
    let mut body = TimeoutBody::new(Scripted::default())
        .idle_timeout(SECOND)
        .total_timeout(HOUR);
    assert_pending!(task::spawn(next(&mut body)).poll());
    assert_eq!(Timer::current().metrics().pending, 2);
    body.get_mut().frames.push_back(Some(data()));
    body.get_mut().ends_with_its_frames = true;
    assert!(next(&mut body).await.unwrap().is_ok());
    assert!(body.is_end_stream());
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn an_empty_body_needs_no_time() {
    let body = TimeoutBody::new(String::new());
    let mut body = body.total_timeout(Duration::ZERO);
    assert!(body.is_end_stream());
    assert!(next(&mut body).await.is_none());
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn the_end_wins_over_a_total_that_is_over() {
    let mut body = TimeoutBody::new(Scripted::default()).total_timeout(SECOND);
    sleep(HOUR).await;
    body.get_mut().frames.push_back(None);
    assert!(next(&mut body).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_armed_between_frames() {
    let mut body = TimeoutBody::new(Scripted::default()).idle_timeout(SECOND);
    for _ in 0..3 {
        assert_pending!(task::spawn(next(&mut body)).poll());
        assert_eq!(Timer::current().metrics().pending, 1);
        body.get_mut().frames.push_back(Some(data()));
        assert!(next(&mut body).await.unwrap().is_ok());
        assert_nothing_armed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_when_it_is_dropped() {
    let mut body = TimeoutBody::new(Scripted::default()).idle_timeout(SECOND);
    assert_pending!(task::spawn(next(&mut body)).poll());
    sleep(SECOND / 4).await;
    let start = Instant::now();
    assert!(matches!(next(&mut body).await, Some(Err(Error::Idle))));
    assert_eq!(start.elapsed(), SECOND * 3 / 4);
}

#[test]
fn the_end_of_the_timers_runtime_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let timer = runtime.block_on(async { Timer::current() });
    let body = || TimeoutBody::with_timer(&timer, Scripted::default());
    let mut bodies = [body().total_timeout(HOUR), body().idle_timeout(HOUR)];
    for body in &mut bodies {
        assert_pending!(task::spawn(next(body)).poll());
    }
    drop(runtime);
    for body in &mut bodies {
        let end = assert_ready!(task::spawn(next(body)).poll());
        assert!(matches!(end, Some(Err(Error::Cancelled(end))) if end.is_shutdown()));
    }
}

#[tokio::test]
async fn is_send_and_sync_and_unpin_and_can_be_shown() {
    fn assert_all<T: Send + Sync + Unpin + std::fmt::Debug>(_: &T) {}
    fn assert_error<T: std::error::Error + Send + Sync + 'static>() {}

    assert_all(&TimeoutBody::new(String::new()).total_timeout(SECOND));
    assert_error::<Error>();
}
