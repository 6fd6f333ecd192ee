//! How a row is measured: a [`Race`] runs contenders alternately, and a [`Record`] is what comes
//! out of each.

mod durations;
mod inner;
mod operation;
mod race;
mod record;
mod sample;
mod stats;

pub use durations::Durations;
pub use inner::{Never, Once};
pub use operation::{Operation, operation};
pub use race::{Race, runtime};
pub use record::Record;
pub use sample::{Pace, batch};
pub use stats::Quartiles;
