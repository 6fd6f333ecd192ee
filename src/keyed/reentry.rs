//! Panics in debug builds where a call to a map comes from under one of the map's own locks.
//!
//! Some user code runs under the lock of a part: what is given to `for_each` or `update`, or the
//! `Eq`, `Borrow` or `Clone` of a key. If it calls the same map, the call waits for ever for a lock
//! of its own thread. A debug build panics in place of that. It may call another map.

/// Goes with the lock of a part, and does nothing in a release build.
pub(crate) struct Reentry {
    table: usize,
}

std::thread_local! {
    /// The addresses of the tables of which this thread has a part locked.
    static TABLES: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
}

impl Reentry {
    #[inline]
    pub(crate) fn new<T>(table: &T) -> Reentry {
        let table = std::ptr::from_ref(table).addr();
        if cfg!(debug_assertions) {
            // It fails where the thread is about to end, which has run all closures by then.
            let _ = TABLES.try_with(|tables| tables.borrow_mut().push(table));
        }
        Reentry { table }
    }

    /// Whether this thread has a part of the table locked, as far as the build can tell.
    #[inline]
    pub(crate) fn is_held<T>(table: &T) -> bool {
        let table = std::ptr::from_ref(table).addr();
        let is_held = || TABLES.try_with(|tables| tables.borrow().contains(&table));
        cfg!(debug_assertions) && is_held().unwrap_or(false)
    }

    /// # Panics
    ///
    /// If this thread has a part of the table locked.
    #[inline]
    pub(crate) fn check<T>(table: &T) {
        assert!(
            !Reentry::is_held(table),
            "a map was called from a closure that was given to it, or from the `Eq`, `Borrow` or \
             `Clone` of its key: these run under a lock of the map, and the call would wait for ever"
        );
    }
}

impl Drop for Reentry {
    #[inline]
    fn drop(&mut self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let _ = TABLES.try_with(|tables| {
            let mut tables = tables.borrow_mut();
            if let Some(place) = tables.iter().rposition(|&table| table == self.table) {
                tables.swap_remove(place);
            }
        });
    }
}
