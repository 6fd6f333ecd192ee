//! What tickwheel sets out to reach, and whether it does in this run. Most of the goals are in
//! `goals.txt`.

use crate::harness::Quartiles;
use crate::parts::lateness::{LOADS as LATENESS_LOADS, Limit};
use crate::parts::name;
use crate::report::{Results, how_called, tables};
use crate::rows::{readable, rows};

/// Something to reach.
pub struct Goal {
    pub what: String,
    pub goal: String,
    check: Check,
}

enum Check {
    /// That many times better than a peer in the same row, round by round. In the median alone,
    /// however the rounds scatter, where timers are a small share and the noise a larger one.
    Better {
        row: &'static str,
        ours: &'static str,
        peer: &'static str,
        times: f64,
        in_the_median: bool,
    },
    AtMost {
        row: &'static str,
        limit: f64,
    },
    /// Above a contender with no timer, at most so many times as far as a peer.
    Share {
        row: &'static str,
        peer: &'static str,
        at_most: f64,
    },
    /// Above a peer by so much at most.
    Above {
        row: &'static str,
        peer: &'static str,
        at_most: f64,
    },
    /// No line of a load is later than its limit, in the table of lateness.
    InTime {
        load: &'static str,
    },
}

/// How a goal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Holds,
    /// The goal lies between the quartiles: run by run it goes one way or the other.
    OnTheLine,
    Missed,
    /// Not measured in this run.
    Unknown,
}

impl Mark {
    /// Those of a goal that the run has figures for.
    pub const MEASURED: [Mark; 3] = [Mark::Holds, Mark::OnTheLine, Mark::Missed];

    pub fn text(self) -> &'static str {
        match self {
            Mark::Holds => "✔ holds",
            Mark::OnTheLine => "≈ on the line",
            Mark::Missed => "✘ missed",
            Mark::Unknown => "– not measured",
        }
    }

    fn at_least(found: Quartiles, goal: f64) -> Mark {
        match found {
            found if found.lower >= goal => Mark::Holds,
            found if found.upper < goal => Mark::Missed,
            _ => Mark::OnTheLine,
        }
    }

    fn in_the_median(found: Quartiles, goal: f64) -> Mark {
        match found {
            found if found.median >= goal => Mark::Holds,
            found => Mark::at_least(found, goal),
        }
    }
}

/// What a run says to a goal.
pub struct Verdict {
    pub found: String,
    pub mark: Mark,
}

impl Goal {
    pub fn judge(&self, results: &Results) -> Verdict {
        self.found(results).unwrap_or(Verdict {
            found: String::new(),
            mark: Mark::Unknown,
        })
    }

    fn found(&self, results: &Results) -> Option<Verdict> {
        let median = |row: &str, who: &str| Some(results.quartiles(row, who)?.median);
        let at_most = |found: f64, limit: f64, text: String| Verdict {
            found: text,
            mark: if found <= limit {
                Mark::Holds
            } else {
                Mark::Missed
            },
        };
        Some(match &self.check {
            Check::Better {
                row,
                ours,
                peer,
                times,
                in_the_median,
            } => {
                let ratio = results.times_better(row, ours, peer)?;
                let judge = if *in_the_median {
                    Mark::in_the_median
                } else {
                    Mark::at_least
                };
                Verdict {
                    found: format!("{}×", apart(ratio.median, *times)),
                    mark: judge(ratio, *times),
                }
            }
            Check::AtMost { row, limit } => {
                let found = median(row, name::TICKWHEEL)?;
                at_most(found, *limit, apart(found, *limit))
            }
            Check::Share {
                row,
                peer,
                at_most: limit,
            } => {
                let base = median(row, name::NO_TIMER)?;
                let share = (median(row, name::TICKWHEEL)? - base) / (median(row, peer)? - base);
                at_most(share, *limit, format!("{}×", apart(share, *limit)))
            }
            Check::Above {
                row,
                peer,
                at_most: limit,
            } => {
                let above = median(row, results.ours(row))? - median(row, peer)?;
                at_most(above, *limit, apart(above, *limit))
            }
            Check::InTime { load } => {
                let over = tables::lines(results)
                    .into_iter()
                    .filter(|line| line.load.id == *load)
                    .map(|line| line.judged() - line.limit())
                    .max_by(f64::total_cmp)?;
                at_most(over, 0.0, apart(over, 0.0))
            }
        })
    }
}

/// A figure with as many digits as tell it from its goal.
fn apart(found: f64, goal: f64) -> String {
    if found == goal || readable(found) != readable(goal) {
        return readable(found);
    }
    let exact = |digits: usize| (format!("{found:.digits$}"), format!("{goal:.digits$}"));
    let mut pairs = (0..9).map(exact);
    let apart = pairs.find(|(found, goal)| found != goal);
    apart.map_or_else(|| found.to_string(), |(found, _)| found)
}

// The goals, in words and numbers.

/// Under what is asked its goals: `row | ours | times | peer`, `row | limit | peer` or
/// `row | limit`.
const GOALS: &str = include_str!("goals.txt");

/// All goals, in the order of the table.
pub fn goals() -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut asked = "";
    for line in GOALS.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(title) => asked = title,
            None => goals.push(listed(asked, line)),
        }
    }
    goals.extend(of_lateness());
    goals
}

fn listed(asked: &str, line: &'static str) -> Goal {
    let fields: Vec<&str> = line.split(" | ").collect();
    let number = |text: &str| text.parse::<f64>().expect("a goal is a number");
    let row = fields[0];
    let known = rows().into_iter().find(|known| known.id == row);
    let known = known.unwrap_or_else(|| panic!("there is no row «{row}»"));
    match (asked, &fields[1..]) {
        ("at most", [limit]) => Goal {
            what: format!("{}, {}", known.title, known.unit.name()),
            goal: format!("≤ {}", readable(number(limit))),
            check: Check::AtMost {
                row,
                limit: number(limit),
            },
        },
        ("above a peer", [limit, peer]) => Goal {
            what: format!("{}, {}", known.title, known.unit.name()),
            goal: format!("≤ {limit} more than {peer}"),
            check: Check::Above {
                row,
                peer,
                at_most: number(limit),
            },
        },
        ("share of the timers", [share, peer]) => Goal {
            what: format!("{}, what timers take of it", known.title),
            goal: format!("≤ {share}× {peer}"),
            check: Check::Share {
                row,
                peer,
                at_most: number(share),
            },
        },
        ("better" | "better in the median", [ours, times, peer]) => Goal {
            what: format!("{}, {}", known.title, how_called(ours)),
            goal: match (asked, *times) {
                ("better", "1") => format!("no worse than {peer}"),
                ("better", _) => format!("≥ {times}× {peer}"),
                _ => format!("≥ {times}× {peer}, in the median"),
            },
            check: Check::Better {
                row,
                ours,
                peer,
                times: number(times),
                in_the_median: asked != "better",
            },
        },
        _ => panic!("«{line}» is no goal of the kind «{asked}»"),
    }
}

/// Of the table of lateness, each load's.
fn of_lateness() -> impl Iterator<Item = Goal> {
    LATENESS_LOADS.iter().map(|load| {
        let Limit {
            of,
            times,
            plus,
            at_most,
        } = load.limit;
        let and = match at_most {
            f64::INFINITY => String::new(),
            at_most => format!(", ≤ {at_most} ms"),
        };
        Goal {
            what: format!("{}: {of}, ms above its limit", load.title),
            goal: format!("≤ {times}× tokio + {plus} ms{and}"),
            check: Check::InTime { load: load.id },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_has_the_digits_by_which_it_is_one() {
        for (found, goal, shown) in [
            (0.9996, 1.0, "0.9996"),
            (1.5, 1.0, "1.50"),
            (1.000_2, 1.0, "1.0002"),
            (250.3, 250.0, "250.3"),
            (1.0, 1.0, "1.00"),
        ] {
            assert_eq!(apart(found, goal), shown);
        }
    }

    #[test]
    fn a_goal_for_the_median_may_have_a_quartile_below() {
        let found = |lower, median, upper| Quartiles {
            lower,
            median,
            upper,
        };
        for (found, strictly, in_the_median) in [
            (found(1.0, 1.01, 1.02), Mark::Holds, Mark::Holds),
            (found(0.9, 0.99, 1.02), Mark::OnTheLine, Mark::Holds),
            (found(0.9, 0.98, 1.02), Mark::OnTheLine, Mark::OnTheLine),
            (found(0.9, 0.92, 0.98), Mark::Missed, Mark::Missed),
        ] {
            assert_eq!(Mark::at_least(found, 0.99), strictly);
            assert_eq!(Mark::in_the_median(found, 0.99), in_the_median);
        }
    }
}
