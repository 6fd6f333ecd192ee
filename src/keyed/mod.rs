//! Timers by key: many tasks reach a timer by its key, and none of them has to hold it.
//!
//! Invariant: no module below this one knows of the maps.

pub(crate) mod deadline_map;
pub(crate) mod delay_map;
mod linear_hash_table;
pub(crate) mod table;

use crate::error::{InsertError, InsertIfAbsentError};

/// The error of an insert that replaces what is under its key.
fn not_occupied<T>(error: InsertIfAbsentError<T>) -> InsertError<T> {
    match error {
        InsertIfAbsentError::Closed(back) => InsertError::Closed(back),
        InsertIfAbsentError::AtCapacity(back) => InsertError::AtCapacity(back),
        InsertIfAbsentError::Occupied(_) => unreachable!("it replaces what is there"),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::deadline_map::DeadlineMap;
    use super::delay_map::DelayMap;
    use crate::error::{InsertError, InsertIfAbsentError};
    use crate::timer::Timer;

    /// Inserts that wait for the lock of a part, while the map is closed under all locks.
    #[test]
    fn an_insert_that_waits_for_a_close_finds_the_map_closed() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let timer = Timer::builder().build_on(runtime.handle()).unwrap();
        let deadlines = DeadlineMap::new(&timer);
        let (values, _expired) = DelayMap::new(&timer);
        let minute = Duration::from_secs(60);
        thread::scope(|scope| {
            let mut inserts = None;
            deadlines.close_after(|| {
                values.close_after(|| {
                    inserts = Some((
                        scope.spawn(|| deadlines.insert(1, minute)),
                        scope.spawn(|| deadlines.insert_if_absent(1, minute)),
                        scope.spawn(|| values.insert(1, 1, minute)),
                    ));
                    // Until each waits for the lock, or on a slow machine has not come so far.
                    thread::sleep(Duration::from_millis(50));
                });
            });
            let (insert, if_absent, value) = inserts.unwrap();
            assert!(matches!(
                insert.join().unwrap(),
                Err(InsertError::Closed(1))
            ));
            let if_absent = if_absent.join().unwrap();
            assert!(matches!(if_absent, Err(InsertIfAbsentError::Closed(1))));
            assert_eq!(value.join().unwrap(), Err(InsertError::Closed((1, 1))));
        });
        assert!(deadlines.is_empty() && values.is_empty());
    }
}
