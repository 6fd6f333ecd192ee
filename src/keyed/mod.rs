//! Timers by key: what many tasks know by a key and none has to hold.
//!
//! Invariant: the maps are made of the crate's other parts by the calls that anybody else may make.
//! Nothing below this room knows of them.

pub(crate) mod deadline_map;
pub(crate) mod delay_map;
pub(crate) mod hashing;
mod limit;
mod segments;
mod table;
