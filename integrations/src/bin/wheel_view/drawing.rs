//! What is shown at one moment: a list of rows.
//!
//! Invariant: a drawing is a copy. The counts of its slots add up to what is pending, but for
//! timers that were overdue when they were armed.

use tickwheel::{Duration, Timer, metrics::LevelSnapshot};

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
    Level(LevelSnapshot),
    /// A bar of this colour in `frame.svg`.
    Count(&'static str),
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
        let shard = snapshot.shards.into_iter().next().unwrap_or_default();
        let levels = shard.levels.into_iter().enumerate().rev();
        let levels = levels.map(|(number, level)| {
            let slots = u32::try_from(level.slots.len()).unwrap_or(u32::MAX);
            let around = short(level.slot_width.saturating_mul(slots));
            Row {
                name: format!("level {number}"),
                about: format!("{} a slot, {around} around", short(level.slot_width)),
                timers: level.pending() as u64,
                look: Look::Level(level),
            }
        });
        Drawing {
            now: snapshot.now,
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
    pub fn levels(&self) -> impl Iterator<Item = &LevelSnapshot> {
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
    fn durations_are_short_and_numbers_grouped() {
        let shown = [0, 20, 1_280, 82_000, 3 * 24 * 3_600_000];
        let shown = shown.map(|millis| short(Duration::from_millis(millis)));
        assert_eq!(shown, ["0ms", "20ms", "1.3s", "82s", "3d"]);
        assert_eq!(short(Duration::MAX), "6e11y");
        assert_eq!([7, 1_234_567].map(grouped), ["7", "1,234,567"]);
    }
}
