//! shuttle's locks and atomics.

pub use shuttle::sync::{
    Barrier, Condvar, Mutex, MutexGuard, Once, RwLock, RwLockReadGuard, RwLockWriteGuard,
    WaitTimeoutResult, atomic, mpsc,
};
pub use std::sync::*;
