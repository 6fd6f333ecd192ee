//! What each row is, in words, and in which unit. The rows themselves are in `rows.txt`.

use thousands::Separable;

use crate::idioms::{ALONE, IDIOMS, Idiom, PAST};

/// A line of the table for each contender.
#[derive(Clone, Debug)]
pub struct Row {
    pub id: String,
    pub title: String,
    pub unit: &'static str,
    /// The title of the table that it stands in.
    pub section: &'static str,
    /// What a row is for that has no peer, or what a reader must know of it.
    pub purpose: String,
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
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}").separate_with_commas(),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Under the title of each section its rows: `id | unit | title`, and `| purpose` where there is no
/// peer.
const ROWS: &str = include_str!("rows.txt");

/// All rows, in the order of the tables.
pub fn rows() -> Vec<Row> {
    let mut rows = loops(IDIOMS, "");
    rows.extend(loops(PAST, ""));
    rows.extend(loops(ALONE, LONE_TIMER));
    let mut section = "";
    for line in ROWS.lines().filter(|line| !line.is_empty()) {
        if let Some(title) = line.strip_prefix("# ") {
            section = title;
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
            section,
            purpose: purpose.concat(),
        });
    }
    rows
}

/// Why the rows of [`ALONE`] are as they are.
const LONE_TIMER: &str = "tokio wakes its driver for a timer that is due before all others";

/// A row for each loop on each of its kinds of runtime.
fn loops(list: &'static [Idiom], purpose: &str) -> Vec<Row> {
    let row = |idiom: &Idiom, workers: usize| Row {
        id: idiom.row(workers),
        title: format!("{}, {}", idiom.title, kind_of_runtime(workers)),
        unit: "ns of CPU",
        section: "Idioms",
        purpose: purpose.to_owned(),
    };
    let of = |idiom: &'static Idiom| idiom.workers.iter().map(move |at| (idiom, *at));
    let rows = list.iter().flat_map(of);
    rows.map(|(idiom, workers)| row(idiom, workers)).collect()
}

/// A runtime with so many workers.
pub fn kind_of_runtime(workers: usize) -> String {
    match workers {
        0 => "current thread".to_owned(),
        1 => "1 worker".to_owned(),
        many => format!("{many} workers"),
    }
}
