//! All names of `tokio::time`. Replace `tokio::time` by `tickwheel::time`. `advance`, `pause` and
//! `resume` need this crate's feature `test-util`.
//!
//! A type that sleeps is this crate's. A type that only names or measures time is tokio's. For
//! types of other crates that hold tokio's timers, see the
//! [guide](crate::docs::migration#what-the-import-does-not-cover).
//!
//! ```
//! use tickwheel::time::{self, Duration}; // was: use tokio::time::{self, Duration};
//!
//! # tokio_test::block_on(async { tokio::time::pause();
//! let late = time::timeout(Duration::from_secs(2), std::future::pending::<()>()).await;
//! assert!(late.is_err());
//! # });
//! ```

#[doc(no_inline)]
pub use crate::{
    Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval, interval_at, sleep,
    sleep_until, timeout, timeout_at,
};
#[cfg(feature = "test-util")]
#[doc(no_inline)]
pub use tokio::time::{advance, pause, resume};

/// The names of `tokio::time::error`.
pub mod error {
    #[doc(no_inline)]
    pub use crate::error::Elapsed;
    /// tokio's own error type, for programs that name it. No function of this crate returns it.
    #[doc(no_inline)]
    pub use tokio::time::error::Error;
}
