//! What each row is, in words, and in which unit. The rows themselves are in `rows.txt`.

/// A line of the table for each contender.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
    pub title: String,
    pub unit: Unit,
    pub section: Section,
}

/// Which table a row stands in. [`Section::ALL`] has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Programs,
    LargeFutures,
    Operations,
    Memory,
}

impl Section {
    pub const ALL: [Section; 4] = [
        Section::Programs,
        Section::LargeFutures,
        Section::Operations,
        Section::Memory,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Section::Programs => "Whole programs",
            Section::LargeFutures => "Large futures",
            Section::Operations => "Operations",
            Section::Memory => "Memory",
        }
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    CpuNanoseconds,
    CpuMillisecondsASecond,
    MillisecondsLate,
    Milliseconds,
    Early,
    Bytes,
    WakeUps,
    PercentOfACore,
    RequestsASecond,
}

impl Unit {
    const ALL: [Unit; 10] = [
        Unit::Nanoseconds,
        Unit::CpuNanoseconds,
        Unit::CpuMillisecondsASecond,
        Unit::MillisecondsLate,
        Unit::Milliseconds,
        Unit::Early,
        Unit::Bytes,
        Unit::WakeUps,
        Unit::PercentOfACore,
        Unit::RequestsASecond,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::CpuNanoseconds => "ns of CPU",
            Unit::CpuMillisecondsASecond => "ms of CPU/s",
            Unit::MillisecondsLate => "ms late",
            Unit::Milliseconds => "ms",
            Unit::Early => "early",
            Unit::Bytes => "bytes",
            Unit::WakeUps => "wake-ups/s",
            Unit::PercentOfACore => "% of a core",
            Unit::RequestsASecond => "requests/s",
        }
    }

    pub fn more_is_better(self) -> bool {
        self == Unit::RequestsASecond
    }

    /// Of two contenders, how many times better the first is: 2 if it takes half as long.
    pub fn times_better(self, one: f64, other: f64) -> f64 {
        if self.more_is_better() {
            one / other
        } else {
            other / one
        }
    }
}

/// A number as the tables show it: three digits, and thousands set apart.
pub fn readable(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let plain = format!("{value:.digits$}");
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// Under the title of each section its rows: `id | unit | title`.
const ROWS: &str = include_str!("rows.txt");

/// All rows, in the order of the tables.
pub fn rows() -> Vec<Row> {
    let mut section = Section::Programs;
    let mut rows = Vec::new();
    for line in ROWS.lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("# ") {
            let known = Section::ALL
                .into_iter()
                .find(|known| known.title() == title);
            section = known.unwrap_or_else(|| panic!("there is no section «{title}»"));
            continue;
        }
        let fields: Vec<&str> = line.splitn(3, " | ").collect();
        let [id, unit, title] = fields[..] else {
            panic!("«{line}» has not three fields");
        };
        let known = Unit::ALL.into_iter().find(|known| known.name() == unit);
        rows.push(Row {
            id: id.to_owned(),
            title: title.to_owned(),
            unit: known.unwrap_or_else(|| panic!("there is no unit «{unit}»")),
            section,
        });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{readable, rows};
    use crate::parts::{ARMED_SIZES, FUTURE_SIZES, LOADS, RATES, RESET_RATES, lateness};

    #[test]
    fn what_a_part_measures_at_several_sizes_has_a_row_for_each() {
        let loads = LOADS.iter();
        let bursts = loads.flat_map(|(load, _)| RATES.iter().map(move |at| format!("{load}-{at}")));
        let resets = RESET_RATES.iter().map(|at| format!("resets-{at}"));
        let large = FUTURE_SIZES.iter().map(|size| format!("large-{size}"));
        let armed = ["armed", "replace"].into_iter().flat_map(|id| {
            let row = move |size: &usize| format!("{id}-{size}");
            ARMED_SIZES.iter().map(row)
        });
        let early = [lateness::EARLY.to_owned()];
        let known: Vec<String> = rows().into_iter().map(|row| row.id).collect();
        for id in bursts.chain(resets).chain(large).chain(armed).chain(early) {
            assert!(known.contains(&id), "{id}");
        }
    }

    #[test]
    fn numbers_are_readable() {
        let shown = [0.0, 0.523, 7.24, 38.44, 382.4, 1234.0, 1_234_567.8, -2.5].map(readable);
        assert_eq!(
            shown,
            [
                "0",
                "0.52",
                "7.24",
                "38.4",
                "382",
                "1,234",
                "1,234,568",
                "-2.50"
            ]
        );
    }
}
