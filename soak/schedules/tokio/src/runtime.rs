//! A runtime, and the threads that are in its context.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::task::{JoinHandle, Task};
use crate::time::Instant;
use crate::time::driver::TimeDriver;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuntimeFlavor {
    CurrentThread,
    MultiThread,
}

/// The flavour of a runtime, and for a current-thread one whether its clock is paused. Then it is
/// another clock than the system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    MultiThread,
    CurrentThread,
    Paused,
}

/// What a program calls.
#[derive(Debug)]
pub struct Runtime(Handle);

#[derive(Clone)]
pub struct Handle(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    id: Id,
    kind: Kind,
    workers: usize,
    pub(crate) time: TimeDriver,
    tasks: Mutex<Vec<Arc<Task>>>,
    are_tasks_dropped: AtomicBool,
}

/// How far a paused clock is from the system's.
pub(crate) const PAUSED_AHEAD: Duration = Duration::from_secs(1000);

std::thread_local! {
    static CURRENT: RefCell<Vec<Handle>> = RefCell::new(Vec::new());
    static WORKER: Cell<Option<usize>> = Cell::new(None);
}

impl Runtime {
    pub fn new(kind: Kind, workers: usize) -> Runtime {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = Id(NEXT.fetch_add(1, Ordering::SeqCst));
        Runtime(Handle(Arc::new(Inner {
            id,
            kind,
            workers,
            time: TimeDriver::new(now_of(kind)),
            tasks: Mutex::default(),
            are_tasks_dropped: AtomicBool::new(false),
        })))
    }

    pub fn handle(&self) -> &Handle {
        &self.0
    }

    /// The time driver's work: `advance` is given the next timer's time and lets time pass. Returns
    /// `false` once `end` was called. Waits while there is no timer.
    pub fn turn(&self, advance: impl FnOnce(Duration)) -> bool {
        let runtime = &self.0.0;
        runtime
            .time
            .turn(|| self.0.now(), || runtime.poll_tasks(), advance)
    }

    /// Polls the tasks that were woken, and turns the time driver without letting time pass.
    pub fn round(&self) {
        let runtime = &self.0.0;
        if runtime.time.are_tasks_woken() {
            runtime.poll_tasks();
        }
        runtime.time.round(self.0.now());
    }

    /// Waits until time need not pass for any timer.
    pub fn wait_until_idle(&self) {
        self.0.0.time.wait_until_idle();
    }

    /// Makes `turn` return `false`, at the latest when it has nothing to do.
    pub fn end(&self) {
        self.0.0.time.end();
    }

    /// Shuts down: drops the tasks, and then ends the time driver.
    pub fn shut_down(&self) {
        let tasks = {
            let mut tasks = self.0.0.tasks.lock().unwrap();
            self.0.0.are_tasks_dropped.store(true, Ordering::SeqCst);
            std::mem::take(&mut *tasks)
        };
        for task in tasks {
            task.finish();
        }
        self.0.0.time.shut_down();
    }
}

impl Inner {
    fn poll_tasks(self: &Arc<Self>) {
        let tasks = self.tasks.lock().unwrap().clone();
        let waker = Waker::from(self.clone());
        tasks.iter().for_each(|task| task.poll(&waker));
        self.tasks
            .lock()
            .unwrap()
            .retain(|task| !task.is_finished());
    }
}

/// Of any task.
impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.time.wake_tasks();
    }
}

impl Handle {
    pub fn current() -> Handle {
        Handle::try_current().expect("there is no reactor running")
    }

    pub fn try_current() -> Result<Handle, TryCurrentError> {
        let current = CURRENT.with(|current| current.borrow().last().cloned());
        current.ok_or(TryCurrentError(()))
    }

    pub fn enter(&self) -> EnterGuard<'_> {
        CURRENT.with(|current| current.borrow_mut().push(self.clone()));
        EnterGuard(PhantomData)
    }

    pub fn id(&self) -> Id {
        self.0.id
    }

    pub fn name(&self) -> Option<&str> {
        None
    }

    pub fn runtime_flavor(&self) -> RuntimeFlavor {
        match self.0.kind {
            Kind::MultiThread => RuntimeFlavor::MultiThread,
            Kind::CurrentThread | Kind::Paused => RuntimeFlavor::CurrentThread,
        }
    }

    pub fn metrics(&self) -> RuntimeMetrics {
        RuntimeMetrics {
            workers: self.0.workers,
        }
    }

    /// `turn` polls it.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (task, output) = Task::new(future);
        let task = Arc::new(task);
        let mut tasks = self.0.tasks.lock().unwrap();
        let is_too_late = self.0.are_tasks_dropped.load(Ordering::SeqCst);
        if !is_too_late {
            tasks.push(task.clone());
        }
        drop(tasks);
        if is_too_late {
            task.finish();
        } else {
            self.0.time.wake_tasks();
        }
        JoinHandle { task, output }
    }

    pub(crate) fn now(&self) -> Instant {
        now_of(self.0.kind)
    }
}

fn now_of(kind: Kind) -> Instant {
    match kind {
        Kind::Paused => Instant::from_std(std::time::Instant::now_standing()) + PAUSED_AHEAD,
        Kind::MultiThread | Kind::CurrentThread => Instant::from_std(std::time::Instant::now()),
    }
}

/// Makes this thread a worker of that number, in whatever runtime.
pub fn be_worker(number: usize) {
    WORKER.with(|worker| worker.set(Some(number)));
}

/// The worker that this thread is.
pub fn worker_index() -> Option<usize> {
    WORKER.with(Cell::get)
}

#[derive(Debug)]
pub struct EnterGuard<'a>(PhantomData<&'a Handle>);

impl Drop for EnterGuard<'_> {
    fn drop(&mut self) {
        // The context goes after it was taken out, because that may drop a runtime.
        let left = CURRENT.with(|current| current.borrow_mut().pop());
        drop(left);
    }
}

#[derive(Clone, Copy, Debug)]
pub struct RuntimeMetrics {
    workers: usize,
}

impl RuntimeMetrics {
    pub fn num_workers(&self) -> usize {
        self.workers
    }
}

#[derive(Debug)]
pub struct TryCurrentError(());

impl TryCurrentError {
    pub fn is_thread_local_destroyed(&self) -> bool {
        false
    }
}

impl fmt::Display for TryCurrentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no reactor running")
    }
}

impl std::error::Error for TryCurrentError {}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.0.id).finish()
    }
}
