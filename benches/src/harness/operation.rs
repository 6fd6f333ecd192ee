//! What a contender does.

use std::task::Context;

/// What a contender does, over and over, in one task.
pub trait Operation: Send + 'static {
    /// Makes ready, before the time is taken. It runs in the task that will run the operation.
    fn prepare(&mut self, _cx: &mut Context<'_>) {}

    /// Does the operation `times` times. `cx` is the context of the task.
    fn run(&mut self, cx: &mut Context<'_>, times: usize);

    /// Whether all that `run` left to other tasks or threads is done. A sample lasts until it is.
    fn is_settled(&mut self) -> bool {
        true
    }
}

impl<F: FnMut(&mut Context<'_>, usize) + Send + 'static> Operation for F {
    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        self(cx, times);
    }
}

/// An operation from a closure, which does it as often as its argument says.
pub fn operation(run: impl FnMut(&mut Context<'_>, usize) + Send + 'static) -> impl Operation {
    run
}
