//! Tasks, and a budget that is never spent.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(());

/// No thread runs a task of the runtime's.
pub fn try_id() -> Option<Id> {
    None
}

pub(crate) struct Task(Mutex<State>);

/// What a task has given, until it is taken.
pub(crate) type Output<T> = Arc<Mutex<Option<T>>>;

#[derive(Default)]
struct State {
    /// It is dropped when the task is finished.
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_finished: bool,
    joins: Option<Waker>,
}

impl Task {
    /// Returns the task, and what its future gives once that has ended.
    pub(crate) fn new<F>(future: F) -> (Task, Output<F::Output>)
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let output = Output::default();
        let to = output.clone();
        let future = async move {
            let given = future.await;
            *to.lock().unwrap() = Some(given);
        };
        let state = State {
            future: Some(Box::pin(future)),
            ..State::default()
        };
        (Task(Mutex::new(state)), output)
    }

    /// Polls its future.
    pub(crate) fn poll(&self, waker: &Waker) {
        let Some(mut future) = self.0.lock().unwrap().future.take() else {
            return;
        };
        let polled = future.as_mut().poll(&mut Context::from_waker(waker));
        if polled.is_ready() {
            drop(future);
            return self.finish();
        }
        let mut state = self.0.lock().unwrap();
        if !state.is_finished {
            state.future = Some(future);
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.lock().unwrap().is_finished
    }

    pub(crate) fn finish(&self) {
        let future = self.0.lock().unwrap().future.take();
        drop(future);
        let joins = {
            let mut state = self.0.lock().unwrap();
            state.is_finished = true;
            state.joins.take()
        };
        if let Some(waker) = joins {
            waker.wake();
        }
    }
}

pub struct JoinHandle<T> {
    pub(crate) task: Arc<Task>,
    pub(crate) output: Output<T>,
}

#[derive(Debug)]
pub struct JoinError(());

impl<T> JoinHandle<T> {
    pub fn abort(&self) {
        self.task.finish();
    }

    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

impl<T> Unpin for JoinHandle<T> {}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.task.0.lock().unwrap();
        if state.is_finished {
            drop(state);
            let output = self.output.lock().unwrap().take();
            return Poll::Ready(output.ok_or(JoinError(())));
        }
        let replaced = state.joins.replace(cx.waker().clone());
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}

/// Goes to the end of the run queue, once.
pub async fn yield_now() {
    let mut is_first = true;
    let poll = |cx: &mut Context<'_>| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    };
    std::future::poll_fn(poll).await;
}

pub mod coop {
    use std::task::{Context, Poll};

    #[derive(Debug)]
    pub struct RestoreOnPending(());

    impl RestoreOnPending {
        pub fn made_progress(&self) {}
    }

    pub fn poll_proceed(_: &mut Context<'_>) -> Poll<RestoreOnPending> {
        Poll::Ready(RestoreOnPending(()))
    }

    pub fn has_budget_remaining() -> bool {
        true
    }

    pub fn unconstrained<F>(future: F) -> F {
        future
    }
}
