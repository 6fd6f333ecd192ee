//! The drawing of a [`Snapshot`].
//!
//! ```text
//!   level 1             64 ms        4.1 s       3,597  9 ms to 1.1 s
//!   ·46·▸·█▇█▇▇█▇█▇▇█▇█▇▇█▇ █=231
//! ```
//!
//! Invariant: whatever the wheels hold, no line is wider than 80 columns. A row has at most 64
//! slots, and each other column has a width that its content cannot exceed. The mark of now stands
//! in the same column of each row, unless the driver is late and the past holds timers.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::units::{count, counted, duration, exact_duration};
use super::{LevelSnapshot, ShardSnapshot, Snapshot, sum};

/// If more shards than this hold timers, all are drawn as one.
const DRAWN_APART: usize = 4;

/// A level above the lowest has a row if it holds at least this many timers.
const WORTH_A_ROW: usize = 8;

/// The widest row has this many slots.
const MOST_SLOTS: usize = 64;

/// So many columns stand before the mark of now. The last four are for the past, as long as it is
/// empty.
const BEFORE_NOW: usize = 6;

/// A run of at least this many empty slots is folded.
const FOLDED: usize = 9;
const FOLDED_PAST: usize = 5;

const EMPTY: char = '·';
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (timers, shards) = (self.pending(), self.shards.len());
        let tick = exact_duration(self.tick.as_nanos());
        writeln!(
            f,
            "{} in {}",
            counted(timers, "timer"),
            counted(shards, "shard")
        )?;
        writeln!(f, "▸ now, tick {} of {tick}", count(self.now, 26))?;
        if timers == 0 {
            return Ok(());
        }
        writeln!(f, "{LEGEND}")?;
        let is_busy = |shard: &&ShardSnapshot| shard.pending() > 0;
        if self.shards.iter().filter(is_busy).count() > DRAWN_APART {
            self.draw_together(f)
        } else {
            self.draw_apart(f)
        }
    }
}

impl Snapshot {
    fn draw_apart(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending: Vec<_> = self.shards.iter().map(ShardSnapshot::pending).collect();
        for Range { start, end } in runs_of_zeros(&pending) {
            writeln!(f)?;
            if pending[start] > 0 {
                self.draw_shard(f, &format!("shard {start}"), &self.shards[start])?;
            } else if end - start == 1 {
                writeln!(f, "shard {start}: no timers")?;
            } else {
                writeln!(f, "shards {start} to {}: no timers", end - 1)?;
            }
        }
        Ok(())
    }

    fn draw_together(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending: Vec<_> = self.shards.iter().map(ShardSnapshot::pending).collect();
        let to_a_bar = pending.len().div_ceil(MOST_SLOTS);
        let cells: Vec<_> = pending
            .chunks(to_a_bar)
            .map(|shards| sum(shards.iter().copied()))
            .collect();
        writeln!(f)?;
        if to_a_bar == 1 {
            writeln!(f, "a bar for each shard")?;
        } else {
            writeln!(f, "a bar for each {} shards", count(to_a_bar as u64, 7))?;
        }
        let full = full_bar(&cells);
        let row = bars(&cells, full, FOLDED);
        writeln!(f, "{:BEFORE_NOW$} {row}{}", "", scale(full))?;
        writeln!(f)?;
        self.draw_shard(f, "all shards", &self.all_shards())
    }

    fn draw_shard(
        &self,
        f: &mut fmt::Formatter<'_>,
        title: &str,
        shard: &ShardSnapshot,
    ) -> fmt::Result {
        line(f, [title, "one slot", "all slots", "timers", "from now"])?;
        if shard.overdue > 0 {
            line(
                f,
                ["  overdue", "", "", &in_table(shard.overdue), NEXT_TURN],
            )?;
        }
        let pending: Vec<_> = shard.levels.iter().map(LevelSnapshot::pending).collect();
        let lowest = pending.iter().position(|&timers| timers > 0);
        for run in runs_of_zeros(&pending) {
            let (first, last) = (run.start, run.end - 1);
            let label = match run.len() {
                1 => format!("  level {first}"),
                _ => format!("  levels {first}-{last}"),
            };
            let level = &shard.levels[first];
            let slot = exact_duration(level.slot_width.as_nanos());
            let span = exact_duration(shard.levels[last].span().as_nanos());
            let timers = in_table(pending[first]);
            line(f, [&label, &slot, &span, &timers, &self.when(level)])?;
            if lowest == Some(first) || level.is_worth_a_row() {
                level.draw_row(f)?;
            }
        }
        Ok(())
    }

    /// When the time of the slots with timers begins and ends.
    fn when(&self, level: &LevelSnapshot) -> String {
        let is_taken = |&timers: &usize| timers > 0;
        let first = level.slots.iter().position(is_taken);
        let last = level.slots.iter().rposition(is_taken);
        let (Some(first), Some(last)) = (first, last) else {
            return String::new();
        };
        let Some(now) = level.now.filter(|&now| last >= now) else {
            return NEXT_TURN.to_owned();
        };
        let width = level.slot_width.as_nanos();
        // How much of the slot in which now lies has passed.
        let passed = (self.tick.as_nanos().saturating_mul(self.now.into())) % width.max(1);
        let until = |slot: usize| {
            let slots = slot.saturating_sub(now) as u128;
            width.saturating_mul(slots).saturating_sub(passed)
        };
        let begin = match first {
            _ if first < now => "late".to_owned(),
            _ if first == now => "now".to_owned(),
            _ => duration(until(first)),
        };
        format!("{begin} to {}", duration(until(last + 1)))
    }

    /// The shards as one. What is late counts as overdue, because it lies in slots of an earlier
    /// rotation.
    fn all_shards(&self) -> ShardSnapshot {
        let mut all = ShardSnapshot {
            levels: Vec::new(),
            overdue: 0,
        };
        for shard in &self.shards {
            all.overdue = all.overdue.saturating_add(shard.overdue);
            for (number, level) in shard.levels.iter().enumerate() {
                if all.levels.len() == number {
                    all.levels.push(LevelSnapshot {
                        slot_width: level.slot_width,
                        slots: vec![0; level.slots.len()],
                        now: None,
                    });
                }
                if level.now.is_none() {
                    all.overdue = all.overdue.saturating_add(level.pending());
                    continue;
                }
                let sums = &mut all.levels[number];
                sums.now = level.now;
                for (sum, &timers) in sums.slots.iter_mut().zip(&level.slots) {
                    *sum = sum.saturating_add(timers);
                }
            }
        }
        all
    }
}

impl LevelSnapshot {
    /// How much time all slots cover.
    fn span(&self) -> Duration {
        let slots = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slot_width.saturating_mul(slots)
    }

    /// Whether a row tells more than the line of the level.
    fn is_worth_a_row(&self) -> bool {
        let taken = self.slots.iter().filter(|&&timers| timers > 0).count();
        taken > 1 && self.pending() >= WORTH_A_ROW
    }

    fn draw_row(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is late is not on this scale of time.
        let Some(now) = self.now else { return Ok(()) };
        let full = full_bar(&self.slots);
        let (past, rest) = self.slots.split_at(now.min(self.slots.len()));
        let past = bars(past, full, FOLDED_PAST);
        let rest = bars(rest, full, FOLDED);
        writeln!(f, "{past:>BEFORE_NOW$}▸{rest}{}", scale(full))
    }
}

const LEGEND: &str =
    "· an empty slot   ·37· so many of them   ▁ to █ timers in a slot, █= its scale";

const NEXT_TURN: &str = "next turn";

/// A line of the table. The widest contents are `  levels 10-63`, twice `9,999 years`, ten columns
/// of a count, and `9,999 years to 9,999 years`.
fn line(f: &mut fmt::Formatter<'_>, columns: [&str; 5]) -> fmt::Result {
    let [label, slot, span, timers, from_now] = columns;
    let line = format!("{label:<14}{slot:>13}{span:>13}{timers:>12}  {from_now}");
    writeln!(f, "{}", line.trim_end())
}

fn in_table(timers: usize) -> String {
    count(timers as u64, 10)
}

/// What a full bar stands for. Up to eight timers, an eighth of a bar is one timer.
fn full_bar(cells: &[usize]) -> usize {
    cells.iter().copied().max().unwrap_or(0).max(BARS.len())
}

fn scale(full: usize) -> String {
    format!(" █={}", count(full as u64, 6))
}

/// A bar for each cell. A run of at least `folded` zeros is told as a number.
fn bars(cells: &[usize], full: usize, folded: usize) -> String {
    let mut bars = String::new();
    for run in runs_of_zeros(cells) {
        match (cells[run.start], run.len()) {
            (0, zeros) if zeros >= folded => bars.push_str(&format!("{EMPTY}{zeros}{EMPTY}")),
            (0, zeros) => bars.extend(std::iter::repeat_n(EMPTY, zeros)),
            (timers, _) => {
                let eighths = (timers as u128 * BARS.len() as u128).div_ceil(full as u128);
                bars.push(BARS[(eighths as usize).clamp(1, BARS.len()) - 1]);
            }
        }
    }
    bars
}

/// Each run of zeros, and each other cell alone.
fn runs_of_zeros(cells: &[usize]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut start = 0;
    cells
        .chunk_by(|&cell, &next| cell == 0 && next == 0)
        .map(move |run| {
            let range = start..start + run.len();
            start = range.end;
            range
        })
}
