//! The runtimes of one program, what runs its actors, and how the runtimes end.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Wake};
use std::thread::{self, JoinHandle};

use futures::FutureExt;
use tickwheel::Timer;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{LocalSet, block_in_place};
use tokio::time::{Duration, Instant};

pub type Actor = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// One thread drives it, and others use it at the same time.
    Current,
    Multi(usize),
}

/// How a runtime ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    Drop,
    Background,
    Timeout(Duration),
}

/// A runtime, and the thread that keeps it.
pub struct Hosted {
    pub flavour: Flavour,
    pub handle: Handle,
    /// When its end began.
    pub end_began: Arc<OnceLock<Instant>>,
    /// When a sleep of tokio's was woken that nothing but the end of the time driver wakes.
    pub ended: Arc<Ended>,
    /// An actor has blocked its worker in place.
    blocks_in_place: AtomicBool,
    twin: Arc<Twin>,
    stop: Mutex<Option<oneshot::Sender<End>>>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// A sleep of tokio's that beats while the program runs. It shows whether the machine lets the
/// runtime run at all.
struct Twin {
    start: Instant,
    last: AtomicU64,
}

const BEAT: Duration = Duration::from_millis(20);

impl Twin {
    async fn beat(self: Arc<Twin>) {
        loop {
            tokio::time::sleep(BEAT).await;
            let now = self.start.elapsed().as_millis() as u64;
            self.last.store(now, Ordering::Relaxed);
        }
    }

    fn is_fresh(&self) -> bool {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(last) < 5 * BEAT
    }
}

/// Notes when it is woken.
#[derive(Default)]
pub struct Ended {
    at: OnceLock<Instant>,
    how: OnceLock<End>,
    sleep: Mutex<Option<Pin<Box<tokio::time::Sleep>>>>,
}

impl Wake for Ended {
    fn wake(self: Arc<Ended>) {
        let _ = self.at.set(Instant::now());
    }
}

impl Ended {
    fn of(handle: &Handle) -> Arc<Ended> {
        let ended = Arc::<Ended>::default();
        let _context = handle.enter();
        let mut sleep = Box::pin(tokio::time::sleep(Duration::from_secs(24 * 3600)));
        let waker = ended.clone().into();
        assert!(
            sleep
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        *ended.sleep.lock().unwrap() = Some(sleep);
        ended
    }

    pub fn at(&self) -> Option<Instant> {
        self.at.get().copied()
    }
}

pub fn build(flavour: Flavour) -> Runtime {
    let mut builder = match flavour {
        Flavour::Current => Builder::new_current_thread(),
        Flavour::Multi(workers) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(workers);
            #[cfg(tokio_unstable)]
            builder.enable_alt_timer();
            builder
        }
    };
    builder
        .enable_time()
        .thread_keep_alive(Duration::from_millis(200))
        .build()
        .unwrap()
}

impl Hosted {
    pub fn new(flavour: Flavour) -> Hosted {
        let end_began = Arc::<OnceLock<Instant>>::default();
        let (stop, stopped) = oneshot::channel();
        let (started, start) = mpsc::channel();
        let keeper = thread::spawn({
            let end_began = end_began.clone();
            move || {
                let runtime = build(flavour);
                started.send(runtime.handle().clone()).unwrap();
                let end = match flavour {
                    Flavour::Current => runtime.block_on(stopped),
                    Flavour::Multi(_) => stopped.blocking_recv(),
                };
                end_began.set(Instant::now()).unwrap();
                match end.unwrap_or(End::Drop) {
                    End::Drop => drop(runtime),
                    End::Background => runtime.shutdown_background(),
                    End::Timeout(patience) => runtime.shutdown_timeout(patience),
                }
            }
        });
        let handle = start.recv().unwrap();
        let twin = Arc::new(Twin {
            start: Instant::now(),
            last: AtomicU64::new(0),
        });
        handle.spawn(twin.clone().beat());
        Hosted {
            flavour,
            ended: Ended::of(&handle),
            blocks_in_place: AtomicBool::new(false),
            handle,
            end_began,
            twin,
            stop: Mutex::new(Some(stop)),
            keeper: Mutex::new(Some(keeper)),
        }
    }

    pub fn end(&self, end: End) {
        if let Some(stop) = self.stop.lock().unwrap().take() {
            let _ = self.ended.how.set(end);
            let _ = stop.send(end);
        }
    }

    pub fn join(&self) {
        if let Some(keeper) = self.keeper.lock().unwrap().take() {
            keeper.join().unwrap();
        }
        // It holds what notes its end.
        *self.ended.sleep.lock().unwrap() = None;
    }

    /// Its own timers come in time, or it ends.
    pub fn is_fresh(&self) -> bool {
        self.end_began.get().is_some() || self.twin.is_fresh()
    }

    /// Its end began, and tokio has not ended its own timers.
    pub fn is_ending(&self) -> bool {
        self.end_began.get().is_some() && self.ended.at().is_none()
    }

    /// Tokio itself hangs. It hands a worker that blocks in place over to a thread of the pool for
    /// blocking calls. If the end of the runtime began just before, the pool takes nothing any
    /// more. Then no thread runs the tasks or ends tokio's own timers, and the actor waits for a
    /// task.
    pub fn is_hung_by_tokio(&self) -> bool {
        self.is_ending() && self.blocks_in_place.load(Ordering::Relaxed)
    }

    /// Whether it runs, for the account of a finding.
    pub fn state(&self) -> String {
        let keeper = self.keeper.lock().unwrap();
        let has_ended = keeper.as_ref().is_none_or(JoinHandle::is_finished);
        let (end_began, flavour) = (self.end_began.get().map(Instant::elapsed), self.flavour);
        let (how, ended) = (self.ended.how.get(), self.ended.at().map(|at| at.elapsed()));
        match end_began {
            None => format!("{flavour:?} runs"),
            Some(end_began) => format!(
                "{flavour:?} shut down by {how:?} {end_began:?} ago, {has_ended}; its time driver {ended:?} ago"
            ),
        }
    }

    pub fn own_timer(&self) -> Timer {
        let _context = self.handle.enter();
        Timer::current()
    }
}

/// What runs an actor. A number is that of the runtime.
#[derive(Clone, Copy, Debug)]
pub enum Executor {
    Task(usize),
    OnWorker(usize),
    Blocking(usize),
    /// A plain thread in the context of the runtime.
    Entered(usize),
    /// A plain thread outside of all runtimes.
    Plain,
    /// A local task of a runtime of its own.
    Local,
}

impl Executor {
    pub fn random(random: &mut fastrand::Rng, runtimes: usize) -> Executor {
        let runtime = random.usize(..runtimes);
        match random.u8(..10) {
            0..4 => Executor::Task(runtime),
            4 => Executor::OnWorker(runtime),
            5 => Executor::Blocking(runtime),
            6 => Executor::Entered(runtime),
            7 | 8 => Executor::Plain,
            _ => Executor::Local,
        }
    }

    /// One that is no task of a runtime that ends.
    pub fn elsewhere(random: &mut fastrand::Rng) -> Executor {
        let all = [
            Executor::OnWorker(0),
            Executor::Blocking(0),
            Executor::Entered(0),
            Executor::Plain,
            Executor::Local,
        ];
        *random.choice(&all).unwrap()
    }

    /// Starts an actor. It must not panic.
    pub fn start(self, runtimes: &[Hosted], actor: Actor) {
        match self {
            Executor::Task(at) => drop(runtimes[at].handle.spawn(actor)),
            Executor::OnWorker(at) if runtimes[at].flavour == Flavour::Current => {
                Executor::Task(at).start(runtimes, actor);
            }
            Executor::OnWorker(at) => {
                runtimes[at].blocks_in_place.store(true, Ordering::Relaxed);
                drop(runtimes[at].handle.spawn(async move {
                    block_in_place(|| Handle::current().block_on(actor));
                }));
            }
            Executor::Blocking(at) => {
                let handle = runtimes[at].handle.clone();
                runtimes[at]
                    .handle
                    .spawn_blocking(move || handle.block_on(actor));
            }
            Executor::Entered(at) => {
                let handle = runtimes[at].handle.clone();
                thread::spawn(move || handle.block_on(actor));
            }
            Executor::Plain => drop(thread::spawn(move || futures::executor::block_on(actor))),
            Executor::Local => drop(thread::spawn(move || {
                let runtime = build(Flavour::Current);
                LocalSet::new().block_on(&runtime, async move {
                    tokio::task::spawn_local(actor).await.unwrap();
                });
            })),
        }
    }
}

/// Keeps its worker busy for so long.
pub fn spin(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// The message of a panic, if the future panics.
pub async fn catch(future: impl Future<Output = ()>) -> Result<(), String> {
    let caught = AssertUnwindSafe(future).catch_unwind().await;
    caught.map_err(|payload| message_of(&*payload))
}

pub fn message_of(payload: &(dyn std::any::Any + Send)) -> String {
    match payload.downcast_ref::<String>() {
        Some(message) => message.clone(),
        None => payload
            .downcast_ref::<&str>()
            .copied()
            .unwrap_or("?")
            .to_owned(),
    }
}
