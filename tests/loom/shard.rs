//! The crate's own `shard` files that the models need.

#[path = "../../src/shard/deadline_state.rs"]
pub(crate) mod deadline_state;
#[path = "../../src/shard/word.rs"]
pub(crate) mod word;
