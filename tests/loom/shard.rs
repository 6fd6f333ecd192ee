//! The crate's own `shard` files that the models need.

#[path = "../../src/shard/decision.rs"]
pub(crate) mod decision;
#[path = "../../src/shard/lock.rs"]
pub(crate) mod lock;
#[path = "../../src/shard/shard_tick.rs"]
pub(crate) mod shard_tick;
#[path = "../../src/shard/word.rs"]
pub(crate) mod word;
