//! What closes a connection: the admin, and its own deadline.

use clap::Parser;
use std::future::pending;
use tickwheel::{Duration, Instant};
use tokio::io::AsyncWriteExt;

use super::{HOUR, Running, address, assert_closed, assert_open, until, wait_for};
use crate::connection::HEARTBEAT;
use crate::keepalives::{Keepalives, TimerKind};
use crate::load::{self, Clients};
use crate::options::Options;
use crate::server::Site;

#[tokio::test]
async fn list_shows_client_and_time_of_each_open_connection() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    assert!(operator.list().await.is_empty());
    let (first, second) = (running.client().await, running.client().await);
    let mut clients = [address(&first), address(&second)];
    clients.sort_unstable();
    let list = operator.list().await;
    let who: Vec<_> = list.iter().map(|(client, _)| *client).collect();
    assert_eq!(who, clients);
    // A deadline that was made without reading the clock may be two ticks later than its timeout.
    let longest = HOUR + Duration::from_millis(2);
    for (_, left) in list {
        assert!(left <= longest && left > HOUR / 2, "{left:?}");
    }
    drop(first);
    until(async || operator.listed_clients().await == [address(&second)]).await;
}

#[tokio::test]
async fn kick_closes_that_connection_and_no_other() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let (mut kept, kicked) = (running.client().await, running.client().await);
    let kick = format!("kick {}", address(&kicked));
    assert_eq!(operator.ask(&kick).await, "ok");
    assert_eq!(operator.listed_clients().await, [address(&kept)]);
    assert_closed(kicked).await;
    assert_open(&mut kept).await;
    let again = operator.ask(&kick).await;
    assert!(again.starts_with("error no such connection"), "{again}");

    kept.write_all(&[HEARTBEAT]).await.unwrap();
    until(async || running.resets() == 1).await;
    drop(kept);
    let summary = running.finish(Clients::default()).await;
    assert_eq!(summary.server.cancelled.len(), 1);
    assert_eq!(summary.site.by_admin().closed.len(), 1);
    assert_eq!(summary.site.counters.closed_by_client.get(), 1);
}

#[tokio::test]
async fn an_extended_connection_outlives_its_timeout_another_does_not() {
    let timeout = Duration::from_millis(300);
    let running = Running::new(timeout).await;
    let mut operator = running.operator().await;
    let mut extended = operator.extended(&running).await;
    let before = Instant::now();
    assert_closed(running.client().await).await;
    assert!(before.elapsed() >= timeout);

    // This one has been silent for longer.
    assert_open(&mut extended).await;
    assert_eq!(operator.listed_clients().await, [address(&extended)]);
    // Its next heartbeat does not end the extension.
    extended.write_all(&[HEARTBEAT]).await.unwrap();
    until(async || running.resets() == 1).await;
    let left = operator.left(&extended).await.unwrap();
    assert!(left > HOUR / 2, "{left:?}");
    // A shorter one takes its place.
    let shorten = format!("extend {} 1ms", address(&extended));
    assert_eq!(operator.ask(&shorten).await, "ok");
    assert_closed(extended).await;
}

#[tokio::test]
async fn drain_closes_every_connection_and_later_ones_are_served() {
    let running = Running::new(HOUR).await;
    let mut operator = running.operator().await;
    let clients = [running.client().await, running.client().await];
    assert_eq!(operator.ask("drain").await, "ok 2");
    assert_eq!(operator.ask("drain").await, "ok 0");
    assert!(operator.list().await.is_empty());
    for client in clients {
        assert_closed(client).await;
    }
    let mut later = running.client().await;
    assert_eq!(operator.listed_clients().await, [address(&later)]);
    assert_open(&mut later).await;
}

#[tokio::test]
async fn on_tokios_timers_nothing_is_listed() {
    let running = Running::on(TimerKind::Tokio, HOUR).await;
    let reply = running.operator().await.ask("drain").await;
    assert_eq!(reply, "error tokio's timers have no list of connections");
}

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
    assert_eq!(
        summary.figure("closed after a stall, not in the above"),
        "1"
    );
    let table = summary.to_string();
    assert!(!table.contains("closed late by"), "no row is 0: {table}");
}

#[tokio::test]
async fn a_run_whose_live_clients_are_kicked_and_drained_passes() {
    let options = "keepalive-server --connections 30 --timeout 60s --heartbeat 50ms --run-time 61s";
    let options = Options::parse_from(options.split(' '));
    let running = Running::new(options.timeout).await;
    let mut operator = running.operator().await;
    let server = running.server.address;
    let load = tokio::spawn(async move { load::run_clients(&options, server, pending()).await });
    until(async || operator.list().await.len() == 30).await;
    let kicked = operator.listed_clients().await[7];
    assert_eq!(operator.ask(&format!("kick {kicked}")).await, "ok");
    assert_eq!(operator.ask("drain").await, "ok 29");
    let lines = wait_for(load).await.unwrap();
    let clients = Clients::parse(&lines.join("\n")).unwrap();
    assert_eq!((clients.total, clients.closed_in_time.len()), (30, 30));
    let summary = running.finish(clients).await;
    assert!(summary.has_passed(), "{summary}");
    assert_eq!(summary.site.by_admin().closed.len(), 30);
}
