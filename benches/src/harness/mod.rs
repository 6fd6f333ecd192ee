//! How a row is measured: a [`Race`] lets operations take turns, a [`load()`] whole servers and
//! clients, and a [`Record`] is what comes out of each.

mod durations;
mod inner;
mod load;
mod operation;
mod race;
mod record;
mod sample;
mod stats;

pub use durations::Durations;
pub use inner::{Never, Once};
pub use load::{Client, Scene, load};
pub use operation::{Operation, operation};
pub use race::{Race, runtime};
pub use record::Record;
pub use sample::{Pace, batch};
pub use stats::Quartiles;
