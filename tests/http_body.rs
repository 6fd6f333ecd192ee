//! `TimeoutBody` polled by hand, under the paused clock.
#![cfg(feature = "http-body")]

use std::collections::VecDeque;
use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use tickwheel::http_body::{Error, TimeoutBody};
use tickwheel::{Duration, Instant, Timer, sleep};
use tokio::task::{coop, yield_now};
use tokio_test::{assert_pending, assert_ready, task};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

type Step = Result<Frame<&'static [u8]>, std::io::Error>;

/// A body that waits where it has no frame. Like a channel of tokio's it obeys the budget of its
/// task: without any left, it waits also where it has one.
#[derive(Debug, Default)]
struct Scripted {
    frames: VecDeque<Option<Step>>,
    is_endless: bool,
    ends_with_its_frames: bool,
    /// Whether each poll uses up the budget of its task.
    is_greedy: bool,
}

fn use_up_the_budget(cx: &mut Context<'_>) {
    while let Poll::Ready(unit) = coop::poll_proceed(cx) {
        unit.made_progress();
    }
}

impl Body for Scripted {
    type Data = &'static [u8];
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Step>> {
        let unit = ready!(coop::poll_proceed(cx));
        let step = if self.is_endless {
            Some(Some(data()))
        } else {
            self.frames.pop_front()
        };
        if step.is_some() {
            unit.made_progress();
        }
        drop(unit);
        if self.is_greedy {
            use_up_the_budget(cx);
        }
        step.map_or(Poll::Pending, Poll::Ready)
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

/// Polls in a task that has used its budget up, and lets the next poll have a new one.
async fn poll_without_a_budget<B: Body + Unpin>(
    body: &mut task::Spawn<B>,
) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
    let polled = std::future::poll_fn(|cx| {
        use_up_the_budget(cx);
        Poll::Ready(body.enter(|cx, body| body.poll_frame(cx)))
    });
    let polled = polled.await;
    yield_now().await;
    polled
}

fn idle_of_a_second() -> TimeoutBody<Scripted> {
    TimeoutBody::new(Scripted::default()).idle_timeout(SECOND)
}

fn total_of_a_second() -> TimeoutBody<Scripted> {
    TimeoutBody::new(Scripted::default()).total_timeout(SECOND)
}

fn idle_of_zero() -> TimeoutBody<Scripted> {
    TimeoutBody::new(Scripted::default()).idle_timeout(Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn a_frame_and_the_end_win_though_the_budget_was_used_up() {
    // A frame that comes after the total is dropped, but the end of the body wins over it.
    for (body, step) in [
        (idle_of_a_second as fn() -> _, Some(data())),
        (total_of_a_second, None),
        (idle_of_zero, Some(data())),
    ] {
        let is_data = step.is_some();
        let mut body = task::spawn(body());
        body.enter(|_, body| body.get_mut().get_mut().frames.push_back(step));
        sleep(2 * SECOND).await;
        assert_pending!(poll_without_a_budget(&mut body).await);
        assert!(body.is_woken(), "it hangs");
        match assert_ready!(body.enter(|cx, body| body.poll_frame(cx))) {
            Some(frame) => assert!(frame.unwrap().is_data() && is_data),
            None => assert!(!is_data),
        }
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_frame_wins_over_an_idle_time_that_a_wait_has_used_up() {
    let mut body = task::spawn(idle_of_a_second());
    assert_pending!(body.enter(|cx, body| body.poll_frame(cx)));
    body.enter(|_, body| body.get_mut().get_mut().frames.push_back(Some(data())));
    sleep(2 * SECOND).await;
    assert_pending!(poll_without_a_budget(&mut body).await);
    let frame = assert_ready!(body.enter(|cx, body| body.poll_frame(cx)));
    assert!(frame.unwrap().unwrap().is_data());
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn silence_is_told_as_soon_as_there_is_a_budget_again() {
    for body in [idle_of_a_second, total_of_a_second, idle_of_zero] {
        let mut body = task::spawn(body());
        sleep(2 * SECOND).await;
        assert_pending!(poll_without_a_budget(&mut body).await);
        assert!(body.is_woken());
        let mut polled = body.enter(|cx, body| body.poll_frame(cx));
        if polled.is_pending() {
            sleep(SECOND).await; // the idle time begins with the poll that waits
            polled = body.enter(|cx, body| body.poll_frame(cx));
        }
        assert!(assert_ready!(polled).unwrap().unwrap_err().is_timeout());
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_uses_the_budget_up_itself_ends_in_the_same_poll() {
    for body in [idle_of_a_second, total_of_a_second] {
        let mut body = task::spawn(body());
        assert_pending!(body.enter(|cx, body| body.poll_frame(cx)));
        sleep(2 * SECOND).await;
        body.enter(|_, body| body.get_mut().get_mut().is_greedy = true);
        let polled = body.enter(|cx, body| body.poll_frame(cx));
        assert!(assert_ready!(polled).unwrap().unwrap_err().is_timeout());
        yield_now().await;
    }
    assert_nothing_armed();
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

/// A chain of errors tells each of them once.
#[test]
fn an_error_of_the_body_stands_once_in_its_chain() {
    use std::error::Error as _;

    let inner = std::io::Error::other("the peer has gone");
    let error = tickwheel::http_body::Error::Body(Box::new(inner));
    assert_eq!(error.to_string(), "the body within failed");
    let source = error.source().map(ToString::to_string);
    assert_eq!(source.as_deref(), Some("the peer has gone"));
}
