//! How the maps hash keys, unless the user gives a hasher.
//!
//! Invariant: on the system's clock the hash is keyed at random, so that nobody can choose keys
//! that collide. If the clock is paused when the map is made, the hash is fixed, so that equal runs
//! are equal.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};

use crate::time::clock::Clock;

/// What a [`DeadlineMap`](crate::DeadlineMap) hashes its keys with, unless it is made
/// [`with_hasher`](crate::DeadlineMap::with_hasher).
///
/// It is the standard library's hash, keyed at random for each map, so that nobody can choose keys
/// that collide. If the clock is paused when the map is made, the hash is fixed, so that equal runs
/// are equal.
#[derive(Clone, Debug)]
pub struct DefaultHashBuilder(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Random(RandomState),
    Fixed(BuildHasherDefault<DefaultHasher>),
}

impl DefaultHashBuilder {
    pub(crate) fn new(clock: &Clock) -> DefaultHashBuilder {
        DefaultHashBuilder(if clock.is_virtual() {
            Kind::Fixed(BuildHasherDefault::default())
        } else {
            Kind::Random(RandomState::new())
        })
    }
}

impl BuildHasher for DefaultHashBuilder {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        match &self.0 {
            Kind::Random(random) => random.build_hasher(),
            Kind::Fixed(fixed) => fixed.build_hasher(),
        }
    }
}
