//! What tickwheel sets out to reach, and whether it does in a run. Most of the goals are in
//! `goals.txt`, and those of the table of lateness beside its loads.

use crate::harness::Quartiles;
use crate::part::name;
use crate::parts::lateness::LOADS;
use crate::results::{Results, how_called};
use crate::rows::{readable, rows};

/// Under the kind of the goal: `row | ours | times | peer`, `row | limit | peer` or `row | limit`.
const GOALS: &str = include_str!("goals.txt");

/// A goal, and how it stands in a run that has figures for it.
pub struct Goal {
    pub what: String,
    pub goal: String,
    pub found: String,
    pub mark: Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Holds,
    /// The goal lies between the quartiles: run by run it goes one way or the other.
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

    fn at_least(found: Quartiles, goal: f64) -> Mark {
        match found {
            found if found.lower >= goal => Mark::Holds,
            found if found.upper < goal => Mark::Missed,
            _ => Mark::OnTheLine,
        }
    }

    fn at_most(found: f64, limit: f64) -> Mark {
        match found <= limit {
            true => Mark::Holds,
            false => Mark::Missed,
        }
    }
}

/// All goals that the run has figures for.
pub fn judge(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut kind = "";
    for line in GOALS.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some(title) => kind = title,
            None => goals.extend(listed(kind, line, results)),
        }
    }
    let lines = results.lateness();
    goals.extend(LOADS.iter().filter_map(|load| {
        let of_load = lines.iter().filter(|line| line.load.id == load.id);
        let above = of_load.map(|line| line.above_limit());
        let above = above.max_by(f64::total_cmp)?;
        let limit = load.limit;
        let most = match limit.at_most {
            f64::INFINITY => String::new(),
            at_most => format!(", ≤ {at_most} ms"),
        };
        Some(Goal {
            what: format!("{}: {}, ms above its limit", load.title, limit.of),
            goal: format!("≤ {}× tokio + {} ms{most}", limit.times, limit.plus),
            found: exact(above),
            mark: Mark::at_most(above, 0.0),
        })
    }));
    goals
}

fn listed(kind: &str, line: &str, results: &Results) -> Option<Goal> {
    let fields: Vec<&str> = line.split(" | ").collect();
    let number = |text: &str| text.parse::<f64>().expect("a goal is a number");
    let row = rows().into_iter().find(|known| known.id == fields[0]);
    let row = row.unwrap_or_else(|| panic!("there is no row «{}»", fields[0]));
    let median = |who: &str| results.median(&row.id, who);
    let (title, ours) = (&row.title, results.ours(&row.id));
    Some(match (kind, &fields[1..]) {
        // Round by round. In the median alone where timers are a small share, and the noise a
        // larger one.
        ("better" | "better in the median", [ours, times, peer]) => {
            let (ratio, least) = (results.times_better(&row.id, ours, peer)?, number(times));
            let in_the_median = kind == "better in the median";
            Goal {
                what: format!("{title}, {}", how_called(ours)),
                goal: match (in_the_median, *times) {
                    (true, _) => format!("≥ {times}× {peer}, in the median"),
                    (false, "1") => format!("no worse than {peer}"),
                    (false, _) => format!("≥ {times}× {peer}"),
                },
                found: format!("{}×", exact(ratio.median)),
                mark: match ratio.median >= least {
                    true if in_the_median => Mark::Holds,
                    _ => Mark::at_least(ratio, least),
                },
            }
        }
        ("at most", [limit]) => Goal {
            what: format!("{title}, {}", row.unit),
            goal: format!("≤ {}", readable(number(limit))),
            found: exact(median(ours)?),
            mark: Mark::at_most(median(ours)?, number(limit)),
        },
        ("above a peer", [limit, peer]) => {
            let above = median(ours)? - median(peer)?;
            Goal {
                what: format!("{title}, {}", row.unit),
                goal: format!("≤ {limit} more than {peer}"),
                found: exact(above),
                mark: Mark::at_most(above, number(limit)),
            }
        }
        ("share of the timers", [most, peer]) => {
            let base = median(name::NO_TIMER)?;
            let share = (median(ours)? - base) / (median(peer)? - base);
            Goal {
                what: format!("{title}, what timers take of it"),
                goal: format!("≤ {most}× {peer}"),
                found: format!("{}×", exact(share)),
                mark: Mark::at_most(share, number(most)),
            }
        }
        _ => panic!("«{line}» is no goal of the kind «{kind}»"),
    })
}

/// With a digit more than a goal has, so that a miss shows by what.
fn exact(found: f64) -> String {
    match found.abs() {
        1_000.0.. => readable(found),
        100.0.. => format!("{found:.1}"),
        10.0.. => format!("{found:.2}"),
        _ => format!("{found:.3}"),
    }
}
