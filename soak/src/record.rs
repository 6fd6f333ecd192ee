//! The record of the calls, kept by each actor for itself and gathered when it goes.

use std::sync::{Arc, Mutex};

use crate::checker::{Act, Call, Event};

/// What a call was made on: a map, and a key in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    pub map: u32,
    pub key: u32,
}

/// In place of a key: the call was on all keys of the map.
pub const ALL_KEYS: u32 = u32::MAX;

pub type Gathered = Arc<Mutex<Vec<(Subject, Event)>>>;

/// The record of one actor. It is gathered with all others when it is dropped, however the actor
/// ends.
pub struct Record {
    events: Vec<(Subject, Event)>,
    gathered: Gathered,
}

impl Record {
    pub fn new(gathered: &Gathered) -> Record {
        Record {
            events: Vec::new(),
            gathered: gathered.clone(),
        }
    }

    /// Keeps a call on any interval that may be under the key.
    pub fn keep(&mut self, subject: Subject, act: Act, answer: (bool, Call)) {
        self.keep_of(subject, 0, act, answer);
    }

    /// Keeps a call on an interval that is known.
    pub fn keep_of(&mut self, subject: Subject, interval: u64, act: Act, answer: (bool, Call)) {
        let (answer, call) = answer;
        let event = Event {
            call,
            act,
            interval,
            answer,
            is_vague: subject.key == ALL_KEYS,
        };
        self.events.push((subject, event));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.gathered.lock().unwrap().append(&mut self.events);
    }
}
