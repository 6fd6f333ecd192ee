//! How a row is measured: [`Race`] lets contenders take turns, [`sample`] times one turn, [`Record`] is what comes out.

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
pub use sample::Pace;
pub use stats::Quartiles;
