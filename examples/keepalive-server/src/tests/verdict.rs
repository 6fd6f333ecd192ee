//! The verdict on a run: which clients were in time, what counts, and what is left out.

use std::net::SocketAddr;

use tickwheel::{Duration, Instant};

use super::{HOUR, Running, address};
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
                   closed-in-time 127.0.0.1:7 1500\nleft-open 127.0.0.1:8";
    let clients = Clients::parse(printed).unwrap();
    assert_eq!((clients.total, clients.lived, clients.excused), (10, 2, 1));
    assert_eq!((clients.closed_when_silent, clients.interrupted), (1, 1));
    assert_eq!((clients.panics, clients.not_connected), (1, 2));
    let refused = "Connection refused (os error 111)";
    assert_eq!(clients.first_connect_error.as_deref(), Some(refused));
    let closed = ("127.0.0.1:7".parse().unwrap(), Duration::from_micros(1500));
    assert_eq!(clients.closed_in_time, [closed]);
    assert_eq!(clients.left_open, ["127.0.0.1:8".parse().unwrap()]);
    for other in ["thread panicked", "left-open", "closed-in-time 127.0.0.1:7"] {
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
async fn a_run_that_closed_a_connection_early_or_far_too_late_does_not_pass() {
    let lived = Clients::parse("lived").unwrap();
    let mut summary = Running::new(HOUR).await.finish(lived).await;
    assert!(summary.has_passed(), "{summary}");
    summary.server.late_after_stall.push(SECOND * 6);
    assert!(!summary.has_passed());
    summary.pause = SECOND;
    assert!(summary.has_passed(), "a pause makes it later: {summary}");
    summary.server.early.push(SECOND);
    assert!(!summary.has_passed());
}

#[tokio::test]
async fn the_verdict_leaves_out_what_the_admin_did_and_nothing_else() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let (kicked, extended) = (running.client().await, running.client().await);
    let (kicked_address, extended_address) = (address(&kicked), address(&extended));
    let kick = format!("kick {kicked_address}");
    assert_eq!(operator.ask(&kick).await, "ok");
    let extend = format!("extend {extended_address} 1h");
    assert_eq!(operator.ask(&extend).await, "ok");
    drop((kicked, extended));
    let mut summary = running.finish(Clients::default()).await;

    let mut verdict = |in_time: SocketAddr, left_open: SocketAddr, cancelled: SocketAddr| {
        summary.server.cancelled = vec![cancelled];
        summary.clients = Clients {
            total: 2,
            closed_in_time: vec![(in_time, Duration::ZERO)],
            left_open: vec![left_open],
            ..Clients::default()
        };
        summary.has_passed()
    };
    let (kicked, extended) = (kicked_address, extended_address);
    assert!(verdict(kicked, extended, kicked));
    assert!(!verdict(extended, extended, kicked), "closed, not kicked");
    assert!(!verdict(kicked, kicked, kicked), "left open, not extended");
    assert!(!verdict(kicked, extended, extended), "cancelled by nobody");
}
