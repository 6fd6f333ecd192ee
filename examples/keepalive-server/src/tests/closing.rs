//! Each way closes a connection, and none too early.

use clap::ValueEnum;
use tickwheel::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{client_of, finish, wait_for};
use crate::connection::HEARTBEAT;
use crate::load::Clients;
use crate::server::Server;
use crate::ways::{LastSeen, Way};

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
