//! What a sentence claims of the kept run. It stands behind the sentence, in a comment that the
//! page does not show: `<!-- figure: CLAIM; CLAIM -->`. CONTRIBUTING has the language, under
//! "Figures in prose".

use std::fmt::{self, Display, Formatter};

use tickwheel_bench::part::name;
use tickwheel_bench::pattern::covers;
use tickwheel_bench::results::{Results, how_called};
use tickwheel_bench::rows::{readable, rows};

/// How far a single figure may be from the median: 10 % of it.
const TOLERANCE: f64 = 0.1;

/// One claim of a mark.
#[derive(Debug, PartialEq)]
pub struct Claim {
    pub text: String,
    rows: String,
    value: Value,
    bound: Bound,
    /// Empty for a ratio and a quotient.
    unit: String,
}

/// What is looked at in a row. The names are of contenders.
#[derive(Debug, PartialEq)]
enum Value {
    Median(String),
    Difference(String, String),
    TimesBetter(String, String),
    /// The second median is of this other row.
    Quotient(String, String, String),
}

#[derive(Debug, PartialEq)]
enum Bound {
    /// So many digits behind the point are written.
    Figure(f64, usize),
    Between(f64, f64),
    AtLeast(f64),
    AtMost(f64),
    Above(f64),
    Below(f64),
    /// The quartiles lie on both sides of 1, and the tables show «equal».
    Equal,
}

impl Claim {
    /// All claims of a mark; none if it says `none`.
    pub fn parse_all(text: &str) -> Result<Vec<Claim>, String> {
        match text.trim() {
            "none" => Ok(Vec::new()),
            "" => Err("the mark is empty".to_owned()),
            text => text.split(';').map(Claim::parse).collect(),
        }
    }

    fn parse(text: &str) -> Result<Claim, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let owned = |word: &str| word.to_owned();
        let (value, rest) = match words[..] {
            [_, one, "-", other, ref rest @ ..] => {
                (Value::Difference(owned(one), owned(other)), rest)
            }
            [_, one, "of", row, other, ref rest @ ..] => {
                (Value::Quotient(owned(one), owned(row), owned(other)), rest)
            }
            [_, one, ref rest @ ..] => match one.split_once('/') {
                Some((one, other)) => (Value::TimesBetter(owned(one), owned(other)), rest),
                None => (Value::Median(owned(one)), rest),
            },
            _ => return Err(format!("«{text}» names no row and contender")),
        };
        let [relation, figure, unit @ ..] = rest else {
            return Err(format!("«{text}» says nothing of what it looks at"));
        };
        let bound = Bound::parse(relation, figure)?;
        let has_unit = matches!(value, Value::Median(_) | Value::Difference(..));
        if has_unit == unit.is_empty() {
            let error = if has_unit {
                "needs a unit"
            } else {
                "has no unit"
            };
            return Err(format!("«{text}» {error}"));
        }
        if bound == Bound::Equal && !matches!(value, Value::TimesBetter(..)) {
            return Err(format!("«{text}»: only a ratio is «equal»"));
        }
        Ok(Claim {
            text: words.join(" "),
            rows: owned(words[0]),
            value,
            bound,
            unit: unit.join(" "),
        })
    }

    /// Looks at every row that it names. What does not hold is the error, with what was found.
    pub fn check(&self, results: &Results) -> Result<(), String> {
        let mut ids: Vec<&str> = results.records.iter().map(|record| &*record.row).collect();
        ids.retain(|id| covers(&self.rows, id));
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Err(format!("the run has no row «{}»", self.rows));
        }
        let (mut is_checked, mut unknown, mut wrong) = (false, Vec::new(), Vec::new());
        for id in ids {
            match self.check_row(id, results) {
                Ok(found) => {
                    is_checked = true;
                    wrong.extend(found.map(|found| format!("{id}: {found}")));
                }
                Err(error) => unknown.push(error),
            }
        }
        // Of several rows, some may have other contenders.
        if !is_checked {
            return Err(unknown.join("; "));
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("; "))
        }
    }

    /// What was found in that row, if it is not as claimed.
    fn check_row(&self, row: &str, results: &Results) -> Result<Option<String>, String> {
        let median = |row: &str, who: &str| {
            let contender = contender(row, who, results)?;
            let median = results.median(row, &contender);
            median.ok_or_else(|| format!("{row}: {contender} has no figure"))
        };
        let scaled = |found: f64| Ok::<f64, String>(found / scale(&self.unit, row)?);
        let found = match &self.value {
            Value::Median(who) => scaled(median(row, who)?)?,
            Value::Difference(one, other) => scaled(median(row, one)? - median(row, other)?)?,
            Value::Quotient(one, of, other) => median(row, one)? / median(of, other)?,
            Value::TimesBetter(one, other) => {
                let [one, other] = [
                    contender(row, one, results)?,
                    contender(row, other, results)?,
                ];
                let ratio = results.times_better(row, &one, &other);
                let ratio = ratio.ok_or_else(|| format!("{row}: there is no ratio"))?;
                if self.bound == Bound::Equal {
                    let quartiles = format!("{:.2}× to {:.2}×", ratio.lower, ratio.upper);
                    return Ok((!ratio.is_equal()).then_some(quartiles));
                }
                ratio.median
            }
        };
        let text = match self.value {
            Value::Median(_) | Value::Difference(..) => {
                format!("{} {}", readable(found), self.unit)
            }
            Value::Quotient(..) | Value::TimesBetter(..) => format!("{found:.2}×"),
        };
        Ok((!self.bound.holds(found)).then_some(text))
    }
}

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Bound {
    fn parse(relation: &str, figure: &str) -> Result<Bound, String> {
        let number = |text: &str| {
            let plain = text.replace(',', "");
            let parsed = plain.parse::<f64>();
            parsed.map_err(|_| format!("«{text}» is no number"))
        };
        match (relation, figure, figure.split_once("..")) {
            ("=", "equal", _) => Ok(Bound::Equal),
            ("=", _, Some((low, high))) => Ok(Bound::Between(number(low)?, number(high)?)),
            ("=", _, None) => {
                let digits = figure.split_once('.').map_or(0, |(_, digits)| digits.len());
                Ok(Bound::Figure(number(figure)?, digits))
            }
            (">=", ..) => Ok(Bound::AtLeast(number(figure)?)),
            ("<=", ..) => Ok(Bound::AtMost(number(figure)?)),
            (">", ..) => Ok(Bound::Above(number(figure)?)),
            ("<", ..) => Ok(Bound::Below(number(figure)?)),
            _ => Err(format!("«{relation}» is none of = >= <= > <")),
        }
    }

    fn holds(&self, found: f64) -> bool {
        match *self {
            Bound::Figure(figure, digits) => {
                let is_near = (found - figure).abs() <= TOLERANCE * figure.abs();
                is_near || format!("{found:.digits$}") == format!("{figure:.digits$}")
            }
            Bound::Between(low, high) => (low..=high).contains(&found),
            Bound::AtLeast(least) => found >= least,
            Bound::AtMost(most) => found <= most,
            Bound::Above(figure) => found > figure,
            Bound::Below(figure) => found < figure,
            Bound::Equal => unreachable!("it is of quartiles"),
        }
    }
}

/// The contender of that row which a mark calls so.
fn contender(row: &str, called: &str, results: &Results) -> Result<String, String> {
    let records = results.records.iter().filter(|record| record.row == row);
    let names: Vec<&str> = records.map(|record| &*record.contender).collect();
    if let Some(name) = names.iter().find(|name| in_marks(name) == called) {
        return Ok((*name).to_owned());
    }
    let known: Vec<String> = names.into_iter().map(in_marks).collect();
    match &known[..] {
        [] => Err(format!("the run has no row «{row}»")),
        known => Err(format!("{row} has no «{called}», but {}", known.join(", "))),
    }
}

/// `held-timer`, `free-function`, `tokio`, `tickwheel-delayqueue`, `mutex-hashmap-delayqueue`.
fn in_marks(contender: &str) -> String {
    let name = match contender {
        name::TICKWHEEL | name::DROP_IN | name::GLOBAL => how_called(contender),
        other => other,
    };
    let name = name.to_lowercase();
    let words = name.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// How many of the row's unit make one of that unit.
fn scale(unit: &str, row: &str) -> Result<f64, String> {
    const FAMILIES: [&[(&str, f64)]; 2] = [
        &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)],
        &[("bytes", 1.0), ("KB", 1e3), ("MB", 1e6)],
    ];
    let known = rows().into_iter().find(|known| known.id == row);
    let of_row = known.map_or("ms late", |row| row.unit);
    let base = of_row.split(' ').next().unwrap_or(of_row);
    if unit == of_row || unit == base {
        return Ok(1.0);
    }
    let size = |unit: &str, family: &[(&str, f64)]| {
        let mut sizes = family.iter();
        sizes
            .find(|(known, _)| *known == unit)
            .map(|(_, size)| *size)
    };
    let mut scales = FAMILIES
        .iter()
        .filter_map(|family| Some(size(unit, family)? / size(base, family)?));
    scales
        .next()
        .ok_or_else(|| format!("{row} is in {of_row}, not in {unit}"))
}

mod tests {
    use tickwheel_bench::harness::Record;

    use super::*;

    /// Three rounds of each contender.
    fn results() -> Results {
        let record = |row, who, samples: [f64; 3]| Record::new(row, who, samples.to_vec());
        Results {
            records: vec![
                record("replace-1000", name::TICKWHEEL, [114.0, 114.0, 115.0]),
                record("replace-1000", name::TOKIO, [88.0, 88.0, 88.0]),
                record("replace-10000", name::TICKWHEEL, [137.0, 137.0, 137.0]),
                record("replace-10000", name::TOKIO, [130.0, 140.0, 137.0]),
                record("survivors-sleep", name::TICKWHEEL, [415_000.0; 3]),
                record("survivors-sleep", name::TOKIO, [1_100.0; 3]),
                record("lateness-rest-2-sleep-p99", name::TICKWHEEL, [1.9; 3]),
                record("map-1", name::MUTEX_MAP, [500.0; 3]),
                record("writes-armed-shared", name::TICKWHEEL, [0.0; 3]),
                record("writes-armed-shared", name::TOKIO, [8.0; 3]),
            ],
            failures: Vec::new(),
        }
    }

    /// What was found where a claim does not hold; empty where it does.
    fn found(claim: &str) -> String {
        let claims = Claim::parse_all(claim).unwrap();
        claims[0].check(&results()).err().unwrap_or_default()
    }

    #[test]
    fn each_kind_of_claim_holds_or_tells_what_was_found() {
        for (claim, answer) in [
            // Rounded as written, or within a tenth.
            ("survivors-sleep held-timer = 0.4 MB", ""),
            ("survivors-sleep held-timer = 415,000 bytes", ""),
            ("survivors-sleep held-timer = 380 KB", ""),
            (
                "survivors-sleep held-timer = 0.5 MB",
                "survivors-sleep: 0.41 MB",
            ),
            ("replace-1000 held-timer = 0.1 µs", ""),
            ("replace-1000 held-timer = 100..120 ns", ""),
            (
                "replace-1000 held-timer = 80..100 ns",
                "replace-1000: 114 ns",
            ),
            ("replace-1000 held-timer >= 115 ns", "replace-1000: 114 ns"),
            ("replace-1000 held-timer <= 113 ns", "replace-1000: 114 ns"),
            ("replace-1000 held-timer > 114 ns", "replace-1000: 114 ns"),
            ("replace-1000 held-timer < 114 ns", "replace-1000: 114 ns"),
            ("lateness-rest-2-sleep-p99 held-timer <= 2 ms", ""),
            ("writes-armed-shared held-timer = 0 atomic writes", ""),
            (
                "writes-armed-shared tokio = 0 atomic writes",
                "writes-armed-shared: 8.00 atomic writes",
            ),
            // The difference.
            ("replace-1000 held-timer - tokio = 26 ns", ""),
            (
                "replace-1000 held-timer - tokio = 36 ns",
                "replace-1000: 26.0 ns",
            ),
            // How many times better.
            ("replace-1000 tokio/held-timer = 1.2..1.4", ""),
            (
                "replace-1000 tokio/held-timer = 1.4..2",
                "replace-1000: 1.30×",
            ),
            ("replace-1000 held-timer/tokio >= 1", "replace-1000: 0.77×"),
            ("replace-10000 held-timer/tokio = equal", ""),
            (
                "replace-1000 held-timer/tokio = equal",
                "replace-1000: 0.77× to 0.77×",
            ),
            ("replace-* held-timer/tokio < 1", "replace-10000: 1.00×"),
            (
                "replace-* held-timer/tokio >= 2",
                "replace-1000: 0.77×; replace-10000: 1.00×",
            ),
            // The quotient of two medians.
            (
                "replace-10000 held-timer of replace-1000 held-timer = 1.2",
                "",
            ),
            (
                "replace-10000 held-timer of replace-1000 held-timer <= 1.1",
                "replace-10000: 1.20×",
            ),
            // What the run does not have.
            ("reply-* held-timer = 1 ns", "the run has no row «reply-*»"),
            (
                "map-1 held-timer = 1 ns",
                "map-1 has no «held-timer», but mutex-hashmap-delayqueue",
            ),
            ("map-1 mutex-hashmap-delayqueue = 500 ns", ""),
            ("*-1 mutex-hashmap-delayqueue = 500 ns", ""),
            ("* mutex-hashmap-delayqueue = 400 ns", "map-1: 500 ns"),
            (
                "map-1 mutex-hashmap-delayqueue = 500 KB",
                "map-1 is in ns, not in KB",
            ),
        ] {
            assert_eq!(found(claim), answer, "{claim}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_cause() {
        assert_eq!(Claim::parse_all(" none "), Ok(Vec::new()));
        let two = Claim::parse_all("a b = 1 ns; c d/e >= 2").unwrap();
        assert_eq!([&*two[0].text, &*two[1].text], ["a b = 1 ns", "c d/e >= 2"]);
        for (mark, error) in [
            ("", "the mark is empty"),
            ("a", "«a» names no row and contender"),
            ("a b = 1 ns;", "«» names no row and contender"),
            ("a b", "«a b» says nothing of what it looks at"),
            ("a b/c", "«a b/c» says nothing of what it looks at"),
            ("a b = 1", "«a b = 1» needs a unit"),
            ("a b/c = 1 ns", "«a b/c = 1 ns» has no unit"),
            ("a b = x ns", "«x» is no number"),
            ("a b = 1..x ns", "«x» is no number"),
            ("a b ~ 1 ns", "«~» is none of = >= <= > <"),
            (
                "a b = equal ns",
                "«a b = equal ns»: only a ratio is «equal»",
            ),
        ] {
            assert_eq!(Claim::parse_all(mark), Err(error.to_owned()), "{mark}");
        }
    }
}
