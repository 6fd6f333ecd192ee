//! What is shown at one moment: a list of rows.
//!
//! Invariant: a drawing is a copy. The counts of its slots add up to what is pending, but for
//! timers that were overdue when they were armed.

use tickwheel::{Duration, Timer};

use crate::running::TICK;

/// What is shown at one moment.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The tick that it is.
    pub now: u64,
    /// The coarsest level comes first, and after the finest what has become of the timers.
    pub rows: Vec<Row>,
}

/// Timers that are counted together.
#[derive(Clone, Debug)]
pub struct Row {
    pub name: String,
    pub about: String,
    pub timers: u64,
    pub look: Look,
}

/// How a row is drawn beside its text.
#[derive(Clone, Debug)]
pub enum Look {
    /// Its slots, in a circle.
    Level(Level),
    /// A bar of this colour of `frame.svg`.
    Count(&'static str),
}

/// One level of the wheels.
#[derive(Clone, Debug)]
pub struct Level {
    /// The time that one slot covers.
    slot_width: Duration,
    timers: u64,
    /// The number of timers in each slot.
    pub slots: Vec<usize>,
    /// The present slot.
    pub now: usize,
}

/// A level has this many slots, and these many in a rotation.
const SLOTS: usize = 128;
const ROTATION: u64 = 64;

/// The levels of a timer with one shard, the finest first, and the present tick. They are read from
/// the text of its snapshot, which this repository alone may do: it may change with any version.
fn levels(text: &str, tick: Duration) -> Option<(u64, Vec<Level>)> {
    let (heading, lines) = text.split_once('\n')?;
    let (_, now) = heading.split_once("tick ")?;
    let now: u64 = now.split(' ').next()?.parse().ok()?;
    let mut levels: Vec<Level> = Vec::new();
    let (mut slot_width, mut present) = (tick, now);
    for line in lines.lines() {
        if let Some((_, level)) = line.split_once(": ").filter(|_| line.starts_with("level ")) {
            levels.push(Level {
                slot_width,
                timers: level.split(' ').next()?.parse().ok()?,
                slots: vec![0; SLOTS],
                now: (present % SLOTS as u64) as usize,
            });
            slot_width = slot_width.saturating_mul(ROTATION as u32);
            present /= ROTATION;
        } else {
            let level = levels.last_mut()?;
            for (ahead, letter) in line.trim_start().chars().enumerate() {
                // A slot of ten or more shows ten dots.
                let timers = if letter == '.' {
                    Some(0)
                } else {
                    letter.to_digit(10)
                };
                level.slots[(level.now + ahead) % SLOTS] = timers.unwrap_or(10) as usize;
            }
        }
    }
    Some((now, levels))
}

impl Drawing {
    pub fn new(timer: &Timer, pushed_back: u64) -> Drawing {
        let (snapshot, metrics) = (timer.snapshot(), timer.metrics());
        let counts = [
            // Of the same moment as the slots.
            ("pending", snapshot.pending() as u64, "dot"),
            ("armed", metrics.armed, "new"),
            ("pushed back", pushed_back, "back"),
            ("cancelled", metrics.disarmed, "off"),
            ("fired", metrics.fired, "fire"),
        ];
        let counts = counts.map(|(name, timers, colour)| Row {
            name: name.to_owned(),
            about: String::new(),
            timers,
            look: Look::Count(colour),
        });
        let text = snapshot.to_string();
        let (now, levels) = levels(&text, TICK).expect("the text is of this version");
        let levels = levels.into_iter().enumerate().rev();
        let levels = levels.map(|(number, level)| {
            let slots = u32::try_from(level.slots.len()).unwrap_or(u32::MAX);
            let around = short(level.slot_width.saturating_mul(slots));
            Row {
                name: format!("level {number}"),
                about: format!("{} a slot, {around} around", short(level.slot_width)),
                timers: level.timers,
                look: Look::Level(level),
            }
        });
        Drawing {
            now,
            rows: levels.chain(counts).collect(),
        }
    }

    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Counts what has become of timers from that moment on.
    pub fn count_from(&mut self, before: &Drawing) {
        for row in &mut self.rows {
            if let Look::Count(_) = row.look
                && row.name != "pending"
            {
                row.timers -= before.row(&row.name).map_or(0, |row| row.timers);
            }
        }
    }

    /// The finest level comes first.
    pub fn levels(&self) -> impl Iterator<Item = &Level> {
        self.rows.iter().rev().filter_map(|row| match &row.look {
            Look::Level(level) => Some(level),
            Look::Count(_) => None,
        })
    }
}

/// A number with a comma at each thousand.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A duration in its largest unit, with about three digits.
pub fn short(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = match seconds {
        0.0 => return "0ms".to_owned(),
        s if s < 0.001 => (s * 1e6, "us"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s if s < 120.0 => (s, "s"),
        s if s < 7_200.0 => (s / 60.0, "min"),
        s if s < 172_800.0 => (s / 3_600.0, "h"),
        s if s < 2.0 * 31_557_600.0 => (s / 86_400.0, "d"),
        s => (s / 31_557_600.0, "y"),
    };
    if value >= 1e6 {
        return format!("{value:.0e}{unit}");
    }
    let decimals = usize::from(value < 9.95);
    let value = format!("{value:.decimals$}");
    format!("{}{unit}", value.strip_suffix(".0").unwrap_or(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_snapshot_is_read_as_it_was_counted() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let timer = Timer::builder().tick(TICK).shards(1);
        let timer = timer.build_on(runtime.handle()).unwrap();
        runtime.block_on(tokio::time::advance(70 * TICK));
        let after = |ticks: u32| timer.deadline(ticks * TICK);
        let _armed: Vec<_> = [3, 3, 50, 640, 640].map(after).into();
        let _many: Vec<_> = (0..20).map(|_| after(5)).collect();
        let (now, levels) = levels(&timer.snapshot().to_string(), TICK).unwrap();
        assert_eq!((now, levels.len()), (70, 2));
        let places = levels
            .iter()
            .map(|level| (level.timers, level.now, level.slot_width));
        let places: Vec<_> = places.collect();
        assert_eq!(places, [(23, 70, TICK), (2, 1, 64 * TICK)]);
        let (fine, coarse) = (&levels[0].slots, &levels[1].slots);
        assert_eq!((fine[73], fine[75], fine[70 + 50]), (2, 10, 1));
        assert_eq!((coarse[11], coarse.iter().sum()), (2, 2));
    }

    #[test]
    fn durations_are_short_and_numbers_grouped() {
        let shown = [0, 20, 1_280, 82_000, 3 * 24 * 3_600_000];
        let shown = shown.map(|millis| short(Duration::from_millis(millis)));
        assert_eq!(shown, ["0ms", "20ms", "1.3s", "82s", "3d"]);
        assert_eq!(short(Duration::MAX), "6e11y");
        assert_eq!([7, 1_234_567].map(grouped), ["7", "1,234,567"]);
    }
}
