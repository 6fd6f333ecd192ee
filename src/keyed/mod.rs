//! Timers by key: many tasks reach a timer by its key, and need no handle of it.
//!
//! Invariant: no module below this one uses the maps.

pub(crate) mod deadline_map;
pub(crate) mod delay_map;
mod linear_hash_table;
pub(crate) mod table;
