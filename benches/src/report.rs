//! The tables of a run: for the terminal, `RESULTS.md`, and README's one, between two marks.

use std::fmt::Write;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{Cell, CellAlignment, Table};

use crate::harness::Quartiles;
use crate::idioms::{IDIOMS, Idiom};
use crate::limits::{Limit, Mark, judge};
use crate::losses::{self, Loss};
use crate::part::{Part, name};
use crate::parts::PARTS;
use crate::results::{Late, Results, Run, how_called, shown};
use crate::rows::{self, kind_of_runtime, readable};

/// The first of the two marks in README. Each is on a line of its own, so that no text is torn.
pub const BEGIN: &str = "<!-- table: written by `cargo run --release -p tickwheel-bench` -->";
/// The other one.
pub const END: &str = "<!-- end of the table -->";

/// Operations that have a row for each of these numbers of workers, as `meet-timeout-2`, and what
/// each is. They show how its cost grows with the workers.
const CONTENDED: [(&str, &str); 2] = [
    ("meet-timeout", "a timeout that is pending once"),
    ("meet-select", "a message and a fresh sleep in a `select!`"),
];
const CONTENDED_WORKERS: [usize; 3] = [1, 2, 4];
/// In the order of the columns.
const CONTENDED_BY: [&str; 5] = [
    name::TOKIO,
    name::TOKIO_ALTERNATIVE,
    name::DROP_IN,
    name::TICKWHEEL,
    name::ON_ALTERNATIVE,
];

/// What the summary shows besides: the rows by which one chooses, with one of ours and a peer.
/// Where tickwheel gains and where it loses stands side by side.
const SUMMARY: &[(&str, &str, &str)] = &[
    ("per-core-2", name::TICKWHEEL, name::TOKIO),
    ("bursts-1000000", name::DROP_IN, name::TOKIO),
    ("resets-1000000", name::TICKWHEEL, name::TOKIO),
    ("reset-many", name::TICKWHEEL, name::LAST_SEEN),
    ("replace-1000000", name::TICKWHEEL, name::TOKIO),
    ("map-2", name::TICKWHEEL, name::MUTEX_MAP),
    ("values-cpu", name::TICKWHEEL, name::DELAY_QUEUE),
    ("expire-p99", name::TICKWHEEL, name::TOKIO),
    ("hyper-rate", name::TICKWHEEL, name::TOKIO),
    ("memory-sleep", name::TICKWHEEL, name::TOKIO),
];

/// The cells of a line.
pub type Line = Vec<String>;

/// A table of Markdown whose columns are aligned, so that a terminal shows it too. Numbers stand on
/// the right, but for the first column. `|` stands between the titles of the columns.
pub fn table(head: &str, lines: Vec<Line>) -> String {
    let mut table = Table::new();
    let head = head.split('|').map(str::trim);
    table.load_style(ASCII_MARKDOWN).set_header(head);
    for line in lines {
        let cell = |(column, text): (usize, String)| {
            let is_number = text == "equal" || text.starts_with(|c: char| c.is_ascii_digit());
            if column > 0 && is_number {
                Cell::new(text).set_alignment(CellAlignment::Right)
            } else {
                Cell::new(text)
            }
        };
        table.add_row(line.into_iter().enumerate().map(cell));
    }
    format!("{table}\n")
}

/// A ratio as the tables show it. Where the rounds went either way, there is none to show.
fn ratio(found: Quartiles) -> String {
    match found {
        found if !found.median.is_finite() => String::new(),
        found if found.is_equal() => "equal".to_owned(),
        found => format!("{:.2}×", found.median),
    }
}

/// Every contender of every row of a section: median, quartiles, and how many times better
/// tickwheel is.
fn rows_of(results: &Results, section: &str) -> String {
    let mut lines = Vec::new();
    for (row, records) in results.rows() {
        let ours = results.ours(&row.id);
        for record in records.iter().filter(|_| row.section == section) {
            let Some(found) = record.quartiles() else {
                continue;
            };
            let is_first = record.contender == records[0].contender;
            let of_first = |text: &str| if is_first { text } else { "" }.to_owned();
            let quartiles = match record.samples.len() {
                1 => String::new(),
                _ => format!("{} – {}", readable(found.lower), readable(found.upper)),
            };
            let better = results.times_better(&row.id, ours, &record.contender);
            let better = better.filter(|_| record.contender != ours).map(ratio);
            lines.push(vec![
                of_first(&row.title),
                shown(&record.contender),
                readable(found.median),
                quartiles,
                row.unit.to_owned(),
                better.unwrap_or_else(|| of_first(&row.purpose)),
            ]);
        }
    }
    let head = "row | contender | median | quartiles | | tickwheel is";
    table(head, lines)
}

/// How late the timers were under each load.
fn lateness(results: &Results) -> String {
    let line = |late: &Late| {
        let (workers, kind) = (late.workers.to_string(), late.kind.name().to_owned());
        let mut line = vec![late.load.title.to_owned(), workers, kind];
        line.extend(late.ours.map(readable));
        line.push(name::TOKIO.to_owned());
        line.extend(late.peers.map(readable));
        line
    };
    let head = "load | workers | timer | p50 | p99 | max | peer | p50 | p99 | max";
    table(head, results.lateness().iter().map(line).collect())
}

/// In which state the contenders of each part are while they are measured.
fn states() -> String {
    let line = |part: &Part| vec![part.about.to_owned(), part.state.to_owned()];
    table("part | state", PARTS.iter().map(line).collect())
}

/// Where a peer is ahead and by how much, and what could not be measured.
fn losses(results: &Results) -> String {
    let line = |loss: Loss| {
        vec![
            loss.row.title.clone(),
            how_called(&loss.ours).to_owned(),
            loss.peer.clone(),
            loss.how_much(),
        ]
    };
    let lines: Vec<Line> = losses::losses(results).into_iter().map(line).collect();
    let mut text = if lines.is_empty() {
        "Nowhere in this run.\n".to_owned()
    } else {
        table("row | called by | peer | the peer is ahead by", lines)
    };
    if !results.failures.is_empty() {
        text += "\nNot measured:\n\n";
    }
    for (part, reason) in &results.failures {
        let _ = writeln!(text, "- {part}: {reason}");
    }
    text
}

/// How each limit stands in a run, and how many are missed. A limit that is missed says why it is
/// one.
pub fn limits(results: &Results) -> (String, usize) {
    let limits = judge(results);
    let is_missed = |limit: &&Limit| limit.mark == Mark::Missed;
    let missed = limits.iter().filter(is_missed).count();
    let line = |limit: Limit| {
        let because = match limit.mark {
            Mark::Missed => limit.reason,
            _ => String::new(),
        };
        let mark = limit.mark.text().to_owned();
        vec![limit.what, limit.limit, limit.found, mark, because]
    };
    let lines = limits.into_iter().map(line).collect();
    let head = "what | limit | this run | | it is a limit because";
    (table(head, lines), missed)
}

/// What an operation costs on some numbers of workers, with each contender. `None` if the run has
/// none of these rows.
fn contended(results: &Results) -> Option<String> {
    let costs = |operation: &str, contender: &str| {
        let cost = |workers| results.median(&format!("{operation}-{workers}"), contender);
        let costs = CONTENDED_WORKERS
            .map(cost)
            .into_iter()
            .collect::<Option<Vec<f64>>>()?;
        let costs: Vec<String> = costs.into_iter().map(readable).collect();
        Some(costs.join("; "))
    };
    let is_there = |contender: &&str| {
        let mut operations = CONTENDED.iter();
        operations.any(|(operation, _)| costs(operation, contender).is_some())
    };
    let mut contenders = CONTENDED_BY.to_vec();
    contenders.retain(is_there);
    if contenders.is_empty() {
        return None;
    }
    let line = |(operation, title): &(&str, &str)| {
        let cost = |contender: &&str| costs(operation, contender).unwrap_or_default();
        let costs = contenders.iter().map(cost);
        [title.to_string()].into_iter().chain(costs).collect()
    };
    let workers = CONTENDED_WORKERS
        .map(|workers| workers.to_string())
        .join("; ");
    let names: Vec<String> = contenders
        .iter()
        .map(|contender| shown(contender))
        .collect();
    let head = format!("ns of CPU, on {workers} workers | {}", names.join(" | "));
    Some(table(&head, CONTENDED.iter().map(line).collect()))
}

/// What a change of `use` gives in some idioms, on runtimes of so many workers.
fn change_of_use(results: &Results, head: &str, idioms: &[Idiom], workers: &[usize]) -> String {
    let kinds: Vec<String> = workers.iter().copied().map(kind_of_runtime).collect();
    let line = |idiom: &Idiom| {
        let ratio_on = |&workers: &usize| {
            let row = idiom.row(workers);
            let better = results.times_better(&row, name::DROP_IN, name::TOKIO);
            better.map_or_else(String::new, ratio)
        };
        let ratios = workers.iter().map(ratio_on);
        [idiom.title.to_owned()].into_iter().chain(ratios).collect()
    };
    let head = format!("{head} | {}", kinds.join(" | "));
    table(&head, idioms.iter().map(line).collect())
}

/// First the cost where workers contend, then what a change of `use` gives on each kind of runtime,
/// then the rows of the summary that this run has.
fn summary(results: &Results) -> String {
    let idioms = change_of_use(results, "as after a change of `use`", IDIOMS, &[0, 1, 2, 8]);
    let rows = results.rows();
    let line = |(id, ours, peer): &(&str, &str, &str)| {
        let (row, _) = rows.iter().find(|(row, _)| row.id == *id)?;
        let found = results.times_better(id, ours, peer)?;
        Some(vec![
            row.title.clone(),
            row.unit.to_owned(),
            how_called(ours).to_owned(),
            readable(results.median(id, ours)?),
            readable(results.median(id, peer)?),
            peer.to_string(),
            ratio(found),
        ])
    };
    let chosen = SUMMARY.iter().filter_map(line).collect();
    let head = "what | unit | called by | tickwheel | the peer's | peer | tickwheel is";
    let tables = [contended(results), Some(idioms), Some(table(head, chosen))];
    tables.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// What README shows: the idioms that the most programs contain, which come first.
fn first_rows(results: &Results) -> String {
    const SHOWN: usize = 4;
    let head = "times faster than with tokio's timers";
    change_of_use(results, head, &IDIOMS[..SHOWN], &[0, 1, 2])
}

/// README with its table between its marks.
pub fn readme(page: &str, results: &Results) -> Result<String, String> {
    let parts = page
        .split_once(&format!("\n{BEGIN}\n"))
        .and_then(|(before, rest)| Some((before, rest.split_once(&format!("\n{END}\n"))?.1)));
    let (before, after) = parts.ok_or_else(|| format!("there are no lines {BEGIN} and {END}"))?;
    Ok(format!(
        "{before}\n{BEGIN}\n\n{}\n{END}\n{after}",
        first_rows(results)
    ))
}

/// What `benches/cores/run` has counted last.
const MANY_CORES: &str = include_str!("../cores/table.txt");

/// What stands around the tables, each at its mark.
const PAGE: &str = include_str!("page.md");

/// `RESULTS.md`: first what a person reads, then every row. The terminal shows the same.
pub fn page(run: &Run) -> String {
    let (facts, results) = (&run.facts, &run.results);
    let package = |(name, version): &(String, String)| format!("{name} {version}");
    let packages: Vec<String> = facts.packages.iter().map(package).collect();
    let (rustc, cores) = (&facts.rustc, facts.cores);
    let machine = format!(
        "rustc {rustc}, {cores} cores of {}, {}",
        facts.cpu, facts.system
    );
    let mut bodies = vec![
        ("summary", summary(results)),
        ("date", facts.date.clone()),
        ("packages", packages.join(", ")),
        ("machine", machine),
        ("states", states()),
        ("losses", losses(results)),
        ("How late", lateness(results)),
        ("Many cores", MANY_CORES.to_owned()),
    ];
    let mut sections: Vec<&str> = rows::rows().iter().map(|row| row.section).collect();
    sections.dedup();
    bodies.extend(
        sections
            .into_iter()
            .map(|title| (title, rows_of(results, title))),
    );
    let mut page = PAGE.trim_end().to_owned();
    for (mark, body) in bodies {
        let mark = format!("{{{mark}}}");
        assert!(page.contains(&mark), "page.md has no {mark}");
        page = page.replace(&mark, &body);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;

    #[test]
    fn the_cost_under_contention_stands_first_and_lacks_what_was_not_measured() {
        assert_eq!(contended(&Results::default()), None);
        let record = |(workers, cost)| {
            Record::new(&format!("meet-select-{workers}"), name::TOKIO, vec![cost])
        };
        let results = Results {
            records: [(1, 140.0), (2, 335.0), (4, 348.0)].map(record).to_vec(),
            failures: Vec::new(),
        };
        let summary = summary(&results);
        let cells: Vec<&str> = summary
            .lines()
            .take(4)
            .flat_map(|line| line.split('|'))
            .map(str::trim)
            .collect();
        assert!(
            cells.contains(&"ns of CPU, on 1; 2; 4 workers"),
            "{summary}"
        );
        assert!(cells.contains(&"140; 335; 348"), "{summary}");
        assert!(!summary.contains(name::TOKIO_ALTERNATIVE), "{summary}");
    }

    #[test]
    fn a_table_is_replaced_and_its_marks_stay() {
        let results = Results::default();
        let page = format!("before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n");
        let new = readme(&page, &results).unwrap();
        assert_eq!(new, page.replace("old\n", &first_rows(&results)));
        assert_eq!(readme(&new, &results).unwrap(), new);
        assert!(readme(&page.replace(END, ""), &results).is_err());
    }
}
