//! The verdict on a run and on a comparison: which clients were in time, and what counts.

use clap::ValueEnum;
use tickwheel::{Duration, Instant};

use super::{HOUR, finish};
use crate::compare::{judge, table};
use crate::load::{Clients, Gaps};
use crate::options::Options;
use crate::server::Server;
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
    summary.pause = Some(SECOND);
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
        let options = Options::of(line.split(' ').map(str::to_owned));
        assert_eq!(options.check().is_ok(), fits, "{line}");
    }
}
