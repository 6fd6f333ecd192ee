//! The deadlines on tokio's own timer, by number: what `DeadlineMap` is to tickwheel.
//!
//! Invariant: a number is there while its [`ListedLastSeen`] lives, unless a drain took it out.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tickwheel::Duration;

use crate::last_seen::LastSeen;
use crate::site::{ConnectionId, Listed};

#[derive(Clone, Default)]
pub(crate) struct LastSeenMap(Arc<Mutex<HashMap<Listed, LastSeen>>>);

/// A deadline that is in the map; dropping it takes it out.
pub(crate) struct ListedLastSeen {
    pub(crate) deadline: LastSeen,
    id: ConnectionId,
    map: LastSeenMap,
}

impl LastSeenMap {
    pub(crate) fn insert(&self, key: Listed, timeout: Duration) -> ListedLastSeen {
        let deadline = LastSeen::new(timeout);
        self.entries().insert(key, deadline.clone());
        ListedLastSeen {
            deadline,
            id: key.id,
            map: self.clone(),
        }
    }

    pub(crate) fn find(&self, id: ConnectionId) -> Option<LastSeen> {
        self.entries().get(&id).cloned()
    }

    pub(crate) fn keys(&self) -> Vec<Listed> {
        self.entries().keys().copied().collect()
    }

    /// Takes all out, and says how many deadlines it cancelled.
    pub(crate) fn drain(&self) -> usize {
        let drained = mem::take(&mut *self.entries());
        drained
            .values()
            .filter(|deadline| deadline.cancel())
            .count()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Listed, LastSeen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ListedLastSeen {
    fn drop(&mut self) {
        self.map.entries().remove(&self.id);
    }
}
