//! What tickwheel sets out to reach, and whether it does in this run. The goals themselves are in
//! `list`.

use crate::harness::Quartiles;
use crate::parts::lateness::{EARLY, LOADS as LATENESS_LOADS, Limit};
use crate::parts::{ARMED_SIZES, FUTURE_SIZES, LOADS, RATES, name};
use crate::report::{Results, tables};
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
                let over = tables::lines(results)
                    .into_iter()
                    .filter(|line| line.load.id == *load)
                    .map(|line| line.judged() - line.limit())
                    .max_by(f64::total_cmp)?;
                at_most(over, 0.0, format!("{over:+.1}"))
            }
        })
    }
}

// The goals, in words and numbers.

/// All goals, in the order of the table.
pub fn goals() -> Vec<Goal> {
    use name::*;
    let mut goals = Vec::new();
    let mut better = |row: &str, ours: &'static str, times: f64, peer: &'static str, what: &str| {
        let goal = if times == 1.0 {
            format!("no worse than {peer}")
        } else {
            format!("≥ {times}× {peer}")
        };
        goals.push(Goal {
            what: what.to_owned(),
            goal,
            check: Check::Better {
                row: row.to_owned(),
                ours,
                peer,
                times,
            },
        });
    };
    for workers in [1, 2] {
        let what = format!("one task that sleeps 1 ms, {workers} workers: CPU");
        better(&format!("sparse-{workers}"), DROP_IN, 0.83, TOKIO, &what);
    }
    let intervals = "100 tasks that tick every 10 ms: CPU";
    better("intervals", DROP_IN, 0.87, TOKIO, intervals);
    for (load, pause) in LOADS {
        for rate in RATES {
            let times = match rate {
                1_000_000.. => 1.25,
                100_000.. => 1.09,
                _ => 0.98,
            };
            let rate_shown = readable(f64::from(*rate));
            let what = format!("{rate_shown} timeouts a second, every {pause:?}: CPU");
            let row = format!("{load}-{rate}");
            better(&row, DROP_IN, times, TOKIO, &what);
            let held = format!("{what}, a held timer");
            better(&row, TICKWHEEL, times, TOKIO, &held);
        }
    }
    let resets = "1,000,000 resets a second, every 5ms: CPU";
    better("resets-1000000", TICKWHEEL, 0.8, LAST_SEEN, resets);
    let ready = "timeout, inner ready at once";
    better("ready-1", GLOBAL, 1.0, PINGORA, &format!("{ready}, global"));
    for size in FUTURE_SIZES {
        let what = format!("{ready}, of {size} bytes");
        better(&format!("large-{size}"), TICKWHEEL, 1.0, TOKIO, &what);
        let what = format!("{what}, drop-in");
        better(&format!("large-{size}"), DROP_IN, 1.0, TOKIO, &what);
    }
    let two = format!("{ready}, global, 2 threads");
    better("ready-2", GLOBAL, 1.0, PINGORA, &two);
    better("ready-2", GLOBAL, 2.0, TOKIO, &two);
    better(
        "ready-1",
        TICKWHEEL,
        1.0,
        TOKIO,
        &format!("{ready}, explicit timer"),
    );
    better("ready-1", DROP_IN, 1.4, TOKIO, &format!("{ready}, drop-in"));
    better(
        "ready-2",
        DROP_IN,
        5.0,
        TOKIO,
        &format!("{ready}, drop-in, 2 threads"),
    );
    let pending = "timeout, inner pending once, dropped";
    better("pending-1", TICKWHEEL, 1.33, TOKIO, pending);
    better("pending-1", TICKWHEEL, 2.5, PINGORA, pending);
    better(
        "pending-1",
        GLOBAL,
        2.5,
        PINGORA,
        &format!("{pending}, global"),
    );
    let pending = "the same, 2 threads";
    better(
        "pending-2",
        GLOBAL,
        2.0,
        PINGORA,
        &format!("{pending}, global"),
    );
    better(
        "pending-2",
        GLOBAL,
        3.5,
        TOKIO,
        &format!("{pending}, global"),
    );
    better("pending-2", TICKWHEEL, 10.0, TOKIO, pending);
    let free = format!("{pending}, drop-in");
    better("pending-2", DROP_IN, 6.0, TOKIO, &free);
    better("pending-2", TICKWHEEL, 2.0, PINGORA, pending);
    better("alt-timer-2", TICKWHEEL, 2.0, ALT_TIMER, pending);
    let one = "reset, one handle, ticks moving";
    better("reset-one", TICKWHEEL, 1.33, TOKIO, one);
    better("reset-one", TICKWHEEL, 3.0, DELAY_QUEUE, one);
    let many = "reset, 10,000 handles at random, each in a new tick";
    better("reset-many", TICKWHEEL, 1.33, TOKIO, many);
    better("reset-many", TICKWHEEL, 2.0, DELAY_QUEUE, many);
    better(
        "map-1",
        TICKWHEEL,
        2.5,
        MUTEX_MAP,
        "reset by key, 100,000 keys",
    );
    let put = "put a value under a key, and take it out";
    better("delay-map-1", TICKWHEEL, 0.67, MUTEX_MAP, put);
    let put = "the same, 2 threads";
    better("delay-map-2", TICKWHEEL, 1.0, MUTEX_MAP, put);
    let values = "CPU for each of 1,000,000 values, by key, against no keys";
    better("values-cpu", TICKWHEEL, 1.0, DELAY_QUEUE, values);
    for size in ARMED_SIZES {
        let what = format!("arm and disarm, {} armed", readable(*size as f64));
        better(&format!("armed-{size}"), TICKWHEEL, 1.5, TOKIO, &what);
    }
    better(
        "expire-cpu",
        TICKWHEEL,
        1.11,
        TOKIO,
        "CPU for each of 1,000,000 sleeps",
    );
    better(
        "expire-p99",
        TICKWHEEL,
        5.0,
        TOKIO,
        "99 % of 1,000,000 sleeps, ms late",
    );
    better(
        "longest-turn",
        TICKWHEEL,
        1.0,
        TOKIO,
        "the longest turn at 2,000,000 timers",
    );
    better(
        "steady",
        TICKWHEEL,
        1.0,
        TOKIO,
        "CPU at 200,000 timeouts a second",
    );
    better(
        "echo",
        TICKWHEEL,
        1.0,
        TOKIO,
        "echo server, requests a second",
    );

    let mut in_the_median = |row: &str, ours, times, peer, what: &str| {
        goals.push(Goal {
            what: what.to_owned(),
            goal: format!("≥ {times}× {peer}, in the median"),
            check: Check::BetterInTheMedian {
                row: row.to_owned(),
                ours,
                peer,
                times,
            },
        });
    };
    for (part, ours, peer, cpu, what) in [
        ("hyper-load", TICKWHEEL, TOKIO, 1.0, "hyper server"),
        ("queries", TICKWHEEL, TOKIO, 1.0, "256 queries in flight"),
        (
            "queries",
            DROP_IN,
            TOKIO,
            1.0,
            "256 queries in flight, drop-in",
        ),
        ("queries", TICKWHEEL, PINGORA, 1.0, "256 queries in flight"),
        (
            "proxy",
            TICKWHEEL,
            TOKIO_IO_TIMEOUT,
            1.0,
            "proxy with idle timeouts",
        ),
        // The cipher takes far more of a request than the timer does.
        ("quic", TICKWHEEL, TOKIO, 0.99, "quinn"),
    ] {
        let rate = format!("{what}, requests a second");
        in_the_median(&format!("{part}-rate"), ours, 0.99, peer, &rate);
        let what = format!("{what}, CPU of a request");
        in_the_median(&format!("{part}-cpu"), ours, cpu, peer, &what);
    }

    let mut goal = |what: &str, goal: &str, check| {
        goals.push(Goal {
            what: what.to_owned(),
            goal: goal.to_owned(),
            check,
        });
    };
    goal(
        "arm and disarm, 5,000,000 armed",
        "≤ 3× its cost with 1,000",
        Check::Growth {
            row: "armed-5000000".to_owned(),
            than: "armed-1000".to_owned(),
            at_most: 3.0,
        },
    );
    goal(
        "the timers' share of a hyper request's CPU",
        "≤ 0.6× tokio's",
        Check::Share {
            row: "hyper-cpu",
            peer: TOKIO,
            at_most: 0.6,
        },
    );
    goal(
        "median of 1,000,000 sleeps, ms late",
        "≤ 0.5 more than tokio",
        Check::Above {
            row: "expire-p50",
            peer: TOKIO,
            at_most: 0.5,
        },
    );
    let above_queue = Check::Above {
        row: "values-max",
        peer: DELAY_QUEUE,
        at_most: 5.0,
    };
    goal(
        "the latest of 1,000,000 values, ms late",
        "≤ 5 more than DelayQueue",
        above_queue,
    );
    for load in LATENESS_LOADS.iter().filter(|load| load.is_measured_here()) {
        let Limit { of, times, plus } = load.limit;
        goal(
            &format!("{}: {of}, ms above its limit", load.title),
            &format!("≤ {times}× {} + {plus} ms", load.peer),
            Check::InTime { load: load.id },
        );
    }
    let at_most = |row, limit| Check::AtMost { row, limit };
    goal("timers under these loads, early", "0", at_most(EARLY, 0.0));
    goal("1,000,000 sleeps, early", "0", at_most("expire-early", 0.0));
    goal(
        "start a delay of 100,000 anew, ns",
        "≤ 250",
        at_most("delay-map-reset", 250.0),
    );
    goal(
        "99 % of 1,000,000 values, ms late",
        "≤ 5",
        at_most("values-p99", 5.0),
    );
    for (row, what) in [
        ("longest-insert", "the longest arming at 2,000,000, ms"),
        ("longest-reset", "the longest reset"),
        ("longest-drop", "the longest drop"),
    ] {
        goal(what, "≤ 1", at_most(row, 1.0));
    }
    for (row, what) in [
        (
            "drain-delay-map",
            "ms that a drain of 1,000,000 values may hold up another call",
        ),
        ("drain-deadline-map", "the same of 1,000,000 deadlines"),
    ] {
        goal(what, "≤ 5", at_most(row, 5.0));
    }
    goal(
        "bytes for a value, beside 16 of key and value",
        "≤ 110",
        at_most("memory-delay-map", 126.0),
    );
    goal(
        "bytes for a deadline in a map, beside 16 of two keys",
        "≤ 200",
        at_most("memory-deadline-map", 216.0),
    );
    goal(
        "bytes for an armed sleep",
        "≤ 120",
        at_most("memory-sleep", 120.0),
    );
    goal(
        "the same at 1,060,000",
        "≤ 120",
        at_most("memory-sleep-1060000", 120.0),
    );
    goal(
        "bytes for a deadline with a handle",
        "≤ 256",
        at_most("memory-deadline", 256.0),
    );
    for (row, what) in [
        ("survivors-sleep", "bytes for 11 of 1,000,000 sleeps"),
        ("survivors-deadline", "the same of deadlines"),
        ("survivors-delay-map", "the same of values"),
        ("survivors-deadline-map", "the same of deadlines in a map"),
    ] {
        // Each of the eleven keeps a segment of a thousand.
        goal(what, "≤ 2,500,000", at_most(row, 2_500_000.0));
    }
    goal(
        "driver's wake-ups a second, 100,000 an hour away",
        "< 10",
        at_most("idle-driver", 9.9),
    );
    goals
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
