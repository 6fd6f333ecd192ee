//! What closes a connection, and when: its deadline.

use tickwheel::{Duration, Instant};
use tokio::io::AsyncWriteExt;

use super::{HOUR, Running, assert_closed};
use crate::connection::HEARTBEAT;
use crate::keepalives::{Keepalives, TimerKind};
use crate::load::Clients;
use crate::server::Site;

#[tokio::test]
async fn no_connection_is_closed_within_a_timeout_of_its_heartbeat() {
    let timeout = Duration::from_secs(1);
    for timer in [TimerKind::Tickwheel, TimerKind::Tokio] {
        let running = Running::on(timer, timeout).await;
        let mut client = running.client().await;
        let mut last_sent = Instant::now();
        for _ in 0..3 {
            tokio::time::sleep(timeout / 20).await;
            last_sent = Instant::now();
            client.write_all(&[HEARTBEAT]).await.unwrap();
        }
        assert_closed(client).await;
        assert!(last_sent.elapsed() >= timeout, "{timer:?}");
        let server = running.finish(Clients::default()).await.server;
        assert!(server.early.is_empty());
        assert_eq!(server.late.len() + server.late_after_stall.len(), 1);
    }
}

#[tokio::test]
async fn a_heartbeat_after_the_deadline_is_refused() {
    for timer in [TimerKind::Tickwheel, TimerKind::Tokio] {
        let keepalives = Keepalives::new(timer);
        let client = "127.0.0.1:1".parse().unwrap();
        let mut deadline = keepalives.insert(client, Duration::from_millis(1));
        assert!(deadline.has_expired().await);
        assert!(!deadline.handle().reset(), "{timer:?}");
    }
}

#[test]
fn what_closes_after_a_pause_is_told_apart_by_its_last_heartbeat() {
    let site = Site::new(TimerKind::Tokio, HOUR);
    let before = Instant::now();
    assert!(!site.has_stalled_since(before));
    site.set_paused(true);
    assert!(site.has_stalled_since(Instant::now()));
    site.set_paused(false);
    assert!(site.has_stalled_since(before));
    assert!(!site.has_stalled_since(Instant::now()));
}

/// It blocks the only thread of the runtime, which is what a stall is.
#[tokio::test]
async fn a_closing_after_a_stall_of_the_driver_is_told_apart() {
    let timeout = Duration::from_millis(300);
    let running = Running::new(timeout).await;
    let client = running.client().await;
    std::thread::sleep(2 * timeout);
    assert_closed(client).await;
    let summary = running.finish(Clients::default()).await;
    assert!(summary.server.late.is_empty());
    assert_eq!(summary.server.late_after_stall.len(), 1);
    assert_eq!(summary.figure("deadlines given a grace by a stall"), "1");
    assert_eq!(summary.figure("of these, closed after a stall"), "1");
    let table = summary.to_string();
    assert!(!table.contains("closed late by"), "no row is 0: {table}");
}
