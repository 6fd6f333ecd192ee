//! The goals, in words and numbers.

use super::{Check, Goal};
use crate::parts::lateness::{EARLY, LOADS as LATENESS_LOADS, Limit};
use crate::parts::{ARMED_SIZES, FUTURE_SIZES, LOADS, RATES, name};
use crate::rows::readable;

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
        better(&format!("sparse-{workers}"), DROP_IN, 0.87, TOKIO, &what);
    }
    let intervals = "100 tasks that tick every 10 ms: CPU";
    better("intervals", DROP_IN, 0.87, TOKIO, intervals);
    for (load, pause) in LOADS {
        for rate in RATES {
            let times = match rate {
                300_000.. => 1.43,
                100_000.. => 1.11,
                _ => 0.97,
            };
            let rate_shown = readable(f64::from(*rate));
            let what = format!("{rate_shown} timeouts a second, every {pause:?}: CPU");
            better(&format!("{load}-{rate}"), DROP_IN, times, TOKIO, &what);
        }
    }
    let ready = "timeout, inner ready at once";
    better("ready-1", GLOBAL, 2.5, PINGORA, &format!("{ready}, global"));
    for size in FUTURE_SIZES {
        let what = format!("{ready}, of {size} bytes");
        better(&format!("large-{size}"), TICKWHEEL, 1.0, TOKIO, &what);
        let what = format!("{what}, drop-in");
        better(&format!("large-{size}"), DROP_IN, 1.0, TOKIO, &what);
    }
    let two = format!("{ready}, global, 2 threads");
    better("ready-2", GLOBAL, 2.5, PINGORA, &two);
    better("ready-2", GLOBAL, 10.0, TOKIO, &two);
    better(
        "ready-1",
        TICKWHEEL,
        6.0,
        TOKIO,
        &format!("{ready}, explicit timer"),
    );
    better("ready-1", DROP_IN, 2.5, TOKIO, &format!("{ready}, drop-in"));
    better(
        "ready-2",
        DROP_IN,
        2.5,
        TOKIO,
        &format!("{ready}, drop-in, 2 threads"),
    );
    let pending = "timeout, inner pending once, dropped";
    better("pending-1", TICKWHEEL, 3.0, TOKIO, pending);
    better("pending-1", TICKWHEEL, 5.0, PINGORA, pending);
    better(
        "pending-1",
        GLOBAL,
        3.0,
        PINGORA,
        &format!("{pending}, global"),
    );
    better(
        "pending-1",
        AT_REST,
        1.33,
        TOKIO,
        &format!("{pending}, at rest"),
    );
    let pending = "the same, 2 threads";
    better(
        "pending-2",
        GLOBAL,
        3.5,
        PINGORA,
        &format!("{pending}, global"),
    );
    better(
        "pending-2",
        GLOBAL,
        10.0,
        TOKIO,
        &format!("{pending}, global"),
    );
    better("pending-2", TICKWHEEL, 12.0, TOKIO, pending);
    better("pending-2", TICKWHEEL, 8.0, PINGORA, pending);
    better("alt-timer-2", TICKWHEEL, 4.0, ALT_TIMER, pending);
    let one = "reset, one handle, ticks moving";
    better("reset-one", TICKWHEEL, 20.0, TOKIO, one);
    better("reset-one", TICKWHEEL, 40.0, DELAY_QUEUE, one);
    for (row, what) in [
        ("reset-after", "reset_after, one handle"),
        (
            "reset-at",
            "reset_at, one handle, the caller reads the clock",
        ),
        ("set-timeout", "set_timeout and reset, one handle"),
    ] {
        better(row, TICKWHEEL, 3.0, TOKIO, what);
    }
    let many = "reset, 10,000 handles at random, each in a new tick";
    better("reset-many", TICKWHEEL, 6.0, TOKIO, many);
    better("reset-many", TICKWHEEL, 10.0, DELAY_QUEUE, many);
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
        "timeout on two timers by turns",
        "≤ 1.15× its cost on one",
        Check::Growth {
            row: "ready-turns".to_owned(),
            than: "ready-1".to_owned(),
            at_most: 1.15,
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
    let above_tokio = Check::Above {
        row: "expire-p99",
        peer: TOKIO,
        at_most: 2.0,
    };
    goal(
        "99 % of 1,000,000 sleeps, ms late",
        "≤ 2 more than tokio",
        above_tokio,
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
        "bytes for a deadline with a handle",
        "≤ 256",
        at_most("memory-deadline", 256.0),
    );
    goal(
        "driver's wake-ups a second, 100,000 an hour away",
        "< 10",
        at_most("idle-driver", 9.9),
    );
    goals
}
