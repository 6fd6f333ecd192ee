//! shuttle's threads, on a machine with one core, so that a map has few parts.

use std::io;
use std::num::NonZero;

pub use shuttle::thread::*;

pub fn available_parallelism() -> io::Result<NonZero<usize>> {
    Ok(NonZero::<usize>::MIN)
}

#[derive(Debug, Default)]
pub struct Builder(shuttle::thread::Builder);

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    pub fn name(self, name: String) -> Builder {
        Builder(self.0.name(name))
    }

    pub fn spawn<F, T>(self, f: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.0.spawn(f)
    }
}
