//! What tickwheel sets out to reach, and whether it does in this run. The goals themselves are in
//! `list`.

mod list;

pub use list::goals;

use crate::harness::Quartiles;
use crate::parts::name;
use crate::report::{Results, lateness};
use crate::rows::readable;

/// Something to reach.
pub struct Goal {
    pub what: String,
    pub goal: String,
    check: Check,
}

enum Check {
    /// That many times better than a peer in the same row, round by round.
    Better {
        row: String,
        ours: &'static str,
        peer: &'static str,
        times: f64,
    },
    /// That many times better than a peer in the median of the rounds, however they scatter. For
    /// rows in which timers are a small share, and the machine's noise is a larger one.
    BetterInTheMedian {
        row: String,
        ours: &'static str,
        peer: &'static str,
        times: f64,
    },
    /// In one row at most so many times what it is in another.
    Growth {
        row: String,
        than: String,
        at_most: f64,
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
            } => {
                let ratio = results.times_better(row, ours, peer)?;
                Verdict {
                    found: format!("{:.2}×", ratio.median),
                    mark: Mark::at_least(ratio, *times),
                }
            }
            Check::BetterInTheMedian {
                row,
                ours,
                peer,
                times,
            } => {
                let ratio = results.times_better(row, ours, peer)?;
                Verdict {
                    found: format!("{:.3}×", ratio.median),
                    mark: Mark::in_the_median(ratio, *times),
                }
            }
            Check::Growth {
                row,
                than,
                at_most: limit,
            } => {
                // The rows are not of the same moment, so that of each counts which was least
                // disturbed.
                let undisturbed = |row: &str| Some(results.quartiles(row, name::TICKWHEEL)?.lower);
                let growth = undisturbed(row)? / undisturbed(than)?;
                at_most(growth, *limit, format!("{growth:.2}×"))
            }
            Check::AtMost { row, limit } => {
                let found = median(row, name::TICKWHEEL)?;
                at_most(found, *limit, readable(found))
            }
            Check::Share {
                row,
                peer,
                at_most: limit,
            } => {
                let base = median(row, name::NO_TIMER)?;
                let share = (median(row, name::TICKWHEEL)? - base) / (median(row, peer)? - base);
                at_most(share, *limit, format!("{share:.2}×"))
            }
            Check::Above {
                row,
                peer,
                at_most: limit,
            } => {
                let above = median(row, name::TICKWHEEL)? - median(row, peer)?;
                at_most(above, *limit, format!("{above:+.2}"))
            }
            Check::InTime { load } => {
                let over = lateness::lines(results)
                    .into_iter()
                    .filter(|line| line.load.id == *load)
                    .map(|line| line.judged() - line.limit())
                    .max_by(f64::total_cmp)?;
                at_most(over, 0.0, format!("{over:+.1}"))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
