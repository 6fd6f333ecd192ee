//! A key whose own code panics: by its name in one key, or at the n-th call of any.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::thread;

thread_local! {
    /// How many calls there are until one panics, or zero if none does.
    static CALLS_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Makes the n-th call from now of the code of any [`Brittle`] key on this thread panic.
///
/// Zero makes none panic.
pub(crate) fn break_at_call(number: usize) {
    CALLS_LEFT.set(number);
}

/// A key or a value whose `Hash`, `Eq`, `Clone` or `Drop` panics when it is told to.
///
/// Its hash has three values only, so that a map asks `Eq` too.
#[derive(Debug)]
pub(crate) struct Brittle {
    pub(crate) id: u32,
    /// Which of its code panics: `hash`, `eq`, `clone` or `drop`.
    breaks: &'static str,
}

impl Brittle {
    /// One that is as good as any other, unless [`break_at_call`] says otherwise.
    pub(crate) fn whole(id: u32) -> Brittle {
        Brittle::new(id, "")
    }

    pub(crate) fn new(id: u32, breaks: &'static str) -> Brittle {
        Brittle { id, breaks }
    }

    fn enter(&self, here: &str) {
        let left = CALLS_LEFT.get();
        CALLS_LEFT.set(left.saturating_sub(1));
        break_if(left == 1 || self.breaks == here, here);
    }
}

impl Hash for Brittle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.enter("hash");
        (self.id % 3).hash(state);
    }
}

impl PartialEq for Brittle {
    fn eq(&self, other: &Brittle) -> bool {
        self.enter("eq");
        break_if(other.breaks == "eq", "eq");
        self.id == other.id
    }
}

impl Eq for Brittle {}

impl Clone for Brittle {
    fn clone(&self) -> Brittle {
        self.enter("clone");
        Brittle { ..*self }
    }
}

impl Drop for Brittle {
    fn drop(&mut self) {
        self.enter("drop");
    }
}

/// A panic during another one would abort the process, so there is none then.
fn break_if(is_told: bool, here: &str) {
    if is_told && !thread::panicking() {
        panic!("{here} breaks on purpose");
    }
}
