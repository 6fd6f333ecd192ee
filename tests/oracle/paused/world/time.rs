//! How time passes in a program, and how a program ends.

use tickwheel::Duration;

use super::super::clock::{At, MS, line_from, line_until};
use super::super::program::{Ending, Op, duration};
use super::World;
use crate::paused_clock::{idle_for, move_the_clock_only};
use crate::same;

/// A program whose moment of real time took longer than this says nothing.
const TOO_LONG: Duration = Duration::from_millis(40);

impl World {
    /// Returns the line of the grid from which time ran by itself, if it did.
    pub(super) async fn pass_time(&mut self, op: &Op) -> Result<Option<u64>, String> {
        let before = self.clock.now();
        let ran_from = Some(line_until(before));
        match *op {
            Op::Advance(by) => {
                tokio::time::advance(duration(by)).await;
                same("advance", self.clock.now(), before + by * 1_000)?;
                self.has_turned();
                self.check(None)?;
                self.unseen = 0;
            }
            Op::AdvanceUnseen(by, operations) => {
                move_the_clock_only(duration(by));
                self.unseen = operations;
            }
            Op::RunFor(by) => {
                self.run_for(by * 1_000).await?;
                return Ok(ran_from);
            }
            Op::Idle => {
                self.settle().await;
                self.idle().await?;
                return Ok(ran_from);
            }
            Op::Resume(millis) => {
                self.settle().await;
                tokio::time::resume();
                let started = std::time::Instant::now();
                tokio::time::sleep(Duration::from_millis(millis.into())).await;
                tokio::time::pause();
                self.is_void = started.elapsed() > TOO_LONG;
                self.unseen = 0;
            }
            Op::DropTimer(timer) => {
                let number = usize::from(timer) % self.timers.len();
                self.timers[number].timer = None;
            }
            _ => {}
        }
        Ok(None)
    }

    /// Lets time run by itself. Where it stops says that nothing has pulled it further.
    async fn run_for(&mut self, by: At) -> Result<(), String> {
        let before = self.clock.now();
        tokio::time::sleep(Duration::from_nanos(by)).await;
        self.unseen = 0;
        let lines = line_from(before + by) - line_until(before);
        same(
            "time that ran by itself",
            self.clock.now(),
            before + lines * MS,
        )
    }

    /// Leaves the runtime idle until a plain thread has slept. Time runs through what is armed, and
    /// no further. Where nothing is, it stands.
    async fn idle(&mut self) -> Result<(), String> {
        let now = self.now();
        let sleepers = self.sleepers.iter().filter_map(|one| one.runs_to(now));
        let deadlines = self.deadlines.iter().filter_map(|timed| timed.runs_to(now));
        let armed: Vec<_> = sleepers
            .chain(deadlines)
            .chain(self.delayed.runs_to())
            .collect();
        // Far deadlines and other days would use the clock up.
        if armed.iter().any(|&(_, due)| due > now.at + 86_400_000 * MS) {
            return Ok(());
        }
        let last = armed.iter().map(|&(line, _)| line).max();
        let last = last.unwrap_or(0).max(line_until(now.at));
        idle_for(Duration::from_millis(1)).await;
        self.unseen = 0;
        let after = self.clock.now();
        if line_until(after) > last {
            return Err(format!("time ran by itself for {} ns", after - now.at));
        }
        Ok(())
    }

    /// Everything fires or is dropped, and nothing is left.
    pub(super) async fn end(&mut self, ending: Ending) -> Result<(), String> {
        self.settle().await;
        self.check(None)?;
        match ending {
            Ending::RunsOut => {}
            Ending::AtOnce => return self.end_at_once().await,
            Ending::WithItsRuntime => return Ok(()),
        }
        let ran_from = Some(line_until(self.clock.now()));
        self.run_for(200_000 * MS).await?;
        self.settle().await;
        self.check(ran_from)?;
        self.end_values().await?;
        self.sleepers.clear();
        self.deadlines.clear();
        self.ask()?;
        self.delayed.drop_stream();
        self.settle().await;
        self.check(None)?;
        self.nothing_is_armed()?;
        self.idle().await
    }

    pub(super) fn nothing_is_armed(&self) -> Result<(), String> {
        let timers = self.timers.iter().filter_map(|made| made.timer.as_ref());
        let pending = timers.map(|timer| timer.metrics().pending());
        same("pending of all timers, at the end", pending.sum(), 0)
    }

    /// Everything is cancelled while it is pending and waited for. Then time stands.
    async fn end_at_once(&mut self) -> Result<(), String> {
        let now = self.now();
        while self.delayed.recv(0, now)? {}
        self.settle().await;
        self.sleepers.clear();
        self.deadlines.clear();
        self.ask()?;
        if self.number % 4 == 0 {
            self.delayed.act(&Op::DrainValues, now)?;
        }
        for key in 0..self.delayed.keys_below() {
            self.delayed.act(&Op::Take(key), now)?;
        }
        self.settle().await;
        self.check(None)?;
        self.idle().await
    }

    /// Without handles, the stream gives what is left and ends.
    async fn end_values(&mut self) -> Result<(), String> {
        while self.delayed.drop_handle() {}
        for _ in 0..3 {
            let now = self.now();
            while self.delayed.recv(0, now)? {}
            let Some(last) = self.delayed.last_deadline() else {
                break;
            };
            self.run_for(last.saturating_sub(now.at) + 200 * MS).await?;
            self.settle().await;
            self.check(Some(line_until(now.at)))?;
        }
        Ok(())
    }
}
