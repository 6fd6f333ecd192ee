//! The example `keepalive_server`, by real TCP clients on both of its ports.
//!
//! What the admin can do to connections is tested on the timer of tickwheel and on that of tokio.
//!
//! Nothing here asserts that something was fast. What waits for the server waits as long as
//! [`LONGEST_WAIT`]. Where a connection must not be closed, its timeout is an hour, unless the
//! test lets a deadline expire.

#[path = "../../examples/keepalive_server/admin.rs"]
mod admin;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../examples/keepalive_server/compare.rs"]
#[allow(dead_code, reason = "a test has no use for its runs")]
mod compare;
#[allow(dead_code, reason = "not all of it is used here")]
#[path = "../../examples/keepalive_server/load.rs"]
mod load;
#[path = "../../examples/keepalive_server/metrics.rs"]
mod metrics;
#[allow(dead_code, reason = "the command line is not read here")]
#[path = "../../examples/keepalive_server/options.rs"]
mod options;
#[allow(dead_code, reason = "not all of it is used here")]
#[path = "../../examples/keepalive_server/server.rs"]
mod server;
#[allow(dead_code, reason = "not all of it is used here")]
#[path = "../../examples/keepalive_server/summary.rs"]
mod summary;
#[allow(dead_code, reason = "not all of it is used here")]
#[path = "../../examples/keepalive_server/timer.rs"]
mod timer;

/// Makes two tests of each of these: one on tickwheel's timer, one on tokio's.
macro_rules! on_either_timer {
    ($($behaviour:ident,)*) => {
        mod on_tickwheel {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(super::TimerKind::Tickwheel).await;
            })*
        }
        mod on_tokio {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(super::TimerKind::Tokio).await;
            })*
        }
    };
}

mod closing;
mod flood;
#[cfg(unix)]
mod pause;
mod scrape;
mod sessions;
mod verdict;

use std::future::Future;
use std::net::SocketAddr;

use tickwheel::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::admin::{Admin, Limits};
use crate::load::Clients;
use crate::server::GREETING;
use crate::server::Server;
use crate::summary::Summary;
use crate::timer::{AnyTimer, TimerKind};

const LONGEST_WAIT: Duration = Duration::from_secs(60);

const NO_SUCH_CONNECTION: &str = "error no such connection; `list` shows those that are there";

/// A server with its admin port.
struct Running {
    timer: AnyTimer,
    server: Server,
    admin: Admin,
}

impl Running {
    async fn new(timeout: Duration) -> Running {
        Running::on(TimerKind::Tickwheel, timeout).await
    }

    async fn on(timer: TimerKind, timeout: Duration) -> Running {
        Running::start(timer, timeout, Limits::default()).await
    }

    async fn with_limits(timeout: Duration, limits: Limits) -> Running {
        Running::start(TimerKind::Tickwheel, timeout, limits).await
    }

    async fn start(timer: TimerKind, timeout: Duration, limits: Limits) -> Running {
        let timer = AnyTimer::new(timer);
        let server = Server::start(&timer, timeout).await.unwrap();
        let admin = Admin::start(server.site(), 0, limits).await.unwrap();
        Running {
            timer,
            server,
            admin,
        }
    }

    /// A client that is served.
    async fn client(&self) -> TcpStream {
        let mut client = TcpStream::connect(self.server.address()).await.unwrap();
        assert_eq!(wait_for(client.read_u8()).await.unwrap(), GREETING);
        client
    }

    async fn operator(&self) -> Operator {
        let stream = TcpStream::connect(self.admin.address()).await.unwrap();
        Operator(BufReader::new(stream))
    }

    /// Shuts both ports down, once all clients have gone.
    async fn finish(self, clients: Clients) -> Summary {
        let admin_panics = self.admin.shut_down().await;
        assert_eq!(admin_panics, 0);
        Summary {
            clients,
            server: self.server.shut_down(LONGEST_WAIT).await,
            timer: self.timer.kind(),
            metrics: self.timer.metrics(),
            pause: Duration::ZERO,
            wall_time: Duration::ZERO,
        }
    }
}

/// A session at the admin port.
struct Operator(BufReader<TcpStream>);

impl Operator {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next line, or nothing once the session has ended.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        wait_for(self.0.read_line(&mut line)).await.unwrap();
        line.trim_end().to_string()
    }

    /// The lines of the reply to a line, and the last of them.
    async fn ask_for_all(&mut self, line: &str) -> (Vec<String>, String) {
        self.send(format!("{line}\n")).await;
        let mut lines = Vec::new();
        loop {
            let line = self.line().await;
            assert_ne!(line, "", "the session ended within a reply");
            if line.starts_with("ok") || line.starts_with("error") {
                return (lines, line);
            }
            lines.push(line);
        }
    }

    /// The last line of the reply to a line, when it is the only one.
    async fn ask(&mut self, line: &str) -> String {
        let (lines, last) = self.ask_for_all(line).await;
        assert!(lines.is_empty(), "{line:?} was answered with {lines:?}");
        last
    }

    /// A client that is served, and may be silent for an hour more than others.
    async fn extended(&mut self, running: &Running) -> TcpStream {
        loop {
            let client = running.client().await;
            let newest = running.server.site().counters.served.get();
            if self.ask(&format!("extend {newest} 1h")).await == "ok" {
                return client;
            }
            // The machine was so busy that this client had its timeout before it was extended.
        }
    }

    /// The connections that are listed: number, time left, client.
    async fn list(&mut self) -> Vec<(u64, Duration, SocketAddr)> {
        let (lines, last) = self.ask_for_all("list").await;
        assert_eq!(last, format!("ok {}", lines.len()));
        let parse = |line: &String| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words.len(), 3, "{line}");
            let remaining = Duration::from_millis(words[1].parse().unwrap());
            (
                words[0].parse().unwrap(),
                remaining,
                words[2].parse().unwrap(),
            )
        };
        lines.iter().map(parse).collect()
    }

    async fn listed_clients(&mut self) -> Vec<SocketAddr> {
        let list = self.list().await;
        list.into_iter().map(|(_, _, client)| client).collect()
    }

    /// The number of a client's connection and its time left, or `None` if it is not listed.
    async fn find(&mut self, client: SocketAddr) -> Option<(u64, Duration)> {
        let mut list = self.list().await.into_iter();
        let (id, remaining, _) = list.find(|listed| listed.2 == client)?;
        Some((id, remaining))
    }
}

fn address(client: &TcpStream) -> SocketAddr {
    client.local_addr().unwrap()
}

async fn wait_for<F: Future>(future: F) -> F::Output {
    let waited = tokio::time::timeout(LONGEST_WAIT, future).await;
    waited.expect("it should not take that long")
}

async fn until(mut it_holds: impl AsyncFnMut() -> bool) {
    wait_for(async {
        while !it_holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

async fn assert_closed(mut client: TcpStream) {
    assert_eq!(wait_for(client.read(&mut [0])).await.unwrap(), 0);
}

async fn assert_open(client: &mut TcpStream) {
    let a_while = Duration::from_millis(20);
    let read = tokio::time::timeout(a_while, client.read_u8()).await;
    assert!(read.is_err(), "nothing comes, not even the end: {read:?}");
}
