//! The names of `tokio_util::time`: [`DelayQueue`], and [`FutureExt`].

pub mod delay_queue;

#[doc(inline)]
pub use delay_queue::DelayQueue;

pub use crate::future::FutureExt;
