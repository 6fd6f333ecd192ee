//! [`Snapshot`]: what every slot of every level held, in numbers. Its drawing is in [`drawing`].
//!
//! Invariant: a snapshot is a copy. A look at it touches no timer.

mod drawing;
#[cfg(test)]
mod tests;
mod units;

use std::time::Duration;

use crate::wheel::SlotCounts;

/// What every level of a timer's wheels held: [`Timer::snapshot`](crate::Timer::snapshot).
///
/// Its [`Display`](std::fmt::Display) draws it for people, in lines of at most 80 columns:
///
/// - A level has a line, and below it a row of its slots. The row tells when the timers come: now
///   is at `▸`, and time goes on to the right. To the left of `▸` lies what has passed.
/// - A bar tells how many timers a slot holds. What a full bar stands for follows the row. A bar is
///   rounded up to an eighth, so that one timer among many is seen.
/// - `from now` tells when the time of the first slot with timers begins, and when that of the last
///   one ends. A deadline that was reset stays in its slot until then, and moves on.
/// - A long run of empty slots is told as its number. So are levels and shards without timers.
/// - A level above the lowest one with timers has no row if it holds fewer than eight timers, or
///   all of them in one slot.
/// - If more than four shards hold timers, all are drawn as one, below a row with a bar for each
///   shard, or for each few of them.
///
/// The drawing may change with any version.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tickwheel::error::BuildError> {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::builder().shards(1).slots(16).build()?;
/// let deadlines: Vec<_> = (1..=20).map(|n| timer.deadline(Duration::from_millis(3 * n))).collect();
/// let drawing = timer.snapshot().to_string();
/// assert_eq!(drawing, "\
/// 20 timers in 1 shard
/// ▸ now, tick 0 of 1 ms
/// · an empty slot   ·37· so many of them   ▁ to █ timers in a slot, █= its scale
///
/// shard 0            one slot    all slots      timers  from now
///   level 0              1 ms        16 ms           5  3 ms to 16 ms
///       ▸···▁··▁··▁··▁··▁ █=8
///   level 1             16 ms       256 ms          15  16 ms to 64 ms
///       ▸·▅▅▅·12· █=8
/// ");
/// # drop(deadlines);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(::serde::Serialize, ::serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct Snapshot {
    /// The tick at which the counting began.
    pub now: u64,
    /// The length of a tick.
    pub tick: Duration,
    /// The shards.
    pub shards: Vec<ShardSnapshot>,
}

/// What one shard held.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::builder().shards(2).build()?;
/// let idle = timer.deadline(Duration::from_secs(30));
/// for (number, shard) in timer.snapshot().shards.iter().enumerate() {
///     println!("shard {number}: {} timers in {} levels", shard.pending(), shard.levels.len());
/// }
/// # drop(idle);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(::serde::Serialize, ::serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// The levels that existed, the finest first.
    pub levels: Vec<LevelSnapshot>,
    /// How many timers had a due that had passed when they were armed. They fire at the next turn.
    pub overdue: usize,
}

/// What one level held.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tickwheel::{Duration, Timer};
///
/// let timer = Timer::builder().shards(1).build()?;
/// let idle = timer.deadline(Duration::from_millis(20));
/// let finest = &timer.snapshot().shards[0].levels[0];
/// assert_eq!((finest.slot_width, finest.now), (Duration::from_millis(1), Some(0)));
/// assert_eq!(finest.slots.iter().position(|&timers| timers > 0), Some(20));
/// # drop(idle);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(::serde::Serialize, ::serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct LevelSnapshot {
    /// How much time one slot covers.
    pub slot_width: Duration,
    /// The number of timers in each slot.
    pub slots: Vec<usize>,
    /// The slot in which the tick of the snapshot lies. The time of the slots before it has passed.
    /// `None` if that of all slots has, and the driver has not yet come to the timers in them.
    pub now: Option<usize>,
}

impl Snapshot {
    pub(crate) fn new(
        now: u64,
        tick: Duration,
        shards: impl Iterator<Item = SlotCounts>,
    ) -> Snapshot {
        let shards = shards
            .map(|counts| ShardSnapshot::new(now, tick, counts))
            .collect();
        Snapshot { now, tick, shards }
    }

    /// How many timers were counted in all shards.
    pub fn pending(&self) -> usize {
        sum(self.shards.iter().map(ShardSnapshot::pending))
    }
}

impl ShardSnapshot {
    fn new(now: u64, tick: Duration, counts: SlotCounts) -> ShardSnapshot {
        let SlotCounts {
            levels,
            overdue,
            elapsed,
        } = counts;
        // A turn may have come since the counting began.
        let now = now.max(elapsed);
        let mut slot_width = tick;
        let mut shift = 0;
        let levels = levels
            .into_iter()
            .map(|slots| {
                let bits = slots.len().max(1).ilog2();
                let is_empty = slots.iter().all(|&timers| timers == 0);
                // The digits of this level and of those above it.
                let [now, elapsed] =
                    [now, elapsed].map(|tick| tick.checked_shr(shift).unwrap_or(0));
                let is_this_rotation = now >> bits == elapsed >> bits;
                let level = LevelSnapshot {
                    slot_width,
                    now: (is_empty || is_this_rotation)
                        .then_some((now & ((1 << bits) - 1)) as usize),
                    slots,
                };
                shift += bits;
                slot_width = slot_width.saturating_mul(1 << bits);
                level
            })
            .collect();
        ShardSnapshot { levels, overdue }
    }

    /// How many timers were counted in this shard.
    pub fn pending(&self) -> usize {
        sum(self.levels.iter().map(LevelSnapshot::pending)).saturating_add(self.overdue)
    }
}

impl LevelSnapshot {
    /// How many timers were counted in this level.
    pub fn pending(&self) -> usize {
        sum(self.slots.iter().copied())
    }
}

/// Saturates, because the fields are public.
fn sum(counts: impl Iterator<Item = usize>) -> usize {
    counts.fold(0, usize::saturating_add)
}
