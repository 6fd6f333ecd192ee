//! Clients that send as fast as they can hold up no other client.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tickwheel::{Duration, Instant};
use tokio::io::AsyncWriteExt;

use super::{LONGEST_WAIT, Running, assert_open, until};
use crate::connection::{GREETING, HEARTBEAT};
use crate::load::Clients;

/// Whoever must not be closed here may be silent for an hour, however busy the machine is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooding_client_per_worker_holds_up_nobody() {
    let timeout = Duration::from_secs(1);
    let running = Running::new(timeout).await;
    let mut floods = Vec::new();
    for _ in 0..2 {
        let client = running.extended().await.into_std().unwrap();
        client.set_nonblocking(false).unwrap();
        floods.push(Flood::start(client));
    }
    let heartbeats = &running.server.site.counters.heartbeats;
    // This blocks and awaits nothing. It runs on no worker, and so it notices when the others have
    // no worker left.
    let start = Instant::now();
    while heartbeats.get() < 1_000_000 {
        assert!(start.elapsed() < LONGEST_WAIT, "the flood does not come");
        thread::sleep(Duration::from_millis(1));
    }
    let start = Instant::now();
    let mut silent = TcpStream::connect(running.server.address).unwrap();
    silent.set_read_timeout(Some(LONGEST_WAIT)).unwrap();
    let mut greeting = Vec::new();
    silent.read_to_end(&mut greeting).expect("it is closed");
    assert_eq!(greeting, [GREETING], "it was served");
    assert!(start.elapsed() >= timeout, "early");

    // A heartbeat pushes back what would pass by itself.
    let mut live = running.extended().await;
    let left = |live: &_| running.handle(live).unwrap().remaining().unwrap();
    let before = left(&live);
    let asked = Instant::now();
    tokio::time::sleep(timeout / 10).await;
    live.write_all(&[HEARTBEAT]).await.unwrap();
    until(async || {
        let passed = asked.elapsed();
        left(&live) + passed > before + timeout / 100
    })
    .await;
    assert_open(&mut live).await;

    drop((floods, live));
    let lived = Clients::parse("lived").unwrap();
    let summary = running.finish(lived).await;
    assert!(summary.has_passed(), "{summary}");
}

/// A thread that sends heartbeats as fast as the server takes them, until this is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(mut client: TcpStream) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let sender = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                client.write_all(&[HEARTBEAT; 1 << 16]).unwrap();
            }
        });
        Flood {
            stop,
            sender: Some(sender),
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.take().map(JoinHandle::join);
        assert!(thread::panicking() || sent.is_some_and(|sent| sent.is_ok()));
    }
}
