//! The crate's own `shard` files that the models need.

#[path = "../../src/shard/next_expiry.rs"]
pub(crate) mod next_expiry;
#[path = "../../src/shard/word.rs"]
pub(crate) mod word;

/// For a model that holds the mutex in the place of a shard's lock.
pub(crate) fn lock_held() -> word::LockHeld {
    word::LockHeld::by_lock_of_shard()
}
