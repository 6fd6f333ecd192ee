//! The adapters: this crate's timers behind the traits that other crates ask for.
//!
//! Each is behind the feature of its name. `budget`, `wait_timeout` and `access_within` are what
//! some of them share.
//!
//! Invariant: an adapter uses only what the crate offers to anybody, and no module below knows of
//! it.

/// The methods of a wrapper that lead to what it wraps, in the field of that name.
#[allow(unused_macros)] // Without features there is no wrapper.
macro_rules! access_within {
    ($field:ident: $within:ty) => {
        /// What is wrapped.
        pub fn get_ref(&self) -> &$within {
            &self.$field
        }

        /// What is wrapped, to be changed. The timer takes no notice of what passes through this.
        pub fn get_mut(&mut self) -> &mut $within {
            &mut self.$field
        }

        /// Returns what is wrapped.
        pub fn into_inner(self) -> $within {
            self.$field
        }
    };
    (pinned $field:ident: $within:ty) => {
        access_within!($field: $within);

        /// As `get_mut`, where this is pinned.
        pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut $within> {
            self.project().$field
        }
    };
}

#[cfg(any(
    feature = "http-body",
    feature = "io",
    feature = "stream",
    feature = "tower"
))]
mod budget;
#[cfg(feature = "http-body")]
pub mod http_body;
#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "io")]
pub mod io;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "tower")]
pub mod tower;
#[cfg(any(feature = "http-body", feature = "io"))]
mod wait_timeout;
