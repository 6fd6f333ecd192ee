//! The table that README shows and that `RESULTS.md` begins with: the rows by which one chooses.
//! In README it stands between two marks, each on a line of its own, so that no text is torn.

use comfy_table::{Cell, Table};

use super::tables::{self, Style, right};
use super::{Results, how_called, ratio};
use crate::parts::name;
use crate::rows::{Row, readable};

/// The first of the two marks in README.
pub const BEGIN: &str = "<!-- table: written by `cargo run --release -p tickwheel-bench` -->";
/// The other one.
pub const END: &str = "<!-- end of the table -->";

/// The rows, and which of our contenders and of the peers stand in them. Where tickwheel gains and
/// where it loses stands side by side.
const ROWS: &[(&str, &str, &str)] = &[
    ("bursts-100000", name::DROP_IN, name::TOKIO),
    ("bursts-1000000", name::DROP_IN, name::TOKIO),
    ("pending-2", name::DROP_IN, name::TOKIO),
    ("pending-2", name::TICKWHEEL, name::TOKIO),
    ("resets-1000000", name::TICKWHEEL, name::TOKIO),
    ("resets-1000000", name::TICKWHEEL, name::LAST_SEEN),
    ("reset-many", name::TICKWHEEL, name::TOKIO),
    ("reset-many", name::TICKWHEEL, name::LAST_SEEN),
    ("map-2", name::TICKWHEEL, name::MUTEX_MAP),
    ("expire-p99", name::TICKWHEEL, name::TOKIO),
    ("hyper-rate", name::TICKWHEEL, name::TOKIO),
    ("sparse-2", name::DROP_IN, name::TOKIO),
    ("values-cpu", name::TICKWHEEL, name::DELAY_QUEUE),
    ("memory-sleep", name::TICKWHEEL, name::TOKIO),
];

/// First what a change of `use` gives, then the rows of the summary that this run has.
pub fn table(results: &Results) -> String {
    let head = ["what", "called by", "tickwheel", "peer", "", "tickwheel is"];
    let mut table: Table = tables::table(Style::Markdown, &head);
    let rows = results.rows();
    for (id, ours, peer) in ROWS {
        let Some((row, _)) = rows.iter().find(|(row, _)| row.id == *id) else {
            continue;
        };
        table.add_rows(line(results, row, ours, peer));
    }
    let idioms = tables::idioms(results, Style::Markdown);
    let both = idioms.into_iter().chain([table.to_string()]);
    both.collect::<Vec<_>>().join("\n\n")
}

fn line(results: &Results, row: &Row, ours: &str, peer: &str) -> Option<Vec<Cell>> {
    let median = |who| Some(readable(results.quartiles(&row.id, who)?.median));
    let found = results.times_better(&row.id, ours, peer)?;
    Some(vec![
        Cell::new(format!("{}, {}", row.title, row.unit.name())),
        Cell::new(how_called(ours)),
        right(median(ours)?),
        right(median(peer)?),
        Cell::new(peer),
        right(ratio(found)),
    ])
}

/// The page with that table between its marks.
pub fn updated(page: &str, table: &str) -> Result<String, String> {
    let parts = page
        .split_once(&format!("\n{BEGIN}\n"))
        .and_then(|(before, rest)| Some((before, rest.split_once(&format!("\n{END}\n"))?.1)));
    let (before, after) = parts.ok_or_else(|| format!("there are no lines {BEGIN} and {END}"))?;
    Ok(format!("{before}\n{BEGIN}\n\n{table}\n\n{END}\n{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;

    #[test]
    fn a_line_has_both_medians_and_the_ratio_by_rounds() {
        let record = |who, samples: &[f64]| Record::new("pending-2", who, samples.to_vec());
        let results = Results {
            records: vec![
                record(name::DROP_IN, &[10.0, 20.0, 40.0]),
                record(name::TOKIO, &[30.0, 21.0, 44.0]),
            ],
            ..Results::default()
        };
        let table = table(&results);
        let line: Vec<&str> = table.lines().last().unwrap().split('|').collect();
        let cells: Vec<&str> = line.iter().map(|cell| cell.trim()).collect();
        let expected = ["free function", "20.0", "30.0", "tokio", "1.10×"];
        assert_eq!(cells[2..7], expected, "{table}");
    }

    #[test]
    fn a_table_is_replaced_and_its_marks_stay() {
        let page = format!("before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n");
        let new = updated(&page, "new").unwrap();
        assert_eq!(new, page.replace("old", "new"));
        assert_eq!(updated(&new, "new").unwrap(), new);
        assert!(updated(&page.replace(END, ""), "new").is_err());
    }
}
