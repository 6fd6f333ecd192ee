//! `cores ROW CONTENDER WORKERS TIMES [THINK [WARM]]`: each worker does the row's operation so many
//! times on timers of that contender, all at once. It prints a line of JSON. `cores list` prints
//! the rows and contenders.
//!
//! THINK are the ns of other work before each operation: of the model's time under the plugin, and
//! of real time otherwise. Before the count each worker does the operation WARM times. On each
//! worker one sleep is armed that is due before all others, and after the end.

use std::collections::HashMap;
use std::future::{Future, IntoFuture, poll_fn, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tickwheel::{DeadlineMap, DelayMap, Timer};
use tickwheel_cores::{Numbers, begin, end, think};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;

const STANDING: Duration = Duration::from_secs(25);
const AFTER: Duration = Duration::from_secs(30);

const ROWS: &str = "arm clone yield select reset ready handle deadline-map delay-map";
const CONTENDERS: &str = "none tokio alternative free kept global global-kept pingora \
                          on-alternative; -percore at the end: a runtime for each worker; \
                          maps: kept, mutex-map";

type Operation = Box<dyn FnMut(&mut Context<'_>) + Send>;

/// Pending once, and wakes its task at once.
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Pending once, and wakes no task.
struct Still(bool);

impl Future for Still {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

trait Timers: Clone + Send + Sync + 'static {
    type Sleep: Future<Output = ()> + Send + 'static;
    fn sleep(&self, after: Duration) -> Self::Sleep;
    fn reset(sleep: Pin<&mut Self::Sleep>, at: Instant);
    fn timeout<F: Future + Send + 'static>(
        &self,
        after: Duration,
        future: F,
    ) -> impl Future + Send + 'static;
}

#[derive(Clone)]
struct Without;
impl Timers for Without {
    type Sleep = std::future::Pending<()>;
    fn sleep(&self, _: Duration) -> Self::Sleep {
        std::future::pending()
    }
    fn reset(sleep: Pin<&mut Self::Sleep>, at: Instant) {
        black_box((sleep, at));
    }
    fn timeout<F: Future + Send + 'static>(
        &self,
        _: Duration,
        future: F,
    ) -> impl Future + Send + 'static {
        future
    }
}

#[derive(Clone)]
struct Tokio;
impl Timers for Tokio {
    type Sleep = tokio::time::Sleep;
    fn sleep(&self, after: Duration) -> Self::Sleep {
        tokio::time::sleep(after)
    }
    fn reset(sleep: Pin<&mut Self::Sleep>, at: Instant) {
        sleep.reset(at);
    }
    fn timeout<F: Future + Send + 'static>(
        &self,
        after: Duration,
        future: F,
    ) -> impl Future + Send + 'static {
        tokio::time::timeout(after, future)
    }
}

#[derive(Clone)]
struct Free;
impl Timers for Free {
    type Sleep = tickwheel::Sleep;
    fn sleep(&self, after: Duration) -> Self::Sleep {
        tickwheel::sleep(after)
    }
    fn reset(sleep: Pin<&mut Self::Sleep>, at: Instant) {
        sleep.reset(at);
    }
    fn timeout<F: Future + Send + 'static>(
        &self,
        after: Duration,
        future: F,
    ) -> impl Future + Send + 'static {
        tickwheel::timeout(after, future)
    }
}

#[derive(Clone)]
struct Kept(Timer);
impl Timers for Kept {
    type Sleep = tickwheel::Sleep;
    fn sleep(&self, after: Duration) -> Self::Sleep {
        self.0.sleep(after)
    }
    fn reset(sleep: Pin<&mut Self::Sleep>, at: Instant) {
        sleep.reset(at);
    }
    fn timeout<F: Future + Send + 'static>(
        &self,
        after: Duration,
        future: F,
    ) -> impl Future + Send + 'static {
        self.0.timeout(after, future)
    }
}

#[derive(Clone)]
struct Global;
impl Timers for Global {
    type Sleep = tickwheel::Sleep;
    fn sleep(&self, after: Duration) -> Self::Sleep {
        Timer::global().sleep(after)
    }
    fn reset(sleep: Pin<&mut Self::Sleep>, at: Instant) {
        sleep.reset(at);
    }
    fn timeout<F: Future + Send + 'static>(
        &self,
        after: Duration,
        future: F,
    ) -> impl Future + Send + 'static {
        Timer::global().timeout(after, future)
    }
}

#[derive(Clone)]
struct Pingora;
impl Timers for Pingora {
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
    fn sleep(&self, after: Duration) -> Self::Sleep {
        Box::pin(pingora_timeout::sleep(after))
    }
    fn reset(mut sleep: Pin<&mut Self::Sleep>, _: Instant) {
        sleep.set(Box::pin(pingora_timeout::sleep(AFTER)));
    }
    fn timeout<F: Future + Send + 'static>(
        &self,
        after: Duration,
        future: F,
    ) -> impl Future + Send + 'static {
        pingora_timeout::timeout(after, future)
    }
}

fn polled<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) -> bool {
    future.poll(cx).is_ready()
}

/// What a worker does, made in its own task.
fn operation<T: Timers>(row: &str, timers: T) -> Operation {
    match row {
        // Arms, and is dropped once the future is ready.
        "arm" => Box::new(move |cx| {
            let mut timeout = pin!(timers.timeout(AFTER, Still(false)));
            assert!(!polled(timeout.as_mut(), cx));
            assert!(polled(timeout, cx));
        }),
        // The same, by a clone of the timer of its own, as a handler of a request may have one.
        "clone" => Box::new(move |cx| {
            let timers = timers.clone();
            let mut timeout = pin!(timers.timeout(AFTER, Still(false)));
            assert!(!polled(timeout.as_mut(), cx));
            assert!(polled(timeout, cx));
            drop(timers);
        }),
        "ready" => Box::new(move |cx| {
            assert!(polled(
                pin!(timers.timeout(AFTER, ready(1).into_future())),
                cx
            ));
        }),
        // A message comes while the sleep is armed.
        "select" => {
            let (sender, mut messages) = tokio::sync::mpsc::channel::<u64>(32);
            Box::new(move |cx| {
                let mut either = pin!(async {
                    tokio::select! { m = messages.recv() => m, () = timers.sleep(AFTER) => None }
                });
                assert!(!polled(either.as_mut(), cx));
                sender.try_send(7).unwrap();
                assert!(polled(either, cx));
            })
        }
        // To later, by its owner.
        "reset" => {
            let mut sleep = Box::pin(timers.sleep(AFTER));
            let mut armed = false;
            Box::new(move |cx| {
                if !std::mem::replace(&mut armed, true) {
                    assert!(!polled(sleep.as_mut(), cx));
                }
                T::reset(sleep.as_mut(), Instant::now() + AFTER);
            })
        }
        _ => panic!("no such row: {row}"),
    }
}

struct Plan {
    row: String,
    workers: usize,
    times: usize,
    warm: usize,
    think: u64,
    there: AtomicUsize,
    back: AtomicUsize,
    settled: OnceLock<Instant>,
    warmed: AtomicUsize,
    done: AtomicUsize,
}

struct Taken {
    cpu: u64,
    began: u64,
    ended: u64,
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes that place alone.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Plan {
    /// Each task on a worker of its own, which it blocks. In between tokio's driver turns, and so
    /// knows of the standing sleeps.
    async fn settle(&self) {
        self.wait_at(&self.there);
        // One instant for all, so that one turn wakes all: a worker whose task waits for the others
        // drives nothing.
        let at = *self
            .settled
            .get_or_init(|| Instant::now() + Duration::from_millis(5));
        tokio::time::sleep_until(at).await;
        self.wait_at(&self.back);
    }

    fn wait_at(&self, there: &AtomicUsize) {
        there.fetch_add(1, SeqCst);
        while there.load(SeqCst) < self.workers {
            std::thread::yield_now();
        }
    }

    /// Goes on until all have warmed up, and again until all are done, so that none counts alone.
    fn drive(&self, index: usize, operation: &mut Operation, cx: &mut Context<'_>) -> Taken {
        let mut numbers = Numbers(index as u64 * 0x9e37_79b9 + 88_172_645_463_325_252);
        let mut once = |n: usize| {
            for _ in 0..n {
                if self.think > 0 {
                    think(self.think / 2 + numbers.below(self.think));
                }
                operation(cx);
            }
        };
        once(self.warm);
        self.warmed.fetch_add(1, SeqCst);
        while self.warmed.load(SeqCst) < self.workers {
            once(4);
        }
        let (cpu, began) = (
            clock(libc::CLOCK_THREAD_CPUTIME_ID),
            clock(libc::CLOCK_MONOTONIC),
        );
        begin();
        once(self.times);
        end();
        let (ended, cpu) = (
            clock(libc::CLOCK_MONOTONIC),
            clock(libc::CLOCK_THREAD_CPUTIME_ID) - cpu,
        );
        self.done.fetch_add(1, SeqCst);
        while self.done.load(SeqCst) < self.workers {
            once(4);
        }
        Taken { cpu, began, ended }
    }
}

fn build(contender: &str, workers: usize) -> Runtime {
    if contender.ends_with("-percore") {
        return Builder::new_current_thread().enable_all().build().unwrap();
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all();
    if contender.contains("alternative") {
        #[cfg(tokio_unstable)]
        builder.enable_alt_timer();
        #[cfg(not(tokio_unstable))]
        panic!("build with --cfg tokio_unstable");
    }
    builder.build().unwrap()
}

/// In a worker's task, from the beginning to the end.
async fn work<T: Timers>(timers: T, plan: Arc<Plan>, index: usize) -> Taken {
    let mut standing = Box::pin(timers.sleep(STANDING));
    poll_fn(|cx| {
        assert!(!polled(standing.as_mut(), cx));
        Poll::Ready(())
    })
    .await;
    plan.settle().await;
    if plan.row == "yield" {
        let run = async |n: usize| {
            for _ in 0..n {
                timers.timeout(AFTER, Once(false)).await;
            }
        };
        run(plan.warm).await;
        plan.warmed.fetch_add(1, SeqCst);
        while plan.warmed.load(SeqCst) < plan.workers {
            run(4).await;
        }
        let (cpu, began) = (
            clock(libc::CLOCK_THREAD_CPUTIME_ID),
            clock(libc::CLOCK_MONOTONIC),
        );
        begin();
        run(plan.times).await;
        end();
        let (ended, cpu) = (
            clock(libc::CLOCK_MONOTONIC),
            clock(libc::CLOCK_THREAD_CPUTIME_ID) - cpu,
        );
        plan.done.fetch_add(1, SeqCst);
        while plan.done.load(SeqCst) < plan.workers {
            run(4).await;
        }
        return Taken { cpu, began, ended };
    }
    let mut operation = operation(&plan.row, timers);
    let mut run = pin!(tokio::task::unconstrained(poll_fn(|cx| Poll::Ready(
        plan.drive(index, &mut operation, cx)
    ))));
    run.as_mut().await
}

/// Rows on something that all workers share.
async fn share(
    make: Arc<dyn Fn(usize) -> Operation + Send + Sync>,
    plan: Arc<Plan>,
    index: usize,
) -> Taken {
    let mut standing = Box::pin(tickwheel::sleep(STANDING));
    poll_fn(|cx| {
        assert!(!polled(standing.as_mut(), cx));
        Poll::Ready(())
    })
    .await;
    plan.settle().await;
    let mut operation = make(index);
    tokio::task::unconstrained(poll_fn(|cx| {
        Poll::Ready(plan.drive(index, &mut operation, cx))
    }))
    .await
}

const HANDLES: usize = 256;

fn shared(
    row: &str,
    contender: &str,
    workers: usize,
) -> Arc<dyn Fn(usize) -> Operation + Send + Sync> {
    let key = |index: usize, k: &mut u64| {
        *k += 1;
        (index as u64) << 40 | *k
    };
    match (row, contender) {
        // Of deadlines that other tasks wait on, each one in another tick than before.
        ("handle", _) => {
            let timer = Timer::current();
            let handles: Vec<Vec<_>> = (0..workers)
                .map(|_| {
                    (0..HANDLES)
                        .map(|_| {
                            let deadline = timer.deadline(AFTER);
                            let handle = deadline.handle();
                            tokio::spawn(deadline);
                            handle
                        })
                        .collect()
                })
                .collect();
            let handles = Mutex::new(handles.into_iter().map(Some).collect::<Vec<_>>());
            Arc::new(move |index| {
                let mine = handles.lock().unwrap()[index].take().unwrap();
                let mut k = 0;
                Box::new(move |_| {
                    k += 1;
                    if k % HANDLES == 0 {
                        think(2_200_000);
                    }
                    assert!(mine[k % HANDLES].reset());
                })
            })
        }
        ("deadline-map", "kept") => {
            let map: DeadlineMap<u64> = DeadlineMap::new(&Timer::current());
            Arc::new(move |index| {
                let (map, mut k) = (map.clone(), 0);
                Box::new(move |_| drop(black_box(map.insert(key(index, &mut k), AFTER).unwrap())))
            })
        }
        ("delay-map", "kept") => {
            let (map, expirations) = DelayMap::<u64, u64>::new(&Timer::current());
            map.insert(u64::MAX, 0, STANDING).unwrap();
            std::mem::forget(expirations);
            Arc::new(move |index| {
                let (map, mut k) = (map.clone(), 0);
                Box::new(move |_| {
                    let key = key(index, &mut k);
                    map.insert(key, key, AFTER).unwrap();
                    assert_eq!(map.remove(&key), Some(key));
                })
            })
        }
        ("delay-map" | "deadline-map", "mutex-map") => {
            let mut queue = DelayQueue::new();
            queue.insert(u64::MAX, STANDING);
            let map = Arc::new(Mutex::new((HashMap::new(), queue)));
            Arc::new(move |index| {
                let (map, mut k) = (map.clone(), 0);
                Box::new(move |_| {
                    let key = key(index, &mut k);
                    {
                        let (values, queue) = &mut *map.lock().unwrap();
                        values.insert(key, (key, queue.insert(key, AFTER)));
                    }
                    let (values, queue) = &mut *map.lock().unwrap();
                    let (_, place) = values.remove(&key).unwrap();
                    queue.remove(&place);
                })
            })
        }
        _ => panic!("no such row and contender: {row} {contender}"),
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_none_or(|a| a == "list") {
        return println!("{ROWS}\n{CONTENDERS}");
    }
    let number = |n: usize, or: usize| args.get(n).map_or(or, |a| a.parse().unwrap());
    let (row, contender, workers, times) =
        (&args[1], args[2].clone(), number(3, 2), number(4, 400));
    let plan = Arc::new(Plan {
        row: row.clone(),
        workers,
        times,
        warm: number(6, 300.min(times)),
        think: number(5, 0) as u64,
        there: AtomicUsize::new(0),
        back: AtomicUsize::new(0),
        settled: OnceLock::new(),
        warmed: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
    });
    let is_shared = ["handle", "deadline-map", "delay-map"].contains(&&row[..]);
    let start = {
        let (contender, plan) = (contender.clone(), plan.clone());
        move |rt: &Runtime, index: usize| {
            let plan = plan.clone();
            match contender.trim_end_matches("-percore") {
                "none" => rt.spawn(work(Without, plan, index)),
                "tokio" | "alternative" => rt.spawn(work(Tokio, plan, index)),
                "free" | "on-alternative" => rt.spawn(work(Free, plan, index)),
                "kept" => {
                    let _in = rt.enter();
                    rt.spawn(work(Kept(Timer::current()), plan, index))
                }
                "global" => rt.spawn(work(Global, plan, index)),
                "global-kept" => rt.spawn(work(Kept(Timer::global().clone()), plan, index)),
                "pingora" => rt.spawn(work(Pingora, plan, index)),
                other => panic!("no such contender: {other}"),
            }
        }
    };
    let taken: Vec<Taken> = if contender.ends_with("-percore") {
        let built = Arc::new(Barrier::new(workers));
        let threads: Vec<_> = (0..workers)
            .map(|index| {
                let (start, contender, built) = (start.clone(), contender.clone(), built.clone());
                std::thread::spawn(move || {
                    let rt = build(&contender, 1);
                    built.wait();
                    let task = start(&rt, index);
                    rt.block_on(task).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    } else {
        let rt = build(&contender, workers);
        let all: Vec<_> = if is_shared {
            let make = rt.block_on(async {
                let make = shared(row, &contender, workers);
                tokio::time::sleep(Duration::from_millis(20)).await;
                make
            });
            (0..workers)
                .map(|index| rt.spawn(share(make.clone(), plan.clone(), index)))
                .collect()
        } else {
            (0..workers).map(|index| start(&rt, index)).collect()
        };
        rt.block_on(async {
            let mut taken = vec![];
            for one in all {
                taken.push(one.await.unwrap());
            }
            taken
        })
    };
    let total = (workers * times) as f64;
    let cpu = taken.iter().map(|t| t.cpu).sum::<u64>() as f64 / total;
    let wall = (taken.iter().map(|t| t.ended).max().unwrap()
        - taken.iter().map(|t| t.began).min().unwrap()) as f64;
    println!(
        "{{\"row\":\"{row}\",\"contender\":\"{contender}\",\"workers\":{workers},\"times\":{times},\"think\":{},\"cpu_ns\":{cpu:.1},\"ops_per_us\":{:.3}}}",
        plan.think,
        total / wall * 1e3
    );
}
