//! What the futures that wrap another one, and the adapters, have in common: the ways to it.

/// The methods of a wrapper that lead to what it wraps, in the field of that name.
macro_rules! access_within {
    ($field:ident: $within:ty) => {
        /// The wrapped value.
        pub fn get_ref(&self) -> &$within {
            &self.$field
        }

        /// A mutable reference to the wrapped value. Using it does not affect the timer.
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
#[allow(unused_imports)] // Without features there is no adapter.
pub(crate) use access_within;
