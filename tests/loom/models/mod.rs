//! One file for each part that is modelled. Each model names the mutation under which it was seen
//! to fail.

mod alarm;
mod earliest;
mod stalls;
mod stream_waker;
mod thread_alarm;
mod turned_to;
mod waiters;
mod word;

/// Three threads at the alarm interleave in too many ways for all of them; a lost change shows
/// with few preemptions.
fn with_few_preemptions(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}
