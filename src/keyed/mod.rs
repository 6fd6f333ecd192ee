//! Timers by key: many tasks reach a timer by its key, and no task has to hold it.
//!
//! Invariant: no module below this one knows of the maps.

pub(crate) mod deadline_map;
pub(crate) mod delay_map;
mod linear_hash_table;
pub(crate) mod table;
