//! The tables of a run: for the terminal, `RESULTS.md`, and README's, between two marks.

use std::fmt::Write;

use crate::goals::{Goal, Mark, judge};
use crate::harness::Quartiles;
use crate::idioms::IDIOMS;
use crate::parts::name;
use crate::results::{Late, Results, Run, how_called, shown};
use crate::rows::{Section, kind_of_runtime, readable};

/// The first of the two marks in README. Each is on a line of its own, so that no text is torn.
pub const BEGIN: &str = "<!-- table: written by `cargo run --release -p tickwheel-bench` -->";
/// The other one.
pub const END: &str = "<!-- end of the table -->";

/// Which locks tokio has in this build. `tests/tokio_features.rs` holds that it is so.
pub const TOKIO_LOCKS: &str =
    "tokio with the locks of `parking_lot`, as its feature `full` turns them on";

/// What README shows: the rows by which one chooses, with one of ours and a peer. Where tickwheel
/// gains and where it loses stands side by side.
const SUMMARY: &[(&str, &str, &str)] = &[
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

/// The cells of a line.
pub type Line = Vec<String>;

/// A table of Markdown whose columns are aligned, so that a terminal shows it too. Numbers stand on
/// the right, but for the first column.
pub fn table(head: &[&str], lines: Vec<Line>) -> String {
    let head: Line = head.iter().map(|title| title.to_string()).collect();
    let width = |column: usize| {
        let cells = [&head].into_iter().chain(&lines).map(|line| &line[column]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for (number, line) in [&head].into_iter().chain(&lines).enumerate() {
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let is_number = cell == "equal" || cell.starts_with(|c: char| c.is_ascii_digit());
            if column > 0 && is_number {
                let _ = write!(text, "| {cell:>width$} ");
            } else {
                let _ = write!(text, "| {cell:<width$} ");
            }
        }
        text.push_str("|\n");
        if number == 0 {
            let _ = widths
                .iter()
                .try_for_each(|width| write!(text, "|{:-<1$}", "", width + 2));
            text.push_str("|\n");
        }
    }
    text
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
fn rows(results: &Results, section: Section) -> String {
    let mut lines = Vec::new();
    for (row, records) in results.rows() {
        let ours = results.ours(&row.id);
        for record in records.iter().filter(|_| row.section == section) {
            let Some(found) = record.quartiles() else {
                continue;
            };
            let is_first = record.contender == records[0].contender;
            let better = results.times_better(&row.id, ours, &record.contender);
            lines.push(vec![
                if is_first {
                    row.title.clone()
                } else {
                    String::new()
                },
                shown(&record.contender),
                readable(found.median),
                match record.samples.len() {
                    1 => String::new(),
                    _ => format!("{} – {}", readable(found.lower), readable(found.upper)),
                },
                row.unit.to_owned(),
                match better.filter(|_| record.contender != ours) {
                    Some(found) => ratio(found),
                    None if is_first => row.purpose.clone(),
                    None => String::new(),
                },
            ]);
        }
    }
    let head = [
        "row",
        "contender",
        "median",
        "quartiles",
        "",
        "tickwheel is",
    ];
    table(&head, lines)
}

/// How late the timers were under each load.
fn lateness(results: &Results) -> String {
    let line = |late: &Late| {
        let figures = |late: [f64; 3]| late.map(readable).to_vec();
        let of = vec![
            late.load.title.to_owned(),
            late.workers.to_string(),
            late.kind.name().to_owned(),
        ];
        let peer = vec![name::TOKIO.to_owned()];
        [of, figures(late.ours), peer, figures(late.peers)].concat()
    };
    let head = [
        "load", "workers", "timer", "p50", "p99", "max", "peer", "p50", "p99", "max",
    ];
    table(&head, results.lateness().iter().map(line).collect())
}

/// Where a peer is ahead, and what could not be measured; one line each.
fn losses(results: &Results) -> String {
    let mut text = String::new();
    for (row, ours, peer, times) in results.losses() {
        let better = match times {
            ..1.005 => "less than 1 %".to_owned(),
            times => format!("{times:.2}×"),
        };
        let _ = writeln!(
            text,
            "- {row}: {peer} is {better} better than the {}",
            how_called(&ours)
        );
    }
    for (part, reason) in &results.failures {
        let _ = writeln!(text, "- not measured: {part}: {reason}");
    }
    match &*text {
        "" => "- nowhere in this run\n".to_owned(),
        _ => text,
    }
}

/// All that a run measured of the goals, or what it does not reach; and how many are missed.
pub fn goals(results: &Results, with_those_that_hold: bool) -> (String, usize) {
    let goals = judge(results);
    let missed = goals
        .iter()
        .filter(|goal| goal.mark == Mark::Missed)
        .count();
    let told = goals
        .into_iter()
        .filter(|goal| with_those_that_hold || goal.mark != Mark::Holds);
    let line = |goal: Goal| {
        vec![
            goal.what,
            goal.goal,
            goal.found,
            goal.mark.text().to_owned(),
        ]
    };
    let table = table(&["what", "goal", "this run", ""], told.map(line).collect());
    (table, missed)
}

/// The table of README: first what a change of `use` gives on each kind of runtime, then the rows
/// of the summary that this run has.
pub fn summary(results: &Results) -> String {
    const KINDS: [usize; 4] = [0, 1, 2, 8];
    let kinds = KINDS.map(kind_of_runtime);
    let head = [
        &["as after a change of `use`"],
        &kinds.each_ref().map(|kind| &**kind)[..],
    ];
    let mut idioms = Vec::new();
    for idiom in IDIOMS {
        let better =
            |workers: usize| results.times_better(&idiom.row(workers), name::DROP_IN, name::TOKIO);
        let ratios = KINDS.map(|workers| better(workers).map_or_else(String::new, ratio));
        idioms.push([vec![idiom.title.to_owned()], ratios.to_vec()].concat());
    }
    let rows = results.rows();
    let line = |(id, ours, peer): &(&str, &str, &str)| {
        let (row, _) = rows.iter().find(|(row, _)| row.id == *id)?;
        let found = results.times_better(id, ours, peer)?;
        Some(vec![
            format!("{}, {}", row.title, row.unit),
            how_called(ours).to_owned(),
            readable(results.median(id, ours)?),
            readable(results.median(id, peer)?),
            peer.to_string(),
            ratio(found),
        ])
    };
    let chosen = SUMMARY.iter().filter_map(line).collect();
    let of_rows = ["what", "called by", "tickwheel", "peer", "", "tickwheel is"];
    format!(
        "{}\n{}",
        table(&head.concat(), idioms),
        table(&of_rows, chosen)
    )
}

/// README with that table between its marks.
pub fn readme(page: &str, results: &Results) -> Result<String, String> {
    let parts = page
        .split_once(&format!("\n{BEGIN}\n"))
        .and_then(|(before, rest)| Some((before, rest.split_once(&format!("\n{END}\n"))?.1)));
    let (before, after) = parts.ok_or_else(|| format!("there are no lines {BEGIN} and {END}"))?;
    Ok(format!(
        "{before}\n{BEGIN}\n\n{}\n{END}\n{after}",
        summary(results)
    ))
}

const PREFACE: &str = "\
# Results

Written whole by `cargo run --release -p tickwheel-bench`. `benches/src/lib.rs` says how it measures.
Figures are medians.

- **held timer**: a `Timer` that the task keeps, its deadlines and its maps.
- **free function**: `tickwheel::timeout` and the like, as after a change of `use`.
- **global timer**: `Timer::global`.
- **tickwheel is**: how many times better tickwheel is. This is the median of the rounds' ratios, and not the
  ratio of the medians. Below 1 the peer is ahead. «equal» is a ratio whose quartiles lie on both sides of 1.
";

/// Measured apart, because the flag changes the build of all contenders.
const ALTERNATIVE: &str = "\
tokio's alternative timer is a contender in a build with `--cfg tokio_unstable` alone. For a timeout that is armed and
dropped on 2 threads, `RUSTFLAGS=\"--cfg tokio_unstable\" cargo run --release -p tickwheel-bench -- --only pending`
measured 379 ns with tokio's usual timer, 188 ns with the alternative one, and 82 to 83 ns with a held timer on either
(2026-11-26, two cores that were shared).";

/// `RESULTS.md`: first what a person reads, then every row. The terminal shows the same.
pub fn page(run: &Run) -> String {
    let (facts, results) = (&run.facts, &run.results);
    let packages = facts
        .packages
        .iter()
        .map(|(name, version)| format!("{name} {version}"));
    let packages: Vec<String> = packages.collect();
    let (goals, missed) = goals(results, false);
    let mut text = format!(
        "{PREFACE}\n{}\n![CPU of a program against its rate of timeouts](charts/programs.svg)\n\n\
         The run:\n\n- {}\n- {}\n- {TOKIO_LOCKS}\n- rustc {}, {} cores of {}, {}\n",
        summary(results),
        facts.date,
        packages.join(", "),
        facts.rustc,
        facts.cores,
        facts.cpu,
        facts.system,
    );
    let mut chapter = |title: &str, body: &str| {
        let _ = write!(text, "\n## {title}\n\n{body}");
    };
    let told = format!(
        "Every row in which a peer is ahead, but those of lateness:\n\n{}",
        losses(results)
    );
    chapter("Where others are better", &told);
    let told = format!(
        "{missed} are missed. On the line is a goal that lies between the quartiles.\n\n{goals}"
    );
    chapter("Goals that are not reached", &told);
    for (section, title) in Section::ALL {
        let rows = rows(results, section);
        chapter(
            title,
            &match section {
                Section::Idioms => {
                    format!("With the free functions, the time of the channel included.\n\n{rows}")
                }
                Section::Operations => format!(
                    "Nanoseconds are for each operation, of one core; with 4 threads on fewer cores the time that a thread \
                 waits for a\ncore is not counted.\n\n{rows}\n{ALTERNATIVE}\n\n\
                 ![growth](charts/armed.svg)\n\n![growth, at random](charts/replace.svg)\n"
                ),
                Section::Costs => format!(
                    "Atomic writes are instructions with `lock`, and `xchg` with memory, that a call on a worker executes. \
                 Shared are those\nto cache lines that calls on two workers write.\n\n{rows}"
                ),
                Section::Programs | Section::Memory => rows,
            },
        );
        if section == Section::Programs {
            let told = format!(
                "In milliseconds, ours and then the peer's: each figure is the median of the rounds, and «max» is the \
                 latest timer of\na round. With 0 workers the runtime is on the current thread. \
                 `benches/src/parts/lateness/` has the loads.\n\n{}",
                lateness(results)
            );
            chapter("How late", &told);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;

    #[test]
    fn a_line_has_both_medians_and_the_ratio_by_rounds() {
        let record = |who, samples: &[f64]| Record::new("pending-2", who, samples.to_vec());
        let ours = record(name::DROP_IN, &[10.0, 20.0, 40.0]);
        let records = vec![ours, record(name::TOKIO, &[30.0, 21.0, 44.0])];
        let results = Results {
            records,
            ..Results::default()
        };
        let table = summary(&results);
        let line: Vec<&str> = table.lines().last().unwrap().split('|').collect();
        let cells: Vec<&str> = line.iter().map(|cell| cell.trim()).collect();
        let expected = ["free function", "20.0", "30.0", "tokio", "1.10×"];
        assert_eq!(cells[2..7], expected, "{table}");
    }

    #[test]
    fn a_table_is_replaced_and_its_marks_stay() {
        let results = Results::default();
        let page = format!("before\n\n{BEGIN}\n\nold\n\n{END}\n\nafter\n");
        let new = readme(&page, &results).unwrap();
        assert_eq!(new, page.replace("old\n", &summary(&results)));
        assert_eq!(readme(&new, &results).unwrap(), new);
        assert!(readme(&page.replace(END, ""), &results).is_err());
    }
}
