//! Each way closes a connection, and none too early. Clients that send as fast as they can hold up
//! no other client.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::thread;

use clap::ValueEnum;
use tickwheel::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{LONGEST_WAIT, client_of, extended_client_of, finish, handle, wait_for};
use crate::connection::{GREETING, HEARTBEAT};
use crate::load::Clients;
use crate::on_tokio::idioms::LastSeen;
use crate::server::Server;
use crate::ways::Way;

#[tokio::test]
async fn no_connection_is_closed_within_a_timeout_of_its_heartbeat() {
    let timeout = Duration::from_millis(500);
    for &way in Way::value_variants() {
        let server = Server::start(way, timeout).await.unwrap();
        let mut client = client_of(&server).await;
        let mut last_sent = Instant::now();
        for _ in 0..3 {
            tokio::time::sleep(timeout / 20).await;
            last_sent = Instant::now();
            client.write_all(&[HEARTBEAT]).await.unwrap();
        }
        assert_eq!(wait_for(client.read(&mut [0])).await.unwrap(), 0);
        assert!(last_sent.elapsed() >= timeout, "{way:?}");
        let server = finish(server, Clients::default()).await.server;
        assert!(server.early.is_empty(), "{way:?}");
        assert_eq!(server.late.len(), 1, "{way:?}");
    }
}

#[tokio::test]
async fn a_heartbeat_after_the_deadline_is_refused() {
    let last_seen = LastSeen::new(Duration::from_millis(1));
    last_seen.expired().await;
    assert!(!last_seen.reset());
}

/// A connection that must not be closed here may be silent for an hour, however busy the machine
/// is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooding_client_per_worker_holds_up_nobody() {
    let timeout = Duration::from_secs(1);
    let server = Server::start(Way::Deadline, timeout).await.unwrap();
    let mut floods = Vec::new();
    for _ in 0..2 {
        let client = extended_client_of(&server).await.into_std().unwrap();
        client.set_nonblocking(false).unwrap();
        let mut sender = client.try_clone().unwrap();
        // It ends when its socket is shut down.
        thread::spawn(move || while sender.write_all(&[HEARTBEAT; 1 << 16]).is_ok() {});
        floods.push(client);
    }
    let heartbeats = &server.site.heartbeats;
    // This blocks and awaits nothing. It runs on no worker, and so it notices when the others have
    // no worker left.
    let start = Instant::now();
    while heartbeats.load(Ordering::Relaxed) < 1_000_000 {
        assert!(start.elapsed() < LONGEST_WAIT, "the flood does not come");
        thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    let mut silent = std::net::TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(LONGEST_WAIT)).unwrap();
    let mut greeting = Vec::new();
    silent.read_to_end(&mut greeting).expect("it is closed");
    assert_eq!(greeting, [GREETING], "it was served");
    assert!(start.elapsed() >= timeout, "early");

    // A heartbeat pushes back what would pass by itself.
    let mut live = extended_client_of(&server).await;
    let left = |live: &tokio::net::TcpStream| handle(&server, live).unwrap().remaining().unwrap();
    let before = left(&live);
    let asked = Instant::now();
    tokio::time::sleep(timeout / 10).await;
    live.write_all(&[HEARTBEAT]).await.unwrap();
    wait_for(async {
        while left(&live) + asked.elapsed() <= before + timeout / 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let read = tokio::time::timeout(timeout / 50, live.read_u8()).await;
    assert!(read.is_err(), "nothing comes, not even the end: {read:?}");

    for flood in floods {
        flood.shutdown(Shutdown::Both).unwrap();
    }
    drop(live);
    let lived = Clients::parse("Lived").unwrap();
    let summary = finish(server, lived).await;
    assert!(summary.has_passed(), "{summary}");
}
