//! What a contender does.

use std::task::Context;

/// What a contender does, over and over, in one task.
pub trait Operation: Send + 'static {
    /// Makes ready, before the time is taken. In the task that will run it.
    fn prepare(&mut self, _cx: &mut Context<'_>) {}

    /// Does it `times` times. `cx` is that of the task.
    fn run(&mut self, cx: &mut Context<'_>, times: usize);

    /// Whether that which `run` left to other tasks or threads is done. A sample lasts until it is.
    fn is_settled(&mut self) -> bool {
        true
    }
}

impl<F: FnMut(&mut Context<'_>, usize) + Send + 'static> Operation for F {
    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        self(cx, times);
    }
}

/// An operation from a closure that does it so many times.
pub fn operation(run: impl FnMut(&mut Context<'_>, usize) + Send + 'static) -> impl Operation {
    run
}
