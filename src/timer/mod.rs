//! The settings of a [`Timer`]: its [`Builder`].

mod builder;
pub(crate) mod handle;
pub(crate) mod local;
mod thread_shard;

pub use builder::Builder;

pub(crate) use handle::Timer;
