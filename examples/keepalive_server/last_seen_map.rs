//! The deadlines on tokio's own timer, by number: what `DeadlineMap` is to tickwheel.
//!
//! Invariant: a number is there while its [`ListedLastSeen`] lives, unless a drain took it out.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tickwheel::Duration;

use crate::last_seen::LastSeen;
use crate::site::ConnectionId;

#[derive(Clone, Default)]
pub(crate) struct LastSeenMap(Arc<Mutex<HashMap<ConnectionId, LastSeen>>>);

/// A deadline that is in the map; dropping it takes it out.
pub(crate) struct ListedLastSeen {
    pub(crate) deadline: LastSeen,
    id: ConnectionId,
    map: LastSeenMap,
}

impl LastSeenMap {
    pub(crate) fn insert(&self, id: ConnectionId, timeout: Duration) -> ListedLastSeen {
        let deadline = LastSeen::new(timeout);
        self.entries().insert(id, deadline.clone());
        ListedLastSeen {
            deadline,
            id,
            map: self.clone(),
        }
    }

    pub(crate) fn find(&self, id: ConnectionId) -> Option<LastSeen> {
        self.entries().get(&id).cloned()
    }

    /// Takes all out, and says how many deadlines it cancelled.
    pub(crate) fn drain(&self) -> usize {
        let drained = mem::take(&mut *self.entries());
        drained
            .values()
            .filter(|deadline| deadline.cancel())
            .count()
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<ConnectionId, LastSeen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ListedLastSeen {
    fn drop(&mut self) {
        self.map.entries().remove(&self.id);
    }
}
