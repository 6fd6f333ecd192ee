//! The tables, for the terminal and as Markdown.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::{Results, how_called, shown};
use crate::goals::{Mark, goals};
use crate::idioms::IDIOMS;
use crate::parts::lateness::{Kind, LOADS, Load, QUANTILES};
use crate::parts::name;
use crate::rows::{Section, kind_of_runtime, readable};

/// For whom a table is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Terminal,
    Markdown,
}

/// Every contender of every row of a section: median, quartiles, and how many times better
/// tickwheel is.
pub fn rows(results: &Results, section: Section, style: Style) -> String {
    let mut table = table(
        style,
        &[
            "row",
            "contender",
            "median",
            "quartiles",
            "",
            "tickwheel is",
        ],
    );
    for (row, records) in results.rows() {
        if row.section != section {
            continue;
        }
        for (index, record) in records.iter().enumerate() {
            let Some(found) = record.quartiles() else {
                continue;
            };
            let spread = match record.samples.len() {
                1 => String::new(),
                _ => format!("{} – {}", readable(found.lower), readable(found.upper)),
            };
            let ours = results.ours(&row.id);
            let ratio = results
                .times_better(&row.id, ours, &record.contender)
                .filter(|_| record.contender != ours);
            let purpose = || {
                if index == 0 {
                    row.purpose.clone()
                } else {
                    String::new()
                }
            };
            table.add_row([
                Cell::new(if index == 0 { &*row.title } else { "" }),
                Cell::new(shown(&record.contender)),
                right(readable(found.median)),
                right(spread),
                Cell::new(row.unit.name()),
                right(ratio.map_or_else(purpose, super::ratio)),
            ]);
        }
    }
    table.to_string()
}

/// How those goals stand that this run measured and whose mark is asked for, and how many of all
/// are missed.
pub fn the_goals(results: &Results, style: Style, which: &[Mark]) -> (String, usize) {
    let mut table = table(style, &["what", "goal", "this run", ""]);
    let mut missed = 0;
    for goal in goals() {
        let verdict = goal.judge(results);
        match verdict.mark {
            Mark::Missed => missed += 1,
            Mark::Holds | Mark::OnTheLine | Mark::Unknown => {}
        }
        if !which.contains(&verdict.mark) {
            continue;
        }
        table.add_row([
            Cell::new(goal.what),
            Cell::new(goal.goal),
            right(verdict.found),
            Cell::new(verdict.mark.text()),
        ]);
    }
    (table.to_string(), missed)
}

/// The idioms, each with its ratio to tokio's timers on each kind of runtime.
pub fn idioms(results: &Results, style: Style) -> Option<String> {
    const KINDS: [usize; 4] = [0, 1, 2, 8];
    let kinds = KINDS.map(kind_of_runtime);
    let head = [
        &["as after a change of `use`"],
        &kinds.each_ref().map(|kind| &**kind)[..],
    ];
    let mut table = table(style, &head.concat());
    for idiom in IDIOMS {
        let ratio = |workers: usize| {
            let row = idiom.row(workers);
            results.times_better(&row, name::DROP_IN, name::TOKIO)
        };
        let ratios = KINDS.map(ratio);
        if ratios.iter().any(Option::is_some) {
            let ratios = ratios.map(|found| right(found.map_or_else(String::new, super::ratio)));
            table.add_row([vec![Cell::new(idiom.title)], ratios.to_vec()].concat());
        }
    }
    (table.row_count() > 0).then(|| table.to_string())
}

/// How late the timers were under each load; nothing where no load was run.
pub fn lateness(results: &Results, style: Style) -> String {
    let lines = lines(results);
    if lines.is_empty() {
        return String::new();
    }
    let head = [
        "load", "workers", "timer", "p50", "p99", "max", "peer", "p50", "p99", "max",
    ];
    let mut table = table(style, &head);
    let mut above = ("", usize::MAX);
    for line in &lines {
        let (load, here) = (line.load, (line.load.id, line.workers));
        let shown = |text: String, is_new: bool| if is_new { text } else { String::new() };
        let mut cells = vec![
            Cell::new(shown(load.title.to_owned(), above.0 != here.0)),
            right(shown(line.workers.to_string(), above != here)),
            Cell::new(line.kind.name()),
        ];
        cells.extend(line.ours.map(|late| right(readable(late))));
        cells.push(Cell::new(shown(name::TOKIO.to_owned(), above.0 != here.0)));
        cells.extend(line.peers.map(|late| right(readable(late))));
        table.add_row(cells);
        above = here;
    }
    table.to_string()
}

/// Where a peer is ahead, and what could not be measured; one line each.
pub fn where_we_lose(results: &Results) -> String {
    let mut text = String::new();
    for loss in results.losses() {
        let (row, peer, ours) = (&loss.row, &loss.peer, how_called(&loss.ours));
        let better = match loss.times {
            ..1.005 => "less than 1 %".to_owned(),
            times => format!("{times:.2}×"),
        };
        let _ = writeln!(text, "- {row}: {peer} is {better} better than the {ours}");
    }
    for (part, reason) in &results.failures {
        let _ = writeln!(text, "- not measured: {part}: {reason}");
    }
    if text.is_empty() {
        text.push_str("- nowhere in this run\n");
    }
    text
}

pub fn table(style: Style, head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(match style {
        Style::Terminal => presets::UTF8_FULL_CONDENSED,
        Style::Markdown => presets::ASCII_MARKDOWN,
    });
    table.set_header(head);
    table
}

pub fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

// How late the timers were under each load, line by line, and which of them were later than they
// may be.

/// What a run found of one kind of timer under one load. Each figure is the median of the rounds,
/// in milliseconds.
pub struct Line {
    pub load: &'static Load,
    pub workers: usize,
    pub kind: Kind,
    /// One figure for each of [`QUANTILES`].
    pub ours: [f64; 3],
    pub peers: [f64; 3],
}

impl Line {
    /// The figure that has a limit.
    pub fn judged(&self) -> f64 {
        self.ours[self.judged_quantile()]
    }

    pub fn limit(&self) -> f64 {
        let limit = self.load.limit;
        (limit.times * self.peers[self.judged_quantile()] + limit.plus).min(limit.at_most)
    }

    fn judged_quantile(&self) -> usize {
        let judged = self.load.limit.of;
        let place = QUANTILES.iter().position(|quantile| *quantile == judged);
        place.expect("a limit is for one of them")
    }
}

/// All lines that this run measured.
pub fn lines(results: &Results) -> Vec<Line> {
    let mut lines = Vec::new();
    for load in LOADS {
        for &workers in load.workers {
            for &kind in load.kinds {
                let of = |contender| {
                    let mut found = [0.0; 3];
                    for (found, quantile) in found.iter_mut().zip(QUANTILES) {
                        let row = load.row(workers, kind, quantile);
                        *found = results.quartiles(&row, contender)?.median;
                    }
                    Some(found)
                };
                if let (Some(ours), Some(peers)) = (of(name::TICKWHEEL), of(name::TOKIO)) {
                    lines.push(Line {
                        load,
                        workers,
                        kind,
                        ours,
                        peers,
                    });
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;

    #[test]
    fn a_line_is_judged_by_the_figure_that_has_a_limit() {
        let load = LOADS.iter().find(|load| load.id == "burst");
        let load = load.expect("there is one that is judged by its latest timer");
        let mut results = Results::default();
        for (contender, late) in [
            (name::TICKWHEEL, [90.0, 95.0, 8.0]),
            (name::TOKIO, [1.0, 2.0, 4.0]),
        ] {
            for (quantile, late) in QUANTILES.into_iter().zip(late) {
                let row = load.row(1, Kind::Sleep, quantile);
                results
                    .records
                    .push(Record::new(&row, contender, vec![late]));
            }
        }
        let lines = lines(&results);
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].judged(), lines[0].limit()), (8.0, 8.0));
    }
}
