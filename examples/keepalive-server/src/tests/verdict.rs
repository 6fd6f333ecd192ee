//! The verdict on a run and on a comparison: which clients were in time, and what counts.

use clap::ValueEnum;
use tickwheel::{Duration, Instant};

use super::{HOUR, finish};
use crate::compare::{Column, condition, judge, table};
use crate::load::{Clients, Gaps};
use crate::options::Options;
use crate::server::Server;
use crate::stall::Cause;
use crate::summary::LIVE_CLOSED;
use crate::ways::Way;

const SECOND: Duration = Duration::from_secs(1);

/// The server may have closed it within that gap, and the two sendings crossed with the closing.
#[test]
fn a_client_that_was_starved_and_then_sends_twice_is_not_in_time() {
    let start = Instant::now();
    let mut gaps = Gaps::since(start, start);
    for second in [1, 5, 6, 7] {
        // A gap counts from before one sending to after the next.
        gaps.sent(start + SECOND * second, start + SECOND * second * 2);
    }
    assert_eq!(gaps.longest_until(start + SECOND * 8), SECOND * 9);
    assert_eq!(gaps.longest_until(start + SECOND * 20), SECOND * 13);
}

#[tokio::test]
async fn a_run_with_any_violation_fails() {
    let server = Server::start(Way::Deadline, HOUR).await.unwrap();
    let mut summary = finish(server, Clients::default()).await;
    assert!(!summary.has_passed(), "nothing was tried");
    assert!(Clients::parse("thread panicked").is_none());
    let half_judged = "Lived\nLived\nExcused\nNotConnected";
    for (clients, passes) in [
        (half_judged, true),
        ("Lived\nExcused\nExcused", false),
        ("Lived\nLived\nClosedInTime 2s", false),
        ("Lived\nLived\nLeftOpen", false),
        ("Lived\nLived\nPanicked", false),
        ("Lived\nClosedWhenSilent 2s", true),
    ] {
        summary.clients = Clients::parse(clients).unwrap();
        assert_eq!(summary.has_passed(), passes, "{summary}");
    }
    summary.server.late.push(SECOND * 6);
    assert!(!summary.has_passed());
    summary.stall = Some((Cause::Blocked, SECOND));
    assert!(summary.has_passed(), "a stall makes it later: {summary}");
    summary.server.early.push(SECOND);
    assert!(!summary.has_passed());
}

#[test]
fn a_comparison_has_the_range_of_each_way() {
    let none = vec![vec![0]; Way::value_variants().len()];
    let columns = [(Cause::Blocked, 300), (Cause::Sigstop, 1500)];
    let mut columns = columns.map(|(cause, stall)| Column {
        cause,
        stall: Duration::from_millis(stall),
        closed: none.clone(),
    });
    columns[1].closed[Way::Timeout as usize] = vec![31, 5];
    let table = table(&columns);
    let rows: Vec<&str> = table.lines().collect();
    let head = "| how the server finds idle connections    | blocked, 0.3 s | SIGSTOP, 1.5 s |";
    assert_eq!(rows[0], head, "{table}");
    for row in [
        "| `timeout(IDLE, read)`                    |              0 |        5 to 31 |",
        "| `Deadline`                               |              0 |              0 |",
    ] {
        assert!(rows.contains(&row), "{table}");
    }
    assert_eq!(rows.len(), 2 + none.len(), "{table}");

    let printed = format!("way  x\n{LIVE_CLOSED}   7\n");
    assert_eq!(judge(Way::Timeout, &printed, false).unwrap(), 7);
    assert!(judge(Way::Deadline, &printed, false).is_err());
    assert!(judge(Way::Timeout, "no table", true).is_err());
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for (options, fits) in [
        ("--compare", true),
        ("--stall=4s", true),
        ("--pause=4s", true),
        ("--stall=4s --cause=quota", false),
        ("--stall=900ms --cause=quota", true),
        ("--cause=blocked,sigstop", false),
        ("--heartbeat=1500ms", false),
        ("--run-time=1s", false),
        ("--stall=9s", false),
        ("--stall=1s,2s", false),
        ("--compare --stall=400ms", true),
        ("--compare --stall=400ms,3s", false),
        ("--compare --stall=400ms,3s --run-time=4s", false),
        (
            "--compare --stall=400ms,3s --run-time=4s --cause=blocked,sigstop",
            true,
        ),
    ] {
        assert_eq!(of(options).check().is_ok(), fits, "{options}");
    }
    let problem = of("--stall=1s,2s").check().unwrap_err();
    assert!(problem.contains("only --compare takes more than one"));
}

fn of(options: &str) -> Options {
    let line = format!("keepalive-server {options}");
    Options::of(line.split(' ').map(str::to_owned))
}

#[test]
fn stalls_that_are_given_take_the_place_of_the_usual_ones() {
    let millis = |options| -> Vec<u128> {
        let stalls = of(options).stalls;
        stalls.iter().map(Duration::as_millis).collect()
    };
    assert_eq!(millis("--compare"), [300, 900]);
    assert_eq!(millis("--compare --stall 1s,2s"), [1000, 2000]);
    assert_eq!(millis("--stall 1s --stall 2s"), [2000]);
    let causes = of("--compare --cause blocked").causes;
    assert_eq!(causes, [Cause::Blocked]);
}

#[test]
fn each_run_of_a_comparison_has_as_much_time_before_its_stall() {
    let comparison = of("--compare");
    for &stall in &comparison.stalls {
        let run = comparison.with_stall(Cause::Quota, stall);
        assert_eq!(run.stalls, [stall]);
        assert_eq!(run.causes, [Cause::Quota]);
        assert_eq!(run.before_stall(), SECOND * 3 / 4);
        assert_eq!(run.run_time, SECOND * 3 / 2 + stall);
    }
}

#[test]
fn the_condition_has_the_timeout_less_a_heartbeat() {
    let condition = condition(&of("--compare --timeout=3s --heartbeat=1s --rounds=2"));
    assert!(condition.contains("of 200: the fewest to the most, with --rounds 2"));
    assert!(condition.ends_with("between two heartbeats, here 2s."));
}
