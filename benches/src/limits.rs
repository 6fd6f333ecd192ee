//! What a row may not fall below, so that a change which loses it is noticed. The limits are in
//! `limits.txt`, and those of the table of lateness next to its loads.

use std::str::FromStr;

use crate::harness::Quartiles;
use crate::parts::lateness::LOADS;
use crate::pattern::covers;
use crate::results::{Results, how_called};
use crate::rows::{Row, readable, rows};

/// Under each reason its limits: `rows | ours | bound | peer`, the last one where the bound needs
/// it. The bounds are those of [`Bound`].
const LIMITS: &str = include_str!("limits.txt");

/// A limit, and how one row stands to it in a run.
pub struct Limit {
    pub what: String,
    pub limit: String,
    pub found: String,
    pub mark: Mark,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Holds,
    /// The limit lies between the quartiles: run by run it goes one way or the other.
    OnTheLine,
    Missed,
}

impl Mark {
    pub fn text(self) -> &'static str {
        match self {
            Mark::Holds => "✔ holds",
            Mark::OnTheLine => "≈ on the line",
            Mark::Missed => "✘ missed",
        }
    }

    fn at_least(found: Quartiles, least: f64) -> Mark {
        match found {
            found if found.lower >= least => Mark::Holds,
            found if found.upper >= least => Mark::OnTheLine,
            _ => Mark::Missed,
        }
    }

    fn at_most(found: Quartiles, most: f64) -> Mark {
        match found {
            found if found.upper <= most => Mark::Holds,
            found if found.lower <= most => Mark::OnTheLine,
            _ => Mark::Missed,
        }
    }
}

/// What is asked of a row.
#[derive(Clone, Debug, PartialEq)]
enum Bound {
    /// `at least 1.1 | peer`: how many times better than the peer, taken round by round.
    TimesBetter(f64),
    /// `at most 1`: in the unit of the row.
    AtMost(f64),
    /// `at most 0.5 more | peer`: in the unit of the row, between the two medians.
    AtMostMore(f64),
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let number = |text: &str| {
            let parsed = text.parse::<f64>();
            parsed.map_err(|_| format!("«{text}» is no number"))
        };
        match words[..] {
            ["at", "least", times] => Ok(Bound::TimesBetter(number(times)?)),
            ["at", "most", most] => Ok(Bound::AtMost(number(most)?)),
            ["at", "most", most, "more"] => Ok(Bound::AtMostMore(number(most)?)),
            _ => Err(format!("«{text}» is no bound")),
        }
    }
}

/// A line of the file.
struct Entry {
    /// Where it is in the file.
    line: usize,
    reason: &'static str,
    rows: &'static str,
    ours: &'static str,
    bound: Bound,
    peer: Option<&'static str>,
}

impl Entry {
    fn parse(line: usize, reason: &'static str, text: &'static str) -> Result<Entry, String> {
        let fields: Vec<&str> = text.split(" | ").collect();
        let [pattern, ours, bound, ref peer @ ..] = fields[..] else {
            return Err(format!("«{text}» has not three fields"));
        };
        let bound: Bound = bound.parse()?;
        let peer = match (&bound, peer) {
            (Bound::AtMost(_), []) => None,
            (Bound::TimesBetter(_) | Bound::AtMostMore(_), &[peer]) => Some(peer),
            (Bound::AtMost(_), _) => return Err("that bound has no peer".to_owned()),
            _ => return Err("that bound needs a peer".to_owned()),
        };
        if reason.is_empty() {
            return Err("it stands under no reason".to_owned());
        }
        if !rows().iter().any(|row| covers(pattern, &row.id)) {
            return Err(format!("there is no row «{pattern}»"));
        }
        Ok(Entry {
            line,
            reason,
            rows: pattern,
            ours,
            bound,
            peer,
        })
    }

    /// How each of its rows stands that the run has figures for.
    fn judge<'a>(&'a self, results: &'a Results) -> impl Iterator<Item = Limit> + 'a {
        let covered = |row: &Row| covers(self.rows, &row.id);
        let rows = rows().into_iter().filter(covered);
        rows.filter_map(|row| self.judge_row(&row, results))
    }

    fn judge_row(&self, row: &Row, results: &Results) -> Option<Limit> {
        let found = results.record(&row.id, self.ours)?.quartiles()?;
        let peer = self.peer.unwrap_or_default();
        let (limit, found, mark) = match self.bound {
            Bound::TimesBetter(least) => {
                let ratio = results.times_better(&row.id, self.ours, peer)?;
                let mark = Mark::at_least(ratio, least);
                let found = format!("{}×", exact(ratio.median));
                (format!("≥ {least}× {peer}"), found, mark)
            }
            Bound::AtMost(most) => {
                let limit = format!("≤ {} {}", readable(most), row.unit);
                (limit, exact(found.median), Mark::at_most(found, most))
            }
            Bound::AtMostMore(most) => {
                let base = results.median(&row.id, peer)?;
                let more = Quartiles {
                    lower: found.lower - base,
                    median: found.median - base,
                    upper: found.upper - base,
                };
                let limit = format!("≤ {} {} more than {peer}", readable(most), row.unit);
                (limit, exact(more.median), Mark::at_most(more, most))
            }
        };
        Some(Limit {
            what: format!("{}, {}", row.title, how_called(self.ours)),
            limit,
            found,
            mark,
            reason: self.reason.to_owned(),
        })
    }
}

fn parse(text: &'static str) -> Result<Vec<Entry>, String> {
    let mut reason = "";
    let mut entries = Vec::new();
    for (index, text) in text.lines().enumerate() {
        match text.strip_prefix("# ") {
            Some(title) => reason = title,
            None if text.is_empty() => {}
            None => {
                let entry = Entry::parse(index + 1, reason, text);
                entries.push(entry.map_err(|error| format!("limits.txt:{}: {error}", index + 1))?);
            }
        }
    }
    Ok(entries)
}

fn entries() -> Vec<Entry> {
    parse(LIMITS).unwrap_or_else(|error| panic!("{error}"))
}

/// How each row stands that has a limit, and figures in this run.
pub fn judge(results: &Results) -> Vec<Limit> {
    let entries = entries();
    let listed = entries.iter().flat_map(|entry| entry.judge(results));
    listed.chain(lateness(results)).collect()
}

/// The lines of the file for which this run has no figure at all.
pub fn without_figures(results: &Results) -> Vec<String> {
    let entries = entries();
    let without = |entry: &&Entry| entry.judge(results).next().is_none();
    let name = |entry: &Entry| {
        let (line, rows, ours) = (entry.line, entry.rows, entry.ours);
        let peer = entry.peer.map(|peer| format!(" against {peer}"));
        let peer = peer.unwrap_or_default();
        format!("limits.txt:{line}: no figure of «{rows}» for {ours}{peer}")
    };
    entries.iter().filter(without).map(name).collect()
}

/// Each load of the table of lateness, in its worst line.
fn lateness(results: &Results) -> Vec<Limit> {
    let lines = results.lateness();
    let of_loads = LOADS.iter().filter_map(|load| {
        let of_load = lines.iter().filter(|line| line.load.id == load.id);
        let above = of_load.map(|line| line.above_limit());
        let above = above.max_by(f64::total_cmp)?;
        let limit = load.limit;
        let most = match limit.at_most {
            f64::INFINITY => String::new(),
            at_most => format!(", ≤ {at_most} ms"),
        };
        Some(Limit {
            what: format!("{}: {}, ms above its limit", load.title, limit.of),
            limit: format!("≤ {}× tokio + {} ms{most}", limit.times, limit.plus),
            found: exact(above),
            mark: if above <= 0.0 {
                Mark::Holds
            } else {
                Mark::Missed
            },
            reason: "what a timer may be late under a load is next to the load".to_owned(),
        })
    });
    of_loads.collect()
}

/// With a digit more than a limit has, so that a miss shows by what.
fn exact(found: f64) -> String {
    match found.abs() {
        1_000.0.. => readable(found),
        100.0.. => format!("{found:.1}"),
        10.0.. => format!("{found:.2}"),
        _ => format!("{found:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Record;
    use crate::part::name;

    fn results(ours: &[f64], peer: &[f64]) -> Results {
        let record = |who, samples: &[f64]| Record::new("ready-1", who, samples.to_vec());
        Results {
            records: vec![record(name::TICKWHEEL, ours), record(name::TOKIO, peer)],
            failures: Vec::new(),
        }
    }

    #[test]
    fn each_kind_of_bound_holds_lies_on_the_line_or_is_missed() {
        let found = results(&[10.0, 11.0, 12.0], &[20.0, 20.0, 20.0]);
        for (bound, mark) in [
            ("at least 1.6 | tokio", Mark::Holds),
            ("at least 1.85 | tokio", Mark::OnTheLine),
            ("at least 2 | tokio", Mark::Missed),
            ("at most 12", Mark::Holds),
            ("at most 11", Mark::OnTheLine),
            ("at most 10", Mark::Missed),
            ("at most 0 more | tokio", Mark::Holds),
            ("at most -9 more | tokio", Mark::OnTheLine),
            ("at most -11 more | tokio", Mark::Missed),
        ] {
            let text = format!("# why\nready-* | tickwheel | {bound}");
            let entries = parse(text.leak()).unwrap();
            let judged: Vec<Limit> = entries[0].judge(&found).collect();
            assert_eq!(judged.len(), 1, "{bound}");
            assert_eq!(judged[0].mark, mark, "{bound}");
            assert_eq!(judged[0].reason, "why");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_with_its_cause() {
        for (text, error) in [
            (
                "ready-1 | tickwheel | at most 1",
                "limits.txt:1: it stands under no reason",
            ),
            (
                "# why\nreddy-1 | tickwheel | at most 1",
                "limits.txt:2: there is no row «reddy-1»",
            ),
            (
                "# why\nready-1 | tickwheel",
                "limits.txt:2: «ready-1 | tickwheel» has not three fields",
            ),
            (
                "# why\n\nready-1 | tickwheel | at most x",
                "limits.txt:3: «x» is no number",
            ),
            (
                "# why\nready-1 | tickwheel | about 1",
                "limits.txt:2: «about 1» is no bound",
            ),
            (
                "# why\nready-1 | tickwheel | at least 1",
                "limits.txt:2: that bound needs a peer",
            ),
            (
                "# why\nready-1 | tickwheel | at most 1 | tokio",
                "limits.txt:2: that bound has no peer",
            ),
        ] {
            assert_eq!(parse(text).err().as_deref(), Some(error));
        }
    }

    #[test]
    fn a_limit_without_a_figure_is_named() {
        let all = without_figures(&Results::default());
        assert_eq!(all.len(), entries().len());
        let some = without_figures(&results(&[1.0], &[1.0]));
        assert!(some.len() < all.len(), "{some:?}");
    }
}
