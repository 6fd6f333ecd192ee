//! The verdict on a run: what it counts, and what it leaves out.

use std::net::SocketAddr;

use tickwheel::Duration;

use crate::common::HOUR;
use crate::load::{Clients, ClosedInTime};
use crate::{Running, address};

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
}

#[tokio::test]
async fn a_run_that_closed_a_connection_far_too_late_does_not_pass() {
    let lived = Clients {
        total: 1,
        lived: 1,
        ..Clients::default()
    };
    let mut summary = Running::new(HOUR).await.finish(lived).await;
    assert!(summary.has_passed(), "{summary}");
    summary.server.closed_late.record(6_000_000).unwrap();
    assert!(!summary.has_passed());
}

#[tokio::test]
async fn the_verdict_leaves_out_what_the_admin_did_and_nothing_else() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let (kicked, extended) = (running.client().await, running.client().await);
    assert_eq!(operator.ask("kick 1").await, "ok");
    assert_eq!(operator.ask("extend 2 1h").await, "ok");
    let addresses = (address(&kicked), address(&extended));
    drop((kicked, extended));
    let mut summary = running.finish(Clients::default()).await;

    let mut verdict = |in_time: SocketAddr, left_open: SocketAddr, cancelled: usize| {
        summary.server.cancelled = cancelled;
        summary.clients = Clients {
            total: 2,
            closed_in_time: vec![ClosedInTime {
                client: in_time,
                longest_gap: Duration::ZERO,
            }],
            left_open: vec![left_open],
            ..Clients::default()
        };
        summary.has_passed()
    };
    let (kicked, extended) = addresses;
    assert!(verdict(kicked, extended, 1));
    assert!(!verdict(extended, extended, 1), "closed, but not kicked");
    assert!(!verdict(kicked, kicked, 1), "left open, but not extended");
    assert!(!verdict(kicked, extended, 2), "cancelled by nobody");
}
