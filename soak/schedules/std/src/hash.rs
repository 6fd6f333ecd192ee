//! Hashes, whose random keys are those of the schedule.

pub use std::hash::*;

use shuttle::rand::Rng;

#[derive(Clone, Debug)]
pub struct RandomState(u64);

impl RandomState {
    #[allow(clippy::new_without_default)]
    pub fn new() -> RandomState {
        RandomState(shuttle::rand::thread_rng().gen_range(0..u64::MAX))
    }
}

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}
