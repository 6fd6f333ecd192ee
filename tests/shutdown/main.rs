//! The end of a runtime: its own tasks go while they are pending, as with tokio's timers, and
//! whoever waits from elsewhere is told.

#[path = "../common/mod.rs"]
mod common;

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, mpsc};
use std::task::Poll;
use std::thread;

use futures::FutureExt;
use futures::future::{Either, select};
use tickwheel::{Deadline, Duration, Instant, Sleep, Timer};
use tokio::runtime::{Handle, Runtime};
use tokio::task::{LocalSet, block_in_place, yield_now};

use crate::common::{HOUR, MS, current_thread, multi_thread, poll_once};

const MINUTE: Duration = Duration::from_secs(60);
/// What tokio's own timers say once their runtime has shut down.
const TOKIOS_SENTENCE: &str = "A Tokio 1.x context was found, but it is being shutdown.";

/// The panics that tell of a shutdown are caught here, and need not be printed.
fn print_no_panics_of_a_shutdown() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let of_this_file = info.location().is_some_and(|at| at.file() == file!());
            let message = info.to_string();
            if of_this_file || !(message.contains("shut down") || message.contains("shutdown")) {
                default(info);
            }
        }));
    });
}

/// Runs a test on a thread of its own, so that one which hangs fails.
fn bounded<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    print_no_panics_of_a_shutdown();
    let (sender, outcome) = mpsc::channel();
    let thread = thread::spawn(move || sender.send(test()).unwrap());
    match outcome.recv_timeout(MINUTE) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => resume_unwind(thread.join().unwrap_err()),
    }
}

/// How a wait ended.
#[derive(Debug)]
enum End {
    Elapsed,
    Cancelled { by_shutdown: bool },
    Panicked(String),
}

impl End {
    fn of(deadline: Result<(), tickwheel::error::Cancelled>) -> End {
        match deadline {
            Ok(()) => End::Elapsed,
            Err(cancelled) => End::Cancelled {
                by_shutdown: cancelled.is_shutdown(),
            },
        }
    }
}

type Waiting = Pin<Box<dyn Future<Output = End> + Send>>;

/// The same, and a panic is its end too.
async fn end_of(waiting: Waiting) -> End {
    match AssertUnwindSafe(waiting).catch_unwind().await {
        Ok(end) => end,
        Err(payload) => End::Panicked(match payload.downcast::<String>() {
            Ok(message) => *message,
            Err(payload) => payload.downcast_ref::<&str>().unwrap().to_string(),
        }),
    }
}

/// A way to wait for what never comes, and what tells of the shutdown.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    /// To be called in the context of the runtime that drives the timer.
    wait: fn() -> Waiting,
}

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::of("tokio's sleep", || {
            let nap = tokio::time::sleep(HOUR);
            Box::pin(nap.map(|()| End::Elapsed))
        }),
        Kind::of("sleep", || {
            let nap = tickwheel::sleep(HOUR);
            Box::pin(nap.map(|()| End::Elapsed))
        }),
        Kind::of("timeout", || {
            let timeout = tickwheel::timeout(HOUR, pending::<()>());
            Box::pin(timeout.map(|_| End::Elapsed))
        }),
        Kind::of("interval", || {
            let mut beat = tickwheel::interval_at(Instant::now() + HOUR, HOUR);
            Box::pin(async move {
                beat.tick().await;
                End::Elapsed
            })
        }),
        Kind::of("deadline", || {
            Box::pin(Timer::current().deadline(HOUR).map(End::of))
        }),
    ];

    const fn of(name: &'static str, wait: fn() -> Waiting) -> Kind {
        Kind { name, wait }
    }

    fn assert_is_told(self, place: &str, end: &End) {
        let is_told = match end {
            End::Elapsed => false,
            End::Cancelled { by_shutdown } => *by_shutdown,
            End::Panicked(message) if self.name == "tokio's sleep" => {
                message.contains(TOKIOS_SENTENCE)
            }
            End::Panicked(message) => {
                message.contains(TOKIOS_SENTENCE) && message.contains("shut down")
            }
        };
        assert!(is_told, "{} {place}: {end:?}", self.name);
    }
}

/// Makes a wait in the context of a runtime, and leaves that again.
fn made_on(handle: &Handle, kind: Kind) -> Waiting {
    let _context = handle.enter();
    (kind.wait)()
}

/// Where the waits go on: they begin and tell their end there.
#[derive(Default)]
struct Places {
    told: Vec<(&'static str, mpsc::Receiver<End>)>,
    begun: Vec<mpsc::Receiver<()>>,
}

/// One of them.
struct Place {
    begins: mpsc::Sender<()>,
    end: mpsc::Sender<End>,
}

impl Places {
    fn add(&mut self, name: &'static str) -> Place {
        let ((begins, begun), (end, told)) = (mpsc::channel(), mpsc::channel());
        self.told.push((name, told));
        self.begun.push(begun);
        Place { begins, end }
    }

    /// Returns when all have begun: what has not would be dropped with the runtime.
    fn await_begun(&self) {
        for begun in &self.begun {
            begun.recv_timeout(MINUTE).unwrap();
        }
    }

    fn assert_told(self, kind: Kind) {
        for (name, told) in self.told {
            match told.recv_timeout(MINUTE) {
                Ok(end) => kind.assert_is_told(name, &end),
                Err(error) => panic!("{} {name} is not told: {error}", kind.name),
            }
        }
    }
}

impl Place {
    fn wait(self, wait: impl FnOnce() -> End) {
        self.begins.send(()).unwrap();
        let _ = self.end.send(wait());
    }

    async fn wait_async(self, waiting: Waiting) {
        self.begins.send(()).unwrap();
        let _ = self.end.send(end_of(waiting).await);
    }
}

/// Has one wait of a kind begin at each place that is not a task of the runtime.
fn begin_everywhere(runtime: &Runtime, other: &Runtime, kind: Kind) -> Places {
    let mut places = Places::default();
    let in_context =
        move |context: &Handle| context.block_on(async { end_of((kind.wait)()).await });

    let (place, handle) = (places.add("in a blocking task"), runtime.handle().clone());
    runtime.spawn_blocking(move || place.wait(|| in_context(&handle)));
    if runtime.metrics().num_workers() > 1 {
        let place = places.add("in place");
        runtime.spawn(async move {
            block_in_place(|| place.wait(|| in_context(&Handle::current())));
        });
    }
    let place = places.add("on a plain thread in the context");
    let handle = runtime.handle().clone();
    thread::spawn(move || place.wait(|| in_context(&handle)));
    let place = places.add("on a plain thread outside");
    let waiting = made_on(runtime.handle(), kind);
    thread::spawn(move || place.wait(|| futures::executor::block_on(end_of(waiting))));
    let place = places.add("in another runtime");
    other.spawn(place.wait_async(made_on(runtime.handle(), kind)));
    let place = places.add("in a local set of another thread");
    let waiting = made_on(runtime.handle(), kind);
    thread::spawn(move || {
        let local = LocalSet::new();
        local.spawn_local(place.wait_async(waiting));
        current_thread().block_on(local);
    });
    places.await_begun();
    places
}

#[test]
fn whoever_waits_from_elsewhere_is_told_that_the_runtime_has_shut_down() {
    for kind in Kind::ALL {
        bounded(move || {
            let other = multi_thread(1);
            for runtime in [multi_thread(2), current_thread()] {
                let places = begin_everywhere(&runtime, &other, kind);
                thread::sleep(30 * MS);
                drop(runtime);
                places.assert_told(kind);
            }
        });
    }
}

/// Sends when it is dropped.
struct SaysWhenDropped(Vec<mpsc::Sender<()>>);

impl Drop for SaysWhenDropped {
    fn drop(&mut self) {
        for sender in &self.0 {
            let _ = sender.send(());
        }
    }
}

#[test]
fn a_wait_that_begins_while_the_runtime_shuts_down_is_told() {
    for kind in Kind::ALL {
        bounded(move || {
            for round in 0..20 {
                begin_during_a_shutdown_of(multi_thread(2), kind, round);
                begin_during_a_shutdown_of(current_thread(), kind, round);
            }
        });
    }
}

/// The waits begin when the shutdown drops a task, before it has come to the timers, or a little
/// later.
fn begin_during_a_shutdown_of(runtime: Runtime, kind: Kind, round: u32) {
    // The timer is in use.
    let first = runtime.spawn(async { tickwheel::sleep(MS).await });
    runtime.block_on(first).unwrap();
    let mut places = Places::default();
    let mut says = SaysWhenDropped(Vec::new());
    let mut add = |name| {
        let (say, said) = mpsc::channel::<()>();
        says.0.push(say);
        let place = places.add(name);
        move |wait: &dyn Fn() -> End| {
            place.wait(|| {
                said.recv().unwrap();
                thread::sleep(round / 2 * Duration::from_micros(20));
                wait()
            });
        }
    };
    let in_context =
        move |context: &Handle| context.block_on(async { end_of((kind.wait)()).await });

    let (place, handle) = (add("in a blocking task"), runtime.handle().clone());
    runtime.spawn_blocking(move || place(&|| in_context(&handle)));
    if runtime.metrics().num_workers() > 1 {
        let place = add("in place");
        runtime.spawn(async move { block_in_place(|| place(&|| in_context(&Handle::current()))) });
    }
    let place = add("on a plain thread in the context");
    let handle = runtime.handle().clone();
    thread::spawn(move || place(&|| in_context(&handle)));
    let place = add("on a plain thread outside");
    let handle = runtime.handle().clone();
    thread::spawn(move || {
        place(&|| futures::executor::block_on(end_of(made_on(&handle, kind))));
    });
    runtime.spawn(async move {
        let _says = says;
        pending::<()>().await;
    });
    places.await_begun();
    drop(runtime);
    places.assert_told(kind);
}

/// Computes so long, and gives up its worker in no way.
fn compute(time: Duration) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What the tasks of a runtime saw of its end: nothing.
type Seen = Arc<Mutex<Vec<End>>>;

/// A task that arms and disarms timers without an end, and computes in between.
async fn busy(round: fn() -> Waiting, work: Duration, seen: Seen) {
    loop {
        match end_of(round()).await {
            End::Elapsed => compute(work),
            told => return seen.lock().unwrap().push(told),
        }
    }
}

fn round_on_tokio() -> Waiting {
    Box::pin(async {
        let _ = tokio::time::timeout(MINUTE, yield_now()).await;
        let mut beat = tokio::time::interval_at(Instant::now() + MINUTE, MINUTE);
        select(pin!(beat.tick()), pin!(yield_now())).await;
        End::Elapsed
    })
}

fn round_on_tickwheel() -> Waiting {
    Box::pin(async {
        let _ = tickwheel::timeout(MINUTE, yield_now()).await;
        let mut beat = tickwheel::interval_at(Instant::now() + MINUTE, MINUTE);
        select(pin!(beat.tick()), pin!(yield_now())).await;
        let deadline = Timer::current().deadline(MINUTE);
        match select(deadline, pin!(yield_now())).await {
            Either::Left((ended, _)) => End::of(ended),
            Either::Right(_) => End::Elapsed,
        }
    })
}

/// Runtimes of all shapes are made, busy for a moment, and dropped.
fn drop_busy_runtimes(round: fn() -> Waiting, repeats: u32) {
    let shapes = [1, 2, 4, 8].into_iter().flat_map(|workers| {
        [(10, 0), (10, 200), (100, 50), (100, 0), (1_000, 20)].map(|shape| (workers, shape))
    });
    for (workers, (tasks, work)) in shapes {
        for repeat in 0..repeats {
            let seen = Seen::default();
            let runtime = match workers {
                1 => current_thread(),
                _ => multi_thread(workers),
            };
            for _ in 0..tasks {
                let work = Duration::from_micros(work);
                runtime.spawn(busy(round, work, seen.clone()));
            }
            let moment = repeat % 4 * Duration::from_micros(400);
            runtime.block_on(async { tokio::time::sleep(moment).await });
            drop(runtime);
            let seen = seen.lock().unwrap();
            assert!(
                seen.is_empty(),
                "{workers} workers, {tasks} tasks, {work} us: {} saw the end: {:?}",
                seen.len(),
                seen[0]
            );
        }
    }
}

#[test]
fn a_busy_runtime_that_is_dropped_tells_none_of_its_own_tasks_on_tokio() {
    bounded(|| drop_busy_runtimes(round_on_tokio, 4));
}

#[test]
fn a_busy_runtime_that_is_dropped_tells_none_of_its_own_tasks() {
    bounded(|| drop_busy_runtimes(round_on_tickwheel, 12));
}

#[test]
fn a_busy_runtime_that_is_dropped_tells_those_elsewhere_alone() {
    bounded(|| {
        let other = multi_thread(1);
        for round in 0..60 {
            let kind = Kind::ALL[1 + round % 4];
            let seen = Seen::default();
            let runtime = multi_thread(2 + round % 3);
            for _ in 0..50 {
                let work = Duration::from_micros(round as u64 % 3 * 50);
                runtime.spawn(busy(round_on_tickwheel, work, seen.clone()));
            }
            let places = begin_everywhere(&runtime, &other, kind);
            thread::sleep(MS);
            drop(runtime);
            places.assert_told(kind);
            let seen = seen.lock().unwrap();
            assert!(seen.is_empty(), "{} tasks saw the end", seen.len());
        }
    });
}

/// Polls a future once, and says how that ended if it did.
fn outcome_of_poll<F: Future + Unpin>(future: &mut F) -> Result<Poll<F::Output>, String> {
    catch_unwind(AssertUnwindSafe(|| poll_once(future))).map_err(|_| "a panic".to_owned())
}

/// A task that the shutdown drops looks at its timers a last time.
struct LastLook<S: Future<Output = ()> + Unpin> {
    armed: S,
    make: fn() -> S,
    deadline: Option<Deadline>,
    seen: mpsc::Sender<String>,
}

impl<S: Future<Output = ()> + Unpin> LastLook<S> {
    async fn for_ever(mut self) {
        poll_fn(|cx| Pin::new(&mut self.armed).poll(cx)).await;
        unreachable!("it is an hour");
    }
}

impl<S: Future<Output = ()> + Unpin> Drop for LastLook<S> {
    fn drop(&mut self) {
        let armed = outcome_of_poll(&mut self.armed);
        let made = catch_unwind(self.make).map(|mut made| outcome_of_poll(&mut made));
        let deadline = self.deadline.as_mut().map(outcome_of_poll);
        let pending = self.deadline.as_ref().map(|it| it.handle().is_pending());
        let reset = self.deadline.as_ref().map(|it| it.handle().reset());
        let is_well = matches!(armed, Ok(Poll::Pending))
            && matches!(made, Ok(Ok(Poll::Pending)))
            && matches!(deadline, None | Some(Ok(Poll::Pending)))
            && pending != Some(false)
            && reset != Some(false);
        let all = format!("{armed:?} {made:?} {deadline:?} {pending:?} {reset:?}");
        let _ = self.seen.send(if is_well { String::new() } else { all });
    }
}

fn look_a_last_time<S>(runtime: Runtime, make: fn() -> S, deadline: fn() -> Option<Deadline>)
where
    S: Future<Output = ()> + Unpin + Send + 'static,
{
    let (sender, seen) = mpsc::channel();
    // Some tasks are older than the timer, some are younger.
    let begun = Arc::new(AtomicUsize::new(0));
    for all in [10, 20] {
        for _ in 0..10 {
            let (seen, begun) = (sender.clone(), begun.clone());
            runtime.spawn(async move {
                yield_now().await;
                let last_look = LastLook {
                    armed: make(),
                    make,
                    deadline: deadline(),
                    seen,
                };
                begun.fetch_add(1, Ordering::Relaxed);
                last_look.for_ever().await;
            });
        }
        while begun.load(Ordering::Relaxed) < all {
            runtime.block_on(async { tokio::time::sleep(MS).await });
        }
    }
    drop((runtime, sender));
    let seen: Vec<_> = seen.into_iter().collect();
    assert_eq!(seen.len(), 20);
    let told: Vec<_> = seen.iter().filter(|seen| !seen.is_empty()).collect();
    assert!(told.is_empty(), "{} of 20: {}", told.len(), told[0]);
}

#[test]
fn a_task_that_the_shutdown_drops_finds_its_timers_pending_on_tokio() {
    let make = || Box::pin(tokio::time::sleep(HOUR));
    for _ in 0..10 {
        for runtime in [multi_thread(2), current_thread()] {
            bounded(move || look_a_last_time(runtime, make, || None));
        }
    }
}

#[test]
fn a_task_that_the_shutdown_drops_finds_its_timers_pending() {
    let deadline = || Some(Timer::current().deadline(HOUR));
    let make = || tickwheel::sleep(HOUR);
    for _ in 0..10 {
        for runtime in [multi_thread(2), current_thread()] {
            bounded(move || look_a_last_time(runtime, make, deadline));
        }
    }
}

#[test]
fn the_panic_after_a_shutdown_has_tokios_sentence_beside_ours() {
    for runtime in [multi_thread(2), current_thread()] {
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let mut armed: Sleep = timer.sleep(HOUR);
        assert_eq!(outcome_of_poll(&mut armed), Ok(Poll::Pending));
        let unarmed = timer.sleep(HOUR);
        drop(runtime);
        let late = timer.sleep(HOUR);
        let bounded_late = timer.timeout(HOUR, pending::<()>());
        let mut beat = timer.interval_at(Instant::now() + HOUR, HOUR);
        let told: [Waiting; 5] = [
            Box::pin(armed.map(|()| End::Elapsed)),
            Box::pin(unarmed.map(|()| End::Elapsed)),
            Box::pin(late.map(|()| End::Elapsed)),
            Box::pin(bounded_late.map(|_| End::Elapsed)),
            Box::pin(async move {
                beat.tick().await;
                End::Elapsed
            }),
        ];
        for waiting in told {
            let end = futures::executor::block_on(end_of(waiting));
            let End::Panicked(message) = end else {
                panic!("{end:?}")
            };
            assert!(message.contains("has shut down"), "{message}");
            assert!(message.contains(TOKIOS_SENTENCE), "{message}");
        }
    }
}

/// Threads arm while the runtime goes: whatever is told, none is told that its time has come before
/// it has.
#[test]
fn nothing_elapses_early_as_a_runtime_ends() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};
    for round in 0..60_u64 {
        let runtime = current_thread();
        let timer = tickwheel::Timer::builder()
            .build_on(runtime.handle())
            .unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (timer, done) = (&timer, &done);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let timeout = Duration::from_micros(300 + 100 * number);
                        let start = Instant::now();
                        let ended = futures::executor::block_on(timer.deadline(timeout));
                        let taken = start.elapsed();
                        assert!(
                            ended.is_err() || taken >= timeout,
                            "{taken:?} of {timeout:?}"
                        );
                    }
                });
            }
            runtime.block_on(async { tokio::time::sleep(Duration::from_micros(50 * round)).await });
            drop(runtime);
            done.store(true, Ordering::Relaxed);
        });
    }
}
