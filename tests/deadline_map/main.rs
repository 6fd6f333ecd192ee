//! `DeadlineMap`: one awaited deadline for each key, which any task resets, cancels or expires by
//! the key alone.

mod all;
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod model;
mod panics;
mod threads;

use tickwheel::{DeadlineMap, Timer};

use crate::common::multi_thread;

fn map() -> DeadlineMap<u32> {
    DeadlineMap::new(&Timer::current())
}

fn runtime() -> (tokio::runtime::Runtime, Timer) {
    let runtime = multi_thread(2);
    let timer = Timer::builder().build_on(runtime.handle()).unwrap();
    (runtime, timer)
}
