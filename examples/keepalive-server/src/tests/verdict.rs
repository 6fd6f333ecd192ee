//! The verdict on a run: which clients were in time, what counts, and what is left out.

use tickwheel::{Duration, Instant};

use super::{HOUR, Running};
use crate::load::{Clients, Gaps};
use crate::summary::{Summary, late};

const SECOND: Duration = Duration::from_secs(1);

impl Summary {
    /// What the table says.
    pub(super) fn figure(&self, what: &str) -> String {
        let table = self.to_string();
        let line = table.lines().find_map(|line| line.strip_prefix(what));
        let line = line.unwrap_or_else(|| panic!("no {what:?} in {table}"));
        line.trim().to_string()
    }
}

/// The server may have closed it within that gap, and the two sendings crossed with the closing.
#[test]
fn a_client_that_was_starved_and_then_sends_twice_is_not_in_time() {
    let start = Instant::now();
    let mut gaps = Gaps {
        last_sent: (start, start),
        longest: Duration::ZERO,
    };
    for second in [1, 5, 6, 7] {
        let sent = start + SECOND * second;
        gaps.sent(sent, sent);
    }
    assert_eq!(gaps.longest_until(start + SECOND * 8), SECOND * 4);
}

#[test]
fn a_gap_counts_from_before_one_sending_to_after_the_next() {
    let start = Instant::now();
    let mut gaps = Gaps {
        last_sent: (start, start + SECOND),
        longest: Duration::ZERO,
    };
    gaps.sent(start + SECOND * 2, start + SECOND * 3);
    assert_eq!(gaps.longest_until(start + SECOND * 4), SECOND * 3);
    assert_eq!(gaps.longest_until(start + SECOND * 9), SECOND * 7);
}

#[test]
fn what_the_load_prints_of_its_clients_is_counted() {
    let printed = "lived\nexcused\nlived\nclosed-when-silent\ninterrupted\npanicked\n\
                   not-connected Connection refused (os error 111)\nnot-connected later\n\
                   closed-in-time 1500\nleft-open";
    let clients = Clients::parse(printed).unwrap();
    assert_eq!((clients.total, clients.lived, clients.excused), (10, 2, 1));
    assert_eq!((clients.closed_when_silent, clients.interrupted), (1, 1));
    assert_eq!((clients.panics, clients.not_connected), (1, 2));
    let refused = "Connection refused (os error 111)";
    assert_eq!(clients.first_connect_error.as_deref(), Some(refused));
    assert_eq!(clients.closed_in_time, [Duration::from_micros(1500)]);
    assert_eq!(clients.left_open, 1);
    for other in ["thread panicked", "closed-in-time", "closed-in-time 1s"] {
        assert!(Clients::parse(other).is_none(), "{other:?}");
    }
}

#[test]
fn lateness_is_told_by_rank() {
    let all: Vec<_> = (1..=200).rev().map(Duration::from_millis).collect();
    assert_eq!(late(&all), ["100.000 ms", "198.000 ms", "200.000 ms"]);
    assert_eq!(late(&all[..1]), ["200.000 ms"; 3]);
    assert_eq!(late(&[]), ["-"; 3]);
}

#[tokio::test]
async fn a_run_in_which_most_clients_were_held_up_does_not_pass() {
    let running = Running::new(HOUR).await;
    let mut summary = running.finish(Clients::default()).await;
    let mut verdict = |lived: usize, excused: usize, not_connected: usize| {
        summary.clients = Clients {
            total: lived + excused + not_connected,
            lived,
            excused,
            not_connected,
            ..Clients::default()
        };
        summary.has_passed()
    };
    assert!(verdict(5, 3, 2));
    assert!(!verdict(4, 3, 3));
    assert!(!verdict(0, 0, 0), "nothing was tried");
}

#[tokio::test]
async fn a_run_with_a_closing_too_early_too_late_or_none_fails() {
    let lived = Clients::parse("lived").unwrap();
    let mut summary = Running::new(HOUR).await.finish(lived).await;
    assert!(summary.has_passed(), "{summary}");
    summary.server.late_after_stall.push(SECOND * 6);
    assert!(!summary.has_passed());
    summary.pause = SECOND;
    assert!(summary.has_passed(), "a pause makes it later: {summary}");
    summary.server.early.push(SECOND);
    assert!(!summary.has_passed());
    summary.server.early.clear();
    summary.clients.closed_in_time.push(SECOND);
    assert!(!summary.has_passed());
    summary.clients.closed_in_time.clear();
    summary.clients.left_open = 1;
    assert!(!summary.has_passed());
}
