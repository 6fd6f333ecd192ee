//! The checker, by tokio's clock.

use tokio::time::Instant;

pub use tickwheel_soak_model::{Rules, check, check_order};

pub type Act = tickwheel_soak_model::Act<Instant>;
pub type Call = tickwheel_soak_model::Call<Instant>;
pub type Due = tickwheel_soak_model::Due<Instant>;
pub type Event = tickwheel_soak_model::Event<Instant>;
pub type Outcome = tickwheel_soak_model::Outcome<Instant>;

/// Makes a call between two readings of the clock.
pub fn timed<R>(call: impl FnOnce() -> R) -> (R, Call) {
    let before = Instant::now();
    let answer = call();
    let after = Instant::now();
    (answer, Call { before, after })
}
