//! The figures that the documents quote. Each stands between two marks, of which the first names
//! it:
//!
//! ```text
//! <!-- figure median ready-1 tickwheel -->23 ns<!-- end -->
//! ```
//!
//! | figure | what it is |
//! |---|---|
//! | `median ROW CONTENDER` | the median, with its unit |
//! | `more ROW CONTENDER OTHER` | how much more the first takes |
//! | `times ROW CONTENDER OTHER` | how many times as much the first takes |
//! | `faster ROW CONTENDER OTHER` | `2.6 times faster`, or `1.2 times slower`, by the rounds' ratios |
//! | `machine` | the processor, and how many cores of it |
//!
//! Invariant: no figure of a document is written by hand. `tests/documents.rs` holds that the
//! documents show the kept run's.

use std::path::{Path, PathBuf};

use super::{Facts, Run};
use crate::parts::name;
use crate::rows::{Unit, readable, rows};

/// The documents with such figures, from the repository's root.
pub const DOCUMENTS: &[&str] = &[
    "README.md",
    "src/lib.rs",
    "docs/COMPARE.md",
    "docs/DESIGN.md",
    "docs/SIZING.md",
];

const BEGIN: &str = "<!-- figure";
const NAMED: &str = "-->";
const END: &str = "<!-- end -->";

/// Where the document is.
pub fn path(document: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(document)
}

/// The text with the figures of this run. It fails for a figure that the run does not have.
pub fn updated(text: &str, run: &Run) -> Result<String, String> {
    let mut updated = String::new();
    let mut rest = text;
    while let Some((before, marked)) = rest.split_once(BEGIN) {
        let (name, after) = marked
            .split_once(NAMED)
            .filter(|(name, _)| !name.contains('\n'))
            .ok_or("a mark is broken over lines, or does not end with -->")?;
        let (_, after) = after
            .split_once(END)
            .filter(|(old, _)| !old.contains(BEGIN))
            .ok_or_else(|| format!("nothing ends the figure «{name}»"))?;
        let figure = figure(name.trim(), run)?;
        updated.extend([before, BEGIN, name, NAMED, &figure, END]);
        rest = after;
    }
    updated.push_str(rest);
    Ok(updated)
}

/// The template with the figures that it names in braces.
pub fn filled(template: &str, run: &Run) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, named)) = rest.split_once('{') {
        let (name, after) = named.split_once('}').ok_or("a brace is open")?;
        filled.push_str(before);
        filled.push_str(&figure(name, run)?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn figure(name: &str, run: &Run) -> Result<String, String> {
    let words: Vec<&str> = name.split(' ').collect();
    let known = match words[..] {
        ["machine"] => Some(machine(&run.facts)),
        ["median", row, who] => median(run, row, who).map(|(unit, one)| shown(unit, one)),
        ["more", row, who, other] => {
            both(run, row, who, other).map(|(unit, one, other)| shown(unit, one - other))
        }
        ["times", row, who, other] => {
            both(run, row, who, other).map(|(_, one, other)| two_digits(one / other))
        }
        ["faster", row, who, other] => faster(run, row, who, other),
        _ => None,
    };
    known.ok_or_else(|| format!("the run has no figure «{name}»"))
}

fn machine(facts: &Facts) -> String {
    format!("{}, {} cores", facts.cpu, facts.cores)
}

fn median(run: &Run, row: &str, who: &str) -> Option<(Unit, f64)> {
    let unit = rows().into_iter().find(|known| known.id == row)?.unit;
    let quartiles = run.results.quartiles(row, contender(who)?)?;
    Some((unit, quartiles.median))
}

fn both(run: &Run, row: &str, who: &str, other: &str) -> Option<(Unit, f64, f64)> {
    let (unit, one) = median(run, row, who)?;
    Some((unit, one, median(run, row, other)?.1))
}

fn faster(run: &Run, row: &str, who: &str, other: &str) -> Option<String> {
    let times = run
        .results
        .times_better(row, contender(who)?, contender(other)?)?
        .median;
    Some(match times {
        1.03.. => format!("{} times faster", two_digits(times)),
        0.97.. => "as fast".to_owned(),
        _ => format!("{} times slower", two_digits(1.0 / times)),
    })
}

fn shown(unit: Unit, value: f64) -> String {
    let is_time = matches!(unit, Unit::Nanoseconds | Unit::CpuNanoseconds);
    if is_time && value >= 10_000.0 {
        return format!("{} us", two_digits(value / 1e3));
    }
    let number = two_digits(value);
    match unit {
        Unit::Nanoseconds | Unit::CpuNanoseconds => format!("{number} ns"),
        Unit::MillisecondsLate | Unit::Milliseconds | Unit::CpuMillisecondsASecond => {
            format!("{number} ms")
        }
        Unit::Bytes => format!("{number} bytes"),
        Unit::PercentOfACore => format!("{number} %"),
        Unit::Early | Unit::WakeUps | Unit::RequestsASecond => number,
    }
}

/// Two digits where they tell enough. A larger number keeps its whole part.
fn two_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 9.95 || size == 0.0 => {
            let whole = readable(value.round());
            whole.split('.').next().unwrap_or_default().to_owned()
        }
        _ => format!("{value:.1}"),
    }
}

/// A contender by the one word that a mark has for it.
fn contender(word: &str) -> Option<&'static str> {
    Some(match word {
        "tickwheel" => name::TICKWHEEL,
        "drop-in" => name::DROP_IN,
        "global" => name::GLOBAL,
        "ticks-of-1" => name::EACH_MILLISECOND,
        "ticks-of-100" => name::EACH_TENTH,
        "tokio" => name::TOKIO,
        "delay-queue" => name::DELAY_QUEUE,
        "pingora" => name::PINGORA,
        "mutex-map" => name::MUTEX_MAP,
        "by-task" => name::BY_TASK,
        "no-timer" => name::NO_TIMER,
        "clock" => name::CLOCK,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;
    use crate::report::Results;

    fn run() -> Run {
        let record = |row, who, samples: &[f64]| Record::new(row, who, samples.to_vec());
        Run {
            facts: Facts::default(),
            results: Results {
                records: vec![
                    record("ready-1", name::TICKWHEEL, &[20.4, 20.4, 26.0]),
                    record("ready-1", name::TOKIO, &[51.0, 51.0, 51.0]),
                    record("bursts-100000", name::TOKIO, &[5.6]),
                ],
                ..Results::default()
            },
        }
    }

    #[test]
    fn a_figure_is_replaced_and_its_marks_stay() {
        let old = "It takes <!-- figure median ready-1 tickwheel -->9 ns<!-- end -->, \
                   <!-- figure faster ready-1 tickwheel tokio --><!-- end -->.";
        let new = updated(old, &run()).unwrap();
        let expected = "It takes <!-- figure median ready-1 tickwheel -->20 ns<!-- end -->, \
                        <!-- figure faster ready-1 tickwheel tokio -->2.5 times faster<!-- end -->.";
        assert_eq!(new, expected);
        assert_eq!(updated(&new, &run()).unwrap(), new);
    }

    #[test]
    fn each_kind_of_figure_has_its_words() {
        let template = "{median bursts-100000 tokio}, {more ready-1 tokio tickwheel}, \
                        {times ready-1 tickwheel tokio}, {faster ready-1 tokio tickwheel}";
        let filled = filled(template, &run()).unwrap();
        assert_eq!(filled, "5.6 %, 31 ns, 0.4, 2.5 times slower");
    }

    #[test]
    fn a_figure_that_the_run_does_not_have_is_named() {
        for (text, named) in [
            (
                "<!-- figure median nothing tokio -->1<!-- end -->",
                "median nothing tokio",
            ),
            (
                "<!-- figure median ready-1 nobody -->1<!-- end -->",
                "nobody",
            ),
            ("<!-- figure median ready-1 tokio -->1", "nothing ends"),
            (
                "<!-- figure\nmedian ready-1 tokio -->1<!-- end -->",
                "broken over lines",
            ),
            (
                "<!-- figure median ready-1 tokio -->1 <!-- figure machine -->2<!-- end -->",
                "nothing ends",
            ),
        ] {
            let error = updated(text, &run()).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
