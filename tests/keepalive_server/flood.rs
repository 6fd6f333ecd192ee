//! Clients that send as fast as they can hold up no other client.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tickwheel::{Duration, Instant};

use crate::load::Clients;
use crate::protocol::{GREETING, HEARTBEAT};
use crate::timer::TimerKind;
use crate::{LONGEST_WAIT, Running};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooding_client_per_worker_holds_up_nobody_on_tickwheel() {
    flooding_clients_hold_up_nobody(TimerKind::Tickwheel).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooding_client_per_worker_holds_up_nobody_on_tokio() {
    flooding_clients_hold_up_nobody(TimerKind::Tokio).await;
}

/// While the flood lasts, this blocks and awaits nothing. It runs on no worker, and so it notices
/// when the others have no worker left.
async fn flooding_clients_hold_up_nobody(timer: TimerKind) {
    let timeout = Duration::from_secs(1);
    let running = Running::on(timer, timeout).await;
    let server = running.server.address();
    let floods = [Flood::start(server), Flood::start(server)];
    let heartbeats = &running.server.site().counters.heartbeats;
    let started = Instant::now();
    while heartbeats.get() < 1_000_000 {
        assert!(started.elapsed() < LONGEST_WAIT, "the flood does not come");
        thread::sleep(Duration::from_millis(1));
    }

    let mut live = blocking_client(server);
    let mut silent = blocking_client(server);
    for _ in 0..60 {
        live.write_all(&[HEARTBEAT]).unwrap();
        thread::sleep(timeout / 20);
    }
    assert_eq!(
        silent.read(&mut [0]).unwrap(),
        0,
        "closed, as it was silent"
    );
    live.set_nonblocking(true).unwrap();
    let still_open = live.read(&mut [0]).unwrap_err();
    assert_eq!(still_open.kind(), io::ErrorKind::WouldBlock);

    drop((floods, live));
    let lived = Clients {
        total: 1,
        lived: 1,
        ..Clients::default()
    };
    let summary = running.finish(lived).await;
    assert!(summary.has_passed(), "{summary}");
    assert_eq!(summary.server.closed_late.len(), 1);
}

/// A client that is served, for threads that may block.
fn blocking_client(server: SocketAddr) -> std::net::TcpStream {
    let mut client = std::net::TcpStream::connect(server).unwrap();
    client.set_read_timeout(Some(LONGEST_WAIT)).unwrap();
    let mut greeting = [0];
    client.read_exact(&mut greeting).expect("it is served");
    assert_eq!(greeting, [GREETING]);
    client
}

/// A thread that sends heartbeats as fast as the server takes them, until this is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(server: SocketAddr) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut client = blocking_client(server);
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
