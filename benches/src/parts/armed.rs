//! Arm and disarm while many others are armed: how cost grows.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tickwheel::Timer;

use super::timeouts::polled_once;
use super::{How, Part, name};
use crate::harness::{Operation, Race, Record};
use crate::settings::Settings;

pub const PART: Part = Part {
    name: "armed",
    about: "arm and disarm with 1,000 to 10,000,000 others armed",
    how: How::Together(run),
};

/// How many others are armed, in the rows `armed-…`.
pub const SIZES: &[usize] = &[1_000, 10_000, 100_000, 1_000_000, 5_000_000, 10_000_000];

fn run(settings: &Settings) -> Vec<Record> {
    let most = settings.either(usize::MAX, 100_000);
    SIZES
        .iter()
        .filter(|&&size| size <= most)
        .flat_map(|&size| race(size).run(settings))
        .collect()
}

fn race(size: usize) -> Race {
    let mut race = Race::new(format!("armed-{size}"), 1);
    race.enter(name::TICKWHEEL, move || {
        let timer = Timer::current();
        let others = timer.clone();
        AmongOthers {
            size,
            armed: Vec::new(),
            arm: move |after| others.sleep(after),
            hand: polled_once(false, move |after| timer.sleep(after)),
        }
    });
    race.enter(name::TOKIO, move || AmongOthers {
        size,
        armed: Vec::new(),
        // Boxed, as a sleep of tokio's cannot be moved.
        arm: |after| Box::pin(tokio::time::sleep(after)),
        hand: polled_once(false, tokio::time::sleep),
    });
    race
}

struct AmongOthers<S, A, O> {
    size: usize,
    armed: Vec<S>,
    arm: A,
    hand: O,
}

impl<S, A, O> Operation for AmongOthers<S, A, O>
where
    S: Future + Unpin + Send + 'static,
    A: FnMut(Duration) -> S + Send + 'static,
    O: Operation,
{
    /// Arms the others before the first sample. None of them fires before the part is over.
    fn prepare(&mut self, cx: &mut Context<'_>) {
        self.armed.reserve_exact(self.size - self.armed.len());
        while self.armed.len() < self.size {
            let mut other = (self.arm)(Duration::from_millis(fastrand::u64(300_000..900_000)));
            assert!(Pin::new(&mut other).poll(cx).is_pending());
            self.armed.push(other);
        }
    }

    fn run(&mut self, cx: &mut Context<'_>, times: usize) {
        self.hand.run(cx, times);
    }
}
