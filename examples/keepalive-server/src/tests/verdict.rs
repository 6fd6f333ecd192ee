//! The verdict on a run and on a comparison: which clients were in time, and what counts.

use clap::{Parser, ValueEnum};
use tickwheel::{Duration, Instant};

use super::{HOUR, finish};
use crate::compare::{judge, table};
use crate::load::{Clients, Gaps, Outcome};
use crate::options::Options;
use crate::server::Server;
use crate::summary::{LIVE_CLOSED, late};
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

#[test]
fn what_the_load_prints_of_its_clients_is_counted() {
    let printed = "Lived\nExcused\nLived\nNotConnected Connection refused (os error 111)\n\
                   NotConnected later\nClosedInTime 2ms";
    let clients = Clients::parse(printed).unwrap();
    let of_each = Outcome::value_variants()
        .iter()
        .map(|outcome| clients.count(*outcome));
    assert_eq!(of_each.collect::<Vec<_>>(), [2, 0, 1, 2, 1, 0, 0]);
    let mut refused = clients.values(Outcome::NotConnected);
    assert_eq!(refused.next(), Some("Connection refused (os error 111)"));
    assert!(Clients::parse("thread panicked").is_none());
}

#[test]
fn lateness_is_told_by_rank() {
    let all: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
    assert_eq!(late(&all), ["100.000 ms", "198.000 ms", "200.000 ms"]);
    assert_eq!(late(&all[..1]), ["200.000 ms"; 3]);
    assert_eq!(late(&[]), ["-"; 3]);
}

#[tokio::test]
async fn a_run_with_any_violation_fails() {
    let server = Server::start(Way::Deadline, HOUR).await.unwrap();
    let mut summary = finish(server, Clients::default()).await;
    assert!(!summary.has_passed(), "nothing was tried");
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
    summary.pause = SECOND;
    assert!(summary.has_passed(), "a pause makes it later: {summary}");
    summary.server.early.push(SECOND);
    assert!(!summary.has_passed());
}

#[test]
fn a_comparison_has_the_range_of_each_way() {
    let mut closed = vec![vec![0]; Way::value_variants().len()];
    closed[Way::Timeout as usize] = vec![31, 5];
    let table = table(&closed);
    assert!(table.contains("with tokio         5 to 31\n"), "{table}");
    assert!(table.ends_with("`Deadline`                                0"));

    let printed = format!("way  x\n{LIVE_CLOSED}   7\n");
    assert_eq!(judge(Way::Timeout, &printed, false).unwrap(), 7);
    assert!(judge(Way::Deadline, &printed, false).is_err());
    assert!(judge(Way::Timeout, "no table", true).is_err());
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for (options, fits) in [
        ("--compare", true),
        ("--pause=4s", true),
        ("--heartbeat=1500ms", false),
        ("--run-time=1s", false),
        ("--pause=9s", false),
        ("--compare --pause=400ms", false),
    ] {
        let line = format!("keepalive-server {options}");
        let options = Options::parse_from(line.split(' '));
        assert_eq!(options.check().is_ok(), fits, "{line}");
    }
}
