//! Access methods that the wrapping futures and the idle timeout share.

/// The methods of a wrapper that lead to the value in its field `$field`.
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

        /// Returns the wrapped value.
        pub fn into_inner(self) -> $within {
            self.$field
        }
    };
    (pinned $field:ident: $within:ty) => {
        access_within!($field: $within);

        /// Like `get_mut`, where the wrapper is pinned.
        pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut $within> {
            self.project().$field
        }
    };
}
pub(crate) use access_within;
