//! `TimeoutBody` polled by hand.

use std::collections::VecDeque;
use std::error::Error as _;
use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use tickwheel::{Duration, Instant, Timer, sleep};
use tickwheel_util::http_body::{Error, TimeoutBody};
use tokio::task::{coop, yield_now};
use tokio_test::{assert_pending, assert_ready, task};

use crate::common::{
    HOUR, MS, SECOND, assert_nothing_armed, current_thread, use_up_the_budget, without_a_budget,
};

type Step = Result<Frame<&'static [u8]>, io::Error>;

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

impl Body for Scripted {
    type Data = &'static [u8];
    type Error = io::Error;

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

fn body() -> TimeoutBody<Scripted> {
    TimeoutBody::new(Scripted::default())
}

async fn next<B: Body + Unpin>(body: &mut B) -> Option<Result<Frame<B::Data>, B::Error>> {
    std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
}

/// A poll that has to wait.
fn waits<B: Body<Data: Debug, Error: Debug> + Unpin>(body: &mut B) {
    assert_pending!(task::spawn(next(body)).poll());
}

/// The next frame, which comes now.
async fn comes(body: &mut TimeoutBody<Scripted>) {
    let start = Instant::now();
    body.get_mut().frames.push_back(Some(data()));
    assert!(next(body).await.unwrap().unwrap().is_data());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// The idle timeout ends the body, and not before that time from now.
async fn is_idle_in(time: Duration, body: &mut TimeoutBody<Scripted>) {
    let start = Instant::now();
    assert!(matches!(next(body).await, Some(Err(Error::Idle))));
    assert_eq!(start.elapsed(), time);
}

#[tokio::test(start_paused = true)]
async fn each_frame_has_the_whole_idle_timeout_from_its_poll() {
    let mut body = body().idle_timeout(SECOND);
    for pause in [Duration::ZERO, HOUR, HOUR] {
        waits(&mut body);
        assert_eq!(Timer::current().metrics().pending(), 1);
        sleep(SECOND - MS).await;
        comes(&mut body).await;
        assert_nothing_armed();
        sleep(pause).await;
    }
    waits(&mut body);
    sleep(SECOND / 4).await;
    is_idle_in(SECOND * 3 / 4, &mut body).await;
    assert_nothing_armed();
    assert!(next(&mut body).await.is_none(), "at its end");
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
}

/// Makes a frame in two steps of half a second. The second begins when a poll has seen the first.
struct Lazy(Pin<Box<dyn Future<Output = ()>>>);

impl Lazy {
    fn new() -> Lazy {
        Lazy(Box::pin(async {
            sleep(SECOND / 2).await;
            sleep(SECOND / 2).await;
        }))
    }
}

impl Body for Lazy {
    type Data = &'static [u8];
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Step>> {
        self.0.as_mut().poll(cx).map(|()| Some(data()))
    }
}

/// The wait for a frame is dropped for the work, and its idle time goes on. A timeout around each
/// wait begins with the wait.
#[tokio::test(start_paused = true)]
async fn work_in_another_branch_counts_for_an_idle_timeout_alone() {
    for has_idle_timeout in [true, false] {
        let body = TimeoutBody::new(Lazy::new());
        let idle = if has_idle_timeout { SECOND } else { HOUR };
        let mut body = body.idle_timeout(idle);
        waits(&mut body);
        sleep(2 * SECOND).await; // the other branch works
        let frame = tickwheel::timeout(SECOND, next(&mut body)).await.unwrap();
        let is_idle = matches!(frame, Some(Err(Error::Idle)));
        assert_eq!(is_idle, has_idle_timeout, "{frame:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_total_ends_a_body_that_drips_or_is_always_ready() {
    let start = Instant::now();
    let mut dripping = body().idle_timeout(SECOND).total_timeout(10 * SECOND);
    let error = loop {
        let frame = tokio::select! {
            frame = next(&mut dripping) => frame.unwrap(),
            () = sleep(SECOND / 2) => {
                dripping.get_mut().frames.push_back(Some(data()));
                continue;
            }
        };
        if let Err(error) = frame {
            break error;
        }
    };
    assert!(matches!(error, Error::Total) && error.is_timeout());
    assert_eq!(start.elapsed(), 10 * SECOND);

    let mut endless = body().total_timeout(SECOND);
    endless.get_mut().is_endless = true;
    assert!(next(&mut endless).await.unwrap().is_ok());
    sleep(SECOND).await;
    assert!(matches!(next(&mut endless).await, Some(Err(Error::Total))));
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn zero_lets_pass_what_is_ready_and_the_longest_all() {
    let mut zero = body().idle_timeout(Duration::ZERO);
    comes(&mut zero).await;
    is_idle_in(Duration::ZERO, &mut zero).await;
    let mut zero = TimeoutBody::new(String::from("x")).total_timeout(Duration::ZERO);
    assert!(matches!(next(&mut zero).await, Some(Err(Error::Total))));
    let longest = body().idle_timeout(Duration::MAX);
    let mut longest = longest.total_timeout(Duration::MAX);
    waits(&mut longest);
    sleep(100_000 * HOUR).await;
    waits(&mut longest);
}

#[tokio::test(start_paused = true)]
async fn frames_trailers_hints_and_errors_pass_through() {
    let mut body = body().idle_timeout(SECOND).total_timeout(SECOND);
    assert_eq!(body.size_hint().exact(), Some(42));
    assert!(!body.is_end_stream());
    assert!(TimeoutBody::new(String::new()).is_end_stream());
    let frames = &mut body.get_mut().frames;
    frames.push_back(Some(Ok(Frame::trailers(Default::default()))));
    frames.push_back(Some(Err(io::Error::other("the peer has gone"))));
    assert!(next(&mut body).await.unwrap().unwrap().is_trailers());
    let error = next(&mut body).await.unwrap().unwrap_err();
    assert!(!error.is_timeout());
    // The chain of errors tells each of them once.
    assert_eq!(error.to_string(), "the body within failed");
    let source: &io::Error = error.source().unwrap().downcast_ref().unwrap();
    assert_eq!(source.to_string(), "the peer has gone");
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn the_end_and_a_last_frame_leave_nothing_armed() {
    for is_told_with_the_frame in [false, true] {
        let mut body = body().idle_timeout(SECOND).total_timeout(HOUR);
        waits(&mut body);
        assert_eq!(Timer::current().metrics().pending(), 2);
        let script = body.get_mut();
        script.ends_with_its_frames = is_told_with_the_frame;
        script.frames.push_back(is_told_with_the_frame.then(data));
        assert_eq!(next(&mut body).await.is_some(), is_told_with_the_frame);
        assert_nothing_armed();
    }
}

#[tokio::test(start_paused = true)]
async fn a_whole_body_is_whole_however_late_its_end_is_asked_for() {
    let whole = TimeoutBody::new(String::from("whole"));
    let mut whole = whole.idle_timeout(SECOND).total_timeout(SECOND);
    assert!(next(&mut whole).await.unwrap().is_ok());
    assert!(whole.is_end_stream());
    let mut unasked = body().total_timeout(SECOND);
    assert_nothing_armed();
    sleep(HOUR).await;
    assert!(next(&mut whole).await.is_none());
    unasked.get_mut().frames.push_back(None);
    assert!(next(&mut unasked).await.is_none());
    let mut empty = TimeoutBody::new(String::new()).total_timeout(Duration::ZERO);
    assert!(next(&mut empty).await.is_none());
}

/// Bodies whose time is over two seconds after a poll of them has waited.
const BODIES: [fn() -> TimeoutBody<Scripted>; 3] = [
    || body().idle_timeout(SECOND),
    || body().total_timeout(SECOND),
    || body().idle_timeout(Duration::ZERO),
];

type Polled = Poll<Option<Result<Frame<&'static [u8]>, Error>>>;

fn poll(body: &mut task::Spawn<TimeoutBody<Scripted>>) -> Polled {
    body.enter(|cx, body| body.poll_frame(cx))
}

#[tokio::test(start_paused = true)]
async fn a_frame_and_the_end_win_though_the_budget_was_used_up() {
    // A frame that comes after the total is dropped, but the end of the body wins over it. A wait
    // before that uses the idle time up.
    for (number, has_waited) in [(0, false), (0, true), (1, false), (2, false)] {
        let mut body = task::spawn(BODIES[number]());
        if has_waited {
            assert_pending!(poll(&mut body));
        }
        let is_data = number != 1;
        let step = is_data.then(data);
        body.enter(|_, body| body.get_mut().get_mut().frames.push_back(step));
        sleep(2 * SECOND).await;
        assert_pending!(without_a_budget(|| poll(&mut body)).await);
        assert!(body.is_woken(), "it hangs");
        match assert_ready!(poll(&mut body)) {
            Some(frame) => assert!(frame.unwrap().is_data() && is_data),
            None => assert!(!is_data),
        }
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn silence_is_told_as_soon_as_there_is_a_budget_again() {
    for body in BODIES {
        let mut body = task::spawn(body());
        sleep(2 * SECOND).await;
        assert_pending!(without_a_budget(|| poll(&mut body)).await);
        assert!(body.is_woken());
        let mut polled = poll(&mut body);
        if polled.is_pending() {
            sleep(SECOND).await; // the idle time begins with the poll that waits
            polled = poll(&mut body);
        }
        assert!(assert_ready!(polled).unwrap().unwrap_err().is_timeout());
    }
    assert_nothing_armed();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_uses_the_budget_up_itself_ends_in_the_same_poll() {
    for body in &BODIES[..2] {
        let mut body = task::spawn(body());
        assert_pending!(poll(&mut body));
        sleep(2 * SECOND).await;
        body.enter(|_, body| body.get_mut().get_mut().is_greedy = true);
        let polled = poll(&mut body);
        assert!(assert_ready!(polled).unwrap().unwrap_err().is_timeout());
        yield_now().await;
    }
    assert_nothing_armed();
}

#[test]
fn the_end_of_the_timers_runtime_is_an_error() {
    let runtime = current_thread();
    let timer = runtime.block_on(async { Timer::current() });
    let body = || TimeoutBody::new_on(&timer, Scripted::default());
    let mut bodies = [body().total_timeout(HOUR), body().idle_timeout(HOUR)];
    bodies.iter_mut().for_each(waits);
    drop(runtime);
    for body in &mut bodies {
        let end = assert_ready!(task::spawn(next(body)).poll());
        assert!(matches!(end, Some(Err(Error::ShutDown(_)))));
    }
}

#[tokio::test]
async fn is_send_and_sync_and_unpin_and_can_be_shown() {
    fn assert_all<T: Send + Sync + Unpin + Debug>(_: &T) {}
    fn assert_error<T: std::error::Error + Send + Sync + 'static>() {}
    assert_all(&TimeoutBody::new(String::new()).total_timeout(SECOND));
    assert_error::<Error>();
}
