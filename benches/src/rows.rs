//! What each row is, in words, and in which unit. The rows themselves are in `rows.txt`.

use crate::idioms::{IDIOMS, Idiom};

/// A line of the table for each contender.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
    pub title: String,
    pub unit: &'static str,
    pub section: Section,
    /// What a row is for that has no peer.
    pub purpose: String,
}

/// Which table a row stands in. [`Section::ALL`] has their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Idioms,
    Programs,
    Operations,
    Memory,
    Costs,
}

impl Section {
    /// In their order, and with their titles.
    pub const ALL: [(Section, &str); 5] = [
        (Section::Idioms, "Idioms"),
        (Section::Programs, "Whole programs"),
        (Section::Operations, "Operations"),
        (Section::Memory, "Memory"),
        (Section::Costs, "What is counted"),
    ];
}

/// Of two contenders, how many times better the first is: 2 if it takes half as long. More is
/// better of requests alone.
pub fn times_better(unit: &str, one: f64, other: f64) -> f64 {
    match unit {
        "requests/s" => one / other,
        _ => other / one,
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

/// Under the title of each section its rows: `id | unit | title`, and `| purpose` where there is no
/// peer.
const ROWS: &str = include_str!("rows.txt");

/// All rows, in the order of the tables.
pub fn rows() -> Vec<Row> {
    let mut rows = idioms();
    let mut section = None;
    for line in ROWS.lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("# ") {
            section = Section::ALL.into_iter().find(|known| known.1 == title);
            continue;
        }
        let fields: Vec<&str> = line.split(" | ").collect();
        let [id, unit, title, ref purpose @ ..] = fields[..] else {
            panic!("«{line}» has not three fields");
        };
        rows.push(Row {
            id: id.to_owned(),
            title: title.to_owned(),
            unit,
            section: section.expect("the section is one of those listed").0,
            purpose: purpose.concat(),
        });
    }
    rows
}

/// A row for each idiom on each kind of runtime.
fn idioms() -> Vec<Row> {
    let row = |idiom: &Idiom, workers: usize| Row {
        id: idiom.row(workers),
        title: format!("{}, {}", idiom.title, kind_of_runtime(workers)),
        unit: "ns",
        section: Section::Idioms,
        purpose: String::new(),
    };
    let rows = |idiom: &'static Idiom| idiom.workers.iter().map(move |at| row(idiom, *at));
    IDIOMS.iter().flat_map(rows).collect()
}

/// A runtime with so many workers.
pub fn kind_of_runtime(workers: usize) -> String {
    match workers {
        0 => "current thread".to_owned(),
        1 => "1 worker".to_owned(),
        many => format!("{many} workers"),
    }
}

#[cfg(test)]
mod tests {
    use super::{readable, rows};
    use crate::parts::{
        ARMED_SIZES, FUTURE_SIZES, LOADS, RATES, RESET_RATES, WHEEL_SIZES, lateness,
    };

    #[test]
    fn each_size_that_a_part_measures_has_a_row() {
        let loads = LOADS.iter();
        let bursts = loads.flat_map(|(load, _)| RATES.iter().map(move |at| format!("{load}-{at}")));
        let resets = RESET_RATES.iter().map(|at| format!("resets-{at}"));
        let large = FUTURE_SIZES.iter().map(|size| format!("large-{size}"));
        let armed = ["armed", "replace"].into_iter().flat_map(|id| {
            let row = move |size: &usize| format!("{id}-{size}");
            ARMED_SIZES.iter().map(row)
        });
        let wheel = ["insert", "replace"].into_iter().flat_map(|id| {
            let row = move |size: &usize| format!("wheel-{id}-{size}");
            WHEEL_SIZES.iter().map(row)
        });
        let early = [lateness::EARLY.to_owned()];
        let known: Vec<String> = rows().into_iter().map(|row| row.id).collect();
        let armed = armed.chain(wheel);
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
