//! Timers by key: many tasks reach a timer by its key, and no task has to hold it.
//!
//! Invariant: no module below this one knows of the maps.

pub(crate) mod deadline_map;
pub(crate) mod delay_map;
mod linear_hash_table;
pub(crate) mod table;

use crate::error::{InsertError, InsertIfAbsentError};

/// The error of an insert that replaces an existing entry.
fn not_occupied<T>(error: InsertIfAbsentError<T>) -> InsertError<T> {
    match error {
        InsertIfAbsentError::Closed(back) => InsertError::Closed(back),
        InsertIfAbsentError::AtCapacity(back) => InsertError::AtCapacity(back),
        InsertIfAbsentError::Occupied(_) => unreachable!("it replaces what is there"),
    }
}
