//! What closes a connection: the admin, and its own deadline. Each on either timer.

use std::future::pending;
use std::net::SocketAddr;

use clap::Parser;
use tickwheel::{Duration, Instant};
use tokio::io::AsyncWriteExt;

use crate::common::HOUR;
use crate::load::{Clients, Load};
use crate::options::Options;
use crate::server::HEARTBEAT;
use crate::server::{ConnectionId, Refusal, Site};
use crate::timer::Outcome;
use crate::timer::{AnyTimer, TimerKind};
use crate::{Running, address, assert_closed, assert_open, until, wait_for};

on_either_timer! {
    list_shows_number_time_and_client_of_each_open_connection,
    kick_closes_that_connection_and_no_other,
    an_extended_connection_outlives_its_timeout_another_does_not,
    an_extension_that_is_shortened_holds_no_longer_than_it_says,
    drain_closes_every_connection_and_later_ones_are_served,
    a_deadline_that_has_expired_is_neither_kicked_nor_drained,
    no_connection_is_closed_within_a_timeout_of_its_heartbeat,
    a_run_whose_live_clients_are_kicked_and_drained_passes,
    the_summary_names_the_timer,
}

async fn list_shows_number_time_and_client_of_each_open_connection(timer: TimerKind) {
    let running = Running::on(timer, HOUR).await;
    let mut operator = running.operator().await;
    assert!(operator.list().await.is_empty());
    let (first, second) = (running.client().await, running.client().await);
    let list = operator.list().await;
    let who: Vec<_> = list.iter().map(|(id, _, client)| (*id, *client)).collect();
    assert_eq!(who, [(1, address(&first)), (2, address(&second))]);
    for (_, remaining, _) in list {
        // A deadline that was made without reading the clock may be two ticks later than its
        // timeout.
        let longest = HOUR + Duration::from_millis(2);
        assert!(
            remaining <= longest && remaining > HOUR / 2,
            "{remaining:?}"
        );
    }
    drop(first);
    until(async || operator.listed_clients().await == [address(&second)]).await;
}

async fn kick_closes_that_connection_and_no_other(timer: TimerKind) {
    let running = Running::on(timer, HOUR).await;
    let mut operator = running.operator().await;
    let (mut kept, kicked) = (running.client().await, running.client().await);
    let (number, _) = operator.find(address(&kicked)).await.unwrap();
    assert_eq!(operator.ask(&format!("kick {number}")).await, "ok");
    assert_eq!(operator.listed_clients().await, [address(&kept)]);
    assert_closed(kicked).await;
    assert_open(&mut kept).await;
    let again = operator.ask(&format!("kick {number}")).await;
    assert!(again.starts_with("error"), "{again}");

    kept.write_all(&[HEARTBEAT]).await.unwrap();
    until(async || running.server.site().counters.resets.get() == 1).await;
    drop(kept);
    let summary = running.finish(Clients::default()).await;
    let counters = &summary.server.site.counters;
    assert_eq!((counters.kicked.get(), counters.drained.get()), (1, 0));
    assert_eq!(summary.server.cancelled, 1);
    assert_eq!(counters.closed_by_client.get(), 1);
}

async fn an_extended_connection_outlives_its_timeout_another_does_not(timer: TimerKind) {
    let timeout = Duration::from_millis(300);
    let running = Running::on(timer, timeout).await;
    let mut operator = running.operator().await;
    let mut extended = operator.extended(&running).await;
    let before = Instant::now();
    let other = running.client().await;
    let other_address = address(&other);
    assert_closed(other).await;
    assert!(before.elapsed() >= timeout);
    assert_eq!(operator.find(other_address).await, None);

    // This one has been silent for longer.
    assert_open(&mut extended).await;
    assert!(operator.find(address(&extended)).await.is_some());
    // Its next heartbeat does not end the extension.
    extended.write_all(&[HEARTBEAT]).await.unwrap();
    until(async || running.server.site().counters.resets.get() == 1).await;
    let (_, remaining) = operator.find(address(&extended)).await.unwrap();
    assert!(remaining > HOUR / 2, "{remaining:?}");
}

async fn drain_closes_every_connection_and_later_ones_are_served(timer: TimerKind) {
    let running = Running::on(timer, HOUR).await;
    let mut operator = running.operator().await;
    let clients = [
        running.client().await,
        running.client().await,
        running.client().await,
    ];
    assert_eq!(operator.ask("drain").await, "ok 3");
    assert_eq!(operator.ask("drain").await, "ok 0");
    assert!(operator.list().await.is_empty());
    for client in clients {
        assert_closed(client).await;
    }
    let mut later = running.client().await;
    assert_eq!(operator.listed_clients().await, [address(&later)]);
    assert_open(&mut later).await;
}

async fn a_deadline_that_has_expired_is_neither_kicked_nor_drained(timer: TimerKind) {
    // A clock that moves only when all wait: no pause of the machine can pass for an hour.
    tokio::time::pause();
    let site = Site::new(&AnyTimer::new(timer), HOUR);
    let client = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut deadline = site.open(ConnectionId(1), client);
    assert_eq!(deadline.outcome().await, Outcome::Expired);
    assert_eq!(site.kick(ConnectionId(1)), Err(Refusal::JustEnding));
    assert_eq!(site.remaining(ConnectionId(1)), None);
    assert_eq!(site.drain(), 0, "its deadline was not pending");
    drop(deadline);
    assert!(site.connections().is_empty());
}

async fn an_extension_that_is_shortened_holds_no_longer_than_it_says(timer: TimerKind) {
    let running = Running::on(timer, Duration::from_millis(300)).await;
    let mut operator = running.operator().await;
    let client = loop {
        let client = running.client().await;
        let newest = running.server.site().counters.served.get();
        if operator.ask(&format!("extend {newest} 1h")).await == "ok" {
            assert_eq!(operator.ask(&format!("extend {newest} 1ms")).await, "ok");
            break client;
        }
        // The machine was so busy that this client had its timeout before it was extended.
    };
    assert_closed(client).await;
}

async fn no_connection_is_closed_within_a_timeout_of_its_heartbeat(timer: TimerKind) {
    let timeout = Duration::from_secs(1);
    let running = Running::on(timer, timeout).await;
    let mut client = running.client().await;
    let mut last_sent = Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(timeout / 20).await;
        last_sent = Instant::now();
        client.write_all(&[HEARTBEAT]).await.unwrap();
    }
    assert_closed(client).await;
    assert!(last_sent.elapsed() >= timeout);
    let summary = running.finish(Clients::default()).await;
    assert!(summary.server.early.is_empty());
    assert_eq!(summary.server.closed_late.len(), 1);
}

async fn the_summary_names_the_timer(timer: TimerKind) {
    let summary = Running::on(timer, HOUR).await;
    let summary = summary.finish(Clients::default()).await.to_string();
    let first: Vec<&str> = summary.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(first, ["timer", &timer.to_string()]);
}

async fn a_run_whose_live_clients_are_kicked_and_drained_passes(timer: TimerKind) {
    let options = "keepalive_server --connections 30 --timeout 60s --heartbeat 50ms --run-time 61s";
    let options = Options::parse_from(options.split(' '));
    let running = Running::on(timer, options.timeout).await;
    let mut operator = running.operator().await;
    let load = Load::new(&running.timer, running.server.address(), &options);
    let load = tokio::spawn(load.run(pending()));
    until(async || operator.list().await.len() == 30).await;
    assert_eq!(operator.ask("kick 7").await, "ok");
    assert_eq!(operator.ask("kick 11").await, "ok");
    assert_eq!(operator.ask("drain").await, "ok 28");
    let clients = wait_for(load).await.unwrap();
    assert_eq!(clients.closed_in_time.len(), 30);
    let summary = running.finish(clients).await;
    assert!(summary.has_passed(), "{summary}");
    let counters = &summary.server.site.counters;
    assert_eq!((counters.kicked.get(), counters.drained.get()), (2, 28));
    assert_eq!(summary.server.cancelled, 30);
}
