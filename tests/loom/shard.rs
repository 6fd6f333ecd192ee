//! The crate's own `shard` files that the models need.

#[path = "../../src/shard/lock.rs"]
pub(crate) mod lock;
#[path = "../../src/shard/next_expiry.rs"]
pub(crate) mod next_expiry;
#[path = "../../src/shard/turned_to.rs"]
pub(crate) mod turned_to;
#[path = "../../src/shard/word.rs"]
pub(crate) mod word;
